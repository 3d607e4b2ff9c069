#include "backends/cpu/kernels/movement/row_converter.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/type_traits.hpp"
#include "quant/traits.hpp"

namespace heddle::cpu {
namespace {

void i32_to_f32_row(const void* from, float* to, std::int64_t n) {
    const auto* numbers = static_cast<const std::int32_t*>(from);
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(numbers[i]);
}

ggml_to_float_t reader_of(Type type) {
    if (type == GGML_TYPE_F16) return f16_to_f32_row;
    if (type == GGML_TYPE_BF16) return bf16_to_f32_row;
    if (type == GGML_TYPE_I32) return i32_to_f32_row;
    if (const DecodeRow decode = exact_decode_of(type); decode != nullptr) return decode;
    return quant::traits_of(type).to_float;
}

/// Other block types search for the best scales.
bool has_quick_encoder(Type type) {
    switch (type) {
        case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q4_0:
        case GGML_TYPE_Q4_1:
        case GGML_TYPE_Q5_0:
        case GGML_TYPE_Q5_1:
            return true;
        default:
            return false;
    }
}

bool is_half(Type type) { return type == GGML_TYPE_F16 || type == GGML_TYPE_BF16; }

}  // namespace

std::optional<RowConverter> RowConverter::between(Type from, Type to) {
    if (!is_valid(from) || !is_valid(to)) return {};
    RowConverter converter(from, to);
    if (from == to) return converter;
    if (from != GGML_TYPE_F32) {
        converter.read_ = reader_of(from);
        if (converter.read_ == nullptr) return {};
        // Only halves are converted further, to a third type.
        if (to != GGML_TYPE_F32 && !is_half(from)) return {};
    }
    if (to != GGML_TYPE_F32) {
        converter.write_ = cpu_traits_of(to).from_float;
        if (converter.write_ == nullptr) return {};
    }
    return converter;
}

void RowConverter::operator()(const void* from, void* to, std::int64_t n) const {
    if (n <= 0) return;
    if (is_bitwise()) {
        std::memcpy(to, from, row_size(from_, n));
    } else if (read_ == nullptr) {
        write_(static_cast<const float*>(from), to, n);
    } else if (write_ == nullptr) {
        read_(from, static_cast<float*>(to), n);
    } else {
        through_floats(from, to, n);
    }
}

void RowConverter::through_floats(const void* from, void* to, std::int64_t n) const {
    constexpr std::int64_t chunk = 1024;  // whole blocks of every type
    float buffer[chunk];
    const auto* x = static_cast<const std::byte*>(from);
    auto* y = static_cast<std::byte*>(to);
    for (std::int64_t i = 0; i < n; i += chunk) {
        const std::int64_t part = std::min(chunk, n - i);
        read_(x + row_size(from_, i), buffer, part);
        write_(buffer, y + row_size(to_, i), part);
    }
}

double RowConverter::flops_per_element() const {
    if (is_bitwise()) return 0;
    if (block_size(to_) > 1) return has_quick_encoder(to_) ? 4 : 64;
    return block_size(from_) > 1 && exact_decode_of(from_) == nullptr ? 4 : 1;
}

}  // namespace heddle::cpu
