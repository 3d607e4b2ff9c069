#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf.h"

/// For tests: model files put together byte by byte, with every mistake one can make.
namespace heddle::gguf::raw {

template <class T>
std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string string(std::string_view text) {
    return number(std::uint64_t{text.size()}).append(text);
}

struct RawPair {
    std::string key;
    std::int32_t type;
    std::string payload;  ///< all that follows the type
    std::optional<std::uint64_t> key_length = {};

    std::string bytes() const {
        return number(key_length.value_or(key.size())) + key + number(type) + payload;
    }
};

struct RawTensor {
    std::string name;
    std::vector<std::int64_t> extents;
    std::int32_t type;
    std::uint64_t offset;

    std::string bytes() const {
        std::string result = string(name) + number(static_cast<std::uint32_t>(extents.size()));
        for (const std::int64_t n : extents) result += number(n);
        return result + number(type) + number(offset);
    }
};

struct RawFile {
    std::string magic = "GGUF";
    std::uint32_t version = 3;
    std::vector<RawPair> pairs;
    std::vector<RawTensor> tensors;
    std::optional<std::int64_t> pair_count = {};
    std::optional<std::int64_t> tensor_count = {};
    std::size_t alignment = 32;  ///< of the start of the data
    std::string data;            ///< the data section, padding and all

    std::string metadata() const {
        std::string result = magic + number(version);
        result += number(tensor_count.value_or(static_cast<std::int64_t>(tensors.size())));
        result += number(pair_count.value_or(static_cast<std::int64_t>(pairs.size())));
        for (const RawPair& pair : pairs) result += pair.bytes();
        for (const RawTensor& tensor : tensors) result += tensor.bytes();
        return result;
    }

    std::string bytes() const {
        std::string result = metadata();
        while (result.size() % alignment != 0) result += '\0';
        return result + data;
    }
};

/// A sound file: a pair of each kind, and tensors f32 [8], q8_0 [32,2], i8 [3].
inline RawFile sound_file() {
    RawFile file;
    file.pairs = {
        {"general.name", GGUF_TYPE_STRING, string("sample")},
        {"count", GGUF_TYPE_UINT32, number(std::uint32_t{7})},
        {"is_small", GGUF_TYPE_BOOL, number(std::uint8_t{5})},
        {"sizes", GGUF_TYPE_ARRAY,
         number(std::int32_t{GGUF_TYPE_INT16}) + number(std::uint64_t{3}) +
             number(std::int16_t{1}) + number(std::int16_t{-2}) + number(std::int16_t{3})},
        {"words", GGUF_TYPE_ARRAY,
         number(std::int32_t{GGUF_TYPE_STRING}) + number(std::uint64_t{2}) + string("one") +
             string("")},
    };
    file.tensors = {
        {"first", {8}, GGML_TYPE_F32, 0},
        {"second", {32, 2}, GGML_TYPE_Q8_0, 32},
        {"third", {3}, GGML_TYPE_I8, 32 + 96},
    };
    for (int i = 0; i < 32 + 96 + 32; ++i) file.data += static_cast<char>(i);
    return file;
}

}  // namespace heddle::gguf::raw
