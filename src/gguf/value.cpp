#include "gguf/value.hpp"

#include <array>

namespace heddle::gguf {
namespace {

struct ValueTypeInfo {
    const char* name = nullptr;
    std::size_t bytes = 0;
};

constexpr auto make_table() {
    std::array<ValueTypeInfo, GGUF_TYPE_COUNT> table{};
    table[GGUF_TYPE_UINT8] = {"u8", 1};
    table[GGUF_TYPE_INT8] = {"i8", 1};
    table[GGUF_TYPE_UINT16] = {"u16", 2};
    table[GGUF_TYPE_INT16] = {"i16", 2};
    table[GGUF_TYPE_UINT32] = {"u32", 4};
    table[GGUF_TYPE_INT32] = {"i32", 4};
    table[GGUF_TYPE_FLOAT32] = {"f32", 4};
    table[GGUF_TYPE_BOOL] = {"bool", 1};
    table[GGUF_TYPE_STRING] = {"str", 0};
    table[GGUF_TYPE_ARRAY] = {"arr", 0};
    table[GGUF_TYPE_UINT64] = {"u64", 8};
    table[GGUF_TYPE_INT64] = {"i64", 8};
    table[GGUF_TYPE_FLOAT64] = {"f64", 8};
    return table;
}

constexpr auto kValueTypes = make_table();
constexpr ValueTypeInfo kNoValueType;

const ValueTypeInfo& info_of(ValueType type) {
    const auto number = static_cast<unsigned>(type);
    return number < kValueTypes.size() ? kValueTypes[number] : kNoValueType;
}

}  // namespace

const char* name_of(ValueType type) { return info_of(type).name; }
std::size_t size_of(ValueType type) { return info_of(type).bytes; }

void StringList::push_back(std::string_view string) {
    text_.append(string);
    close();
}

void StringList::reserve(std::size_t count, std::size_t bytes) {
    ends_.reserve(ends_.size() + count);
    text_.reserve(text_.size() + count + bytes);
}

char* StringList::extend(std::size_t bytes) {
    const std::size_t old_size = text_.size();
    text_.resize(old_size + bytes);
    return text_.data() + old_size;
}

void StringList::close() {
    ends_.push_back(text_.size());
    text_.push_back('\0');
}

Value Value::string(std::string_view string) {
    StringList list;
    list.push_back(string);
    return strings(false, std::move(list));
}

Value Value::numbers(ValueType type, bool is_array, std::vector<std::byte> packed) {
    if (type == GGUF_TYPE_BOOL) {
        for (std::byte& truth : packed) truth = std::byte{truth != std::byte{0}};
    }
    return Value(type, is_array, std::move(packed));
}

Value Value::strings(bool is_array, StringList strings) {
    Value value(GGUF_TYPE_STRING, is_array, {});
    value.strings_ = std::move(strings);
    return value;
}

std::size_t Value::size() const {
    return has_strings() ? strings_.size() : bytes_.size() / size_of(type_);
}

Result<> Value::expect_one(ValueType type) const {
    if (type_ != type) return invalid("the value is ", name_of(type_), ", not ", name_of(type));
    if (size() != 1) return invalid("the value has ", size(), " elements, not 1");
    return ok();
}

}  // namespace heddle::gguf
