#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "gguf.h"

namespace heddle::gguf {

/// The C enumeration is the one list of value types; its constants go by their own names.
using ValueType = ::gguf_type;

/// Whether `number`, as found in a file, names a value type.
constexpr bool is_value_type(std::int64_t number) {
    return 0 <= number && number < GGUF_TYPE_COUNT;
}

/// `u32`, `str`, `arr`, ...; null for numbers that name no type.
const char* name_of(ValueType type);

/// Bytes of one value; 0 for strings, arrays and numbers that name no type.
std::size_t size_of(ValueType type);

/// The value type that holds a T.
template <class T>
constexpr ValueType value_type_of() {
    if constexpr (std::is_same_v<T, bool>) return GGUF_TYPE_BOOL;
    if constexpr (std::is_same_v<T, std::uint8_t>) return GGUF_TYPE_UINT8;
    if constexpr (std::is_same_v<T, std::int8_t>) return GGUF_TYPE_INT8;
    if constexpr (std::is_same_v<T, std::uint16_t>) return GGUF_TYPE_UINT16;
    if constexpr (std::is_same_v<T, std::int16_t>) return GGUF_TYPE_INT16;
    if constexpr (std::is_same_v<T, std::uint32_t>) return GGUF_TYPE_UINT32;
    if constexpr (std::is_same_v<T, std::int32_t>) return GGUF_TYPE_INT32;
    if constexpr (std::is_same_v<T, std::uint64_t>) return GGUF_TYPE_UINT64;
    if constexpr (std::is_same_v<T, std::int64_t>) return GGUF_TYPE_INT64;
    if constexpr (std::is_same_v<T, float>) return GGUF_TYPE_FLOAT32;
    if constexpr (std::is_same_v<T, double>) return GGUF_TYPE_FLOAT64;
    return GGUF_TYPE_COUNT;
}

/// Strings in one piece of memory. A vocabulary has a million short ones: one allocation each would
/// cost more than reading them. Every string is followed by a NUL, for C.
class StringList {
public:
    std::size_t size() const { return ends_.size(); }

    /// String `i`, whatever bytes it has.
    std::string_view operator[](std::size_t i) const {
        const std::size_t begin = begin_of(i);
        return {text_.data() + begin, ends_[i] - begin};
    }

    /// String `i` up to its first NUL.
    const char* c_str(std::size_t i) const { return text_.data() + begin_of(i); }

    void push_back(std::string_view string);

    /// Makes room for `count` more strings of `bytes` bytes in total.
    void reserve(std::size_t count, std::size_t bytes);

    /// Adds bytes to the string being built, which `close` finishes. The pointer is to fill in at
    /// once.
    char* extend(std::size_t bytes);
    void close();

private:
    std::size_t begin_of(std::size_t i) const { return i == 0 ? 0 : ends_[i - 1] + 1; }

    std::string text_;
    std::vector<std::size_t> ends_;  // of each string in text_, where its NUL is
};

/// What a key stands for: one number, one string, or an array of either.
class Value {
public:
    template <class T>
    static Value number(T number) {
        static_assert(value_type_of<T>() != GGUF_TYPE_COUNT);
        std::vector<std::byte> bytes(sizeof number);
        std::memcpy(bytes.data(), &number, sizeof number);
        return Value(value_type_of<T>(), false, std::move(bytes));
    }

    static Value string(std::string_view string);

    /// Packed numbers of a type that has a size. A truth value that is not 0 becomes 1.
    static Value numbers(ValueType type, bool is_array, std::vector<std::byte> packed);
    static Value strings(bool is_array, StringList strings);

    bool is_array() const { return is_array_; }

    /// Of the value, or of the elements of an array.
    ValueType element_type() const { return type_; }

    /// As stored in a file: GGUF_TYPE_ARRAY for arrays.
    ValueType type() const { return is_array_ ? GGUF_TYPE_ARRAY : type_; }

    bool has_strings() const { return type_ == GGUF_TYPE_STRING; }

    /// Elements of an array; 1 for all else.
    std::size_t size() const;

    /// The packed numbers, aligned for their type; nothing where the value has strings.
    std::span<const std::byte> bytes() const { return bytes_; }

    const StringList& list() const { return strings_; }

    /// The one T this value is, or an array of one T.
    template <class T>
    Result<T> as() const {
        HEDDLE_TRY(expect_one(value_type_of<T>()));
        T number;
        std::memcpy(&number, bytes_.data(), sizeof number);
        return number;
    }

    /// Fails unless this is exactly one value of `type`.
    Result<> expect_one(ValueType type) const;

private:
    Value(ValueType type, bool is_array, std::vector<std::byte> bytes)
        : type_(type), is_array_(is_array), bytes_(std::move(bytes)) {}

    ValueType type_;
    bool is_array_;
    std::vector<std::byte> bytes_;
    StringList strings_;
};

}  // namespace heddle::gguf
