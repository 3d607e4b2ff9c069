#include "quant/traits.hpp"

#include <algorithm>
#include <array>

#include "core/half.hpp"
#include "quant/codec.hpp"

namespace heddle::quant {
namespace {

/// Encoders that want an importance, or that only kernels call, are not offered as plain ones.
bool has_public_encoder(const Codec& codec) {
    return !codec.needs_importance && codec.type != GGML_TYPE_Q8_K && codec.type != GGML_TYPE_IQ1_M;
}

std::array<ggml_type_traits, GGML_TYPE_COUNT + 1> make_table() {
    std::array<ggml_type_traits, GGML_TYPE_COUNT + 1> table{};
    for (int number = 0; number <= GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<Type>(number);
        const TypeInfo& info = type_info(type);
        ggml_type_traits& row = table[static_cast<std::size_t>(number)];
        row.type_name = info.name;
        row.blck_size = info.block;
        row.type_size = info.bytes;
        row.is_quantized = info.is_quantized;
        if (const Codec* codec = codec_of(type)) {
            if (!codec->is_operand) row.to_float = codec->decode;
            if (has_public_encoder(*codec)) row.from_float_ref = codec->encode;
        }
    }
    table[GGML_TYPE_F16].to_float = f16_to_f32_row;
    table[GGML_TYPE_F16].from_float_ref = f32_to_f16_row;
    table[GGML_TYPE_BF16].to_float = bf16_to_f32_row;
    table[GGML_TYPE_BF16].from_float_ref = f32_to_bf16_row;
    return table;
}

template <auto convert>
void decode_halves(const void* halves, float* values, std::int64_t n) {
    const auto* bits = static_cast<const std::uint16_t*>(halves);
    for (std::int64_t i = 0; i < n; ++i) values[i] = convert(bits[i]);
}

template <auto convert>
void encode_halves(const float* values, void* halves, std::int64_t n) {
    auto* bits = static_cast<std::uint16_t*>(halves);
    for (std::int64_t i = 0; i < n; ++i) bits[i] = convert(values[i]);
}

}  // namespace

const ggml_type_traits& traits_of(Type type) {
    static const auto table = make_table();
    const auto number = static_cast<unsigned>(type);
    return table[std::min<unsigned>(number, GGML_TYPE_COUNT)];
}

void f16_to_f32_row(const void* x, float* y, std::int64_t n) { decode_halves<f16_to_f32>(x, y, n); }
void f32_to_f16_row(const float* x, void* y, std::int64_t n) { encode_halves<f32_to_f16>(x, y, n); }
void bf16_to_f32_row(const void* x, float* y, std::int64_t n) {
    decode_halves<bf16_to_f32>(x, y, n);
}
void f32_to_bf16_row(const float* x, void* y, std::int64_t n) {
    encode_halves<f32_to_bf16>(x, y, n);
}

}  // namespace heddle::quant
