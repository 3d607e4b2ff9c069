// Model files: keys get their values.

#include <cstring>
#include <vector>

#include "capi/boundary.hpp"
#include "gguf.h"
#include "gguf/model_file.hpp"

using namespace heddle;
using namespace heddle::gguf;
using namespace heddle::capi;

namespace {

/// Gives `key` the value that `make` makes.
template <class Make>
void set_value(File* file, const char* key, const char* function, Make&& make) noexcept {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(file, function, "the context"));
        HEDDLE_TRY(require(key, function, "the key"));
        Result<Value> value = make();
        auto set = value ? file->set(key, *std::move(value)) : Result<>(std::move(value).error());
        if (set) return set;
        return std::move(set).error().within(text(function, ": key '", key, "'"));
    });
}

template <class T>
void set_number(File* file, const char* key, T number, const char* function) noexcept {
    set_value(file, key, function, [&]() -> Result<Value> { return Value::number(number); });
}

Result<Value> numbers_from(ValueType type, const void* data, std::size_t count) {
    const std::size_t size = heddle::gguf::size_of(type);
    std::size_t bytes = 0;
    if (size == 0)
        return invalid("an array of type ", static_cast<int>(type), " has no packed form");
    if (__builtin_mul_overflow(count, size, &bytes))
        return invalid(count, " elements are too many");
    if (bytes > 0 && data == nullptr) return invalid("the data of ", count, " elements are NULL");
    std::vector<std::byte> packed(bytes);
    if (bytes > 0) std::memcpy(packed.data(), data, bytes);
    return Value::numbers(type, true, std::move(packed));
}

Result<Value> strings_from(const char** data, std::size_t count) {
    if (count > 0 && data == nullptr) return invalid("the list of ", count, " strings is NULL");
    StringList strings;
    for (std::size_t i = 0; i < count; ++i) {
        if (data[i] == nullptr) return invalid("string ", i, " of ", count, " is NULL");
        strings.push_back(data[i]);
    }
    return Value::strings(true, std::move(strings));
}

}  // namespace

void gguf_set_val_u8(gguf_context* ctx, const char* key, uint8_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_i8(gguf_context* ctx, const char* key, int8_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_u16(gguf_context* ctx, const char* key, uint16_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_i16(gguf_context* ctx, const char* key, int16_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_u32(gguf_context* ctx, const char* key, uint32_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_i32(gguf_context* ctx, const char* key, int32_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_f32(gguf_context* ctx, const char* key, float val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_u64(gguf_context* ctx, const char* key, uint64_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_i64(gguf_context* ctx, const char* key, int64_t val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_f64(gguf_context* ctx, const char* key, double val) {
    set_number(ctx, key, val, __func__);
}
void gguf_set_val_bool(gguf_context* ctx, const char* key, bool val) {
    set_number(ctx, key, val, __func__);
}

void gguf_set_val_str(gguf_context* ctx, const char* key, const char* val) {
    set_value(ctx, key, __func__, [&]() -> Result<Value> {
        if (val == nullptr) return invalid("the string is NULL");
        return Value::string(val);
    });
}

void gguf_set_arr_data(gguf_context* ctx, const char* key, gguf_type type, const void* data,
                       size_t n) {
    set_value(ctx, key, __func__, [&] { return numbers_from(type, data, n); });
}

void gguf_set_arr_str(gguf_context* ctx, const char* key, const char** data, size_t n) {
    set_value(ctx, key, __func__, [&] { return strings_from(data, n); });
}

void gguf_set_kv(gguf_context* ctx, const gguf_context* src) {
    done([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "gguf_set_kv", "the context"));
        HEDDLE_TRY(require(src, "gguf_set_kv", "the source"));
        if (ctx == src) return ok();
        for (const Pair& pair : src->pairs()) {
            if (auto set = ctx->set(pair.key, pair.value); !set) {
                return std::move(set).error().within(text("gguf_set_kv: key '", pair.key, "'"));
            }
        }
        return ok();
    });
}
