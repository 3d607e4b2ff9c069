#include <array>
#include <cstdint>

#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/k_encode.hpp"
#include "quant/k_scales.hpp"
#include "quant/packing.hpp"
#include "quant/rows.hpp"

/// The K formats: super-blocks of 256 elements whose sub-blocks have scales (and minima) that are
/// small whole numbers times a half float. Here is how they are read; k_encode.cpp writes them.
namespace heddle::quant {
namespace {

void decode_q2_K(const block_q2_K& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    const auto codes = unpack<2, 32>(block.qs);
    for (std::size_t part = 0; part < 16; ++part) {
        const float scale = d * static_cast<float>(block.scales[part] & 15);
        const float minimum = dmin * static_cast<float>(block.scales[part] >> 4);
        for (std::size_t i = 16 * part; i < 16 * part + 16; ++i)
            y[i] = scale * static_cast<float>(codes[i]) - minimum;
    }
}

void decode_q3_K(const block_q3_K& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d);
    const auto low = unpack<2, 32>(block.qs);
    const auto high = unpack<1, 32>(block.hmask);
    const auto scales = unpack_q3_scales(block.scales);
    for (std::size_t part = 0; part < 16; ++part) {
        const float scale = d * static_cast<float>(scales[part] - 32);
        for (std::size_t i = 16 * part; i < 16 * part + 16; ++i)
            y[i] = scale * static_cast<float>(low[i] + 4 * high[i] - 4);
    }
}

/// q4_K, and q5_K with a fifth bit.
template <class Block>
void decode_affine(const Block& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d), dmin = f16_to_f32(block.dmin);
    auto codes = unpack<4, 32>(block.qs);
    if constexpr (requires { block.qh; }) {
        const auto high = unpack<1, 32>(block.qh);
        for (std::size_t i = 0; i < codes.size(); ++i)
            codes[i] = static_cast<std::uint8_t>(codes[i] | high[i] << 4);
    }
    const ScalesAndMinima parts = unpack_scales_and_minima(block.scales);
    for (std::size_t part = 0; part < 8; ++part) {
        const float scale = d * static_cast<float>(parts.scale[part]);
        const float minimum = dmin * static_cast<float>(parts.minimum[part]);
        for (std::size_t i = 32 * part; i < 32 * part + 32; ++i)
            y[i] = scale * static_cast<float>(codes[i]) - minimum;
    }
}

void decode_q6_K(const block_q6_K& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d);
    const auto low = unpack<4, 64>(block.ql);
    const auto high = unpack<2, 32>(block.qh);
    for (std::size_t part = 0; part < 16; ++part) {
        const float scale = d * static_cast<float>(block.scales[part]);
        for (std::size_t i = 16 * part; i < 16 * part + 16; ++i)
            y[i] = scale * static_cast<float>((low[i] | high[i] << 4) - 32);
    }
}

template <class Block>
bool has_finite_units(const Block& block) {
    return is_finite_half(block.d) && is_finite_half(block.dmin);
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_Q2_K,
     .decode = DecodeRows<decode_q2_K>::run,
     .encode = EncodeRows<encode_q2_K>::run,
     .encode_row = EncodeRow<encode_q2_K_weighted, encode_q2_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_units<block_q2_K>>::run},
    {.type = GGML_TYPE_Q3_K,
     .decode = DecodeRows<decode_q3_K>::run,
     .encode = EncodeRows<encode_q3_K>::run,
     .encode_row = EncodeRow<encode_q3_K_weighted, encode_q3_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_q3_K>>::run},
    {.type = GGML_TYPE_Q4_K,
     .decode = DecodeRows<decode_affine<block_q4_K>>::run,
     .encode = EncodeRows<encode_q4_K>::run,
     .encode_row = EncodeRow<encode_q4_K_weighted, encode_q4_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_units<block_q4_K>>::run},
    {.type = GGML_TYPE_Q5_K,
     .decode = DecodeRows<decode_affine<block_q5_K>>::run,
     .encode = EncodeRows<encode_q5_K>::run,
     .encode_row = EncodeRow<encode_q5_K_weighted, encode_q5_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_units<block_q5_K>>::run},
    {.type = GGML_TYPE_Q6_K,
     .decode = DecodeRows<decode_q6_K>::run,
     .encode = EncodeRows<encode_q6_K>::run,
     .encode_row = EncodeRow<encode_q6_K_weighted, encode_q6_K>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_q6_K>>::run},
};

}  // namespace

std::span<const Codec> k_codecs() { return kCodecs; }

}  // namespace heddle::quant
