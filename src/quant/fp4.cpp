#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/packing.hpp"
#include "quant/rounding.hpp"
#include "quant/rows.hpp"
#include "quant/search.hpp"
#include "quant/small_floats.hpp"

/// Formats whose codes are floats of four bits: sign, two bits of exponent, one of mantissa.
namespace heddle::quant {
namespace {

/// The code nearest to `value` on scale `d`. Of equals the lower one, so -0 is never chosen.
std::uint8_t nearest_code(float value, float d) {
    std::uint8_t nearest = 0;
    float least = std::fabs(value);
    for (std::size_t code = 1; code < kDoubledE2m1.size(); ++code) {
        const float error = std::fabs(kDoubledE2m1[code] * d - value);
        if (error < least) {
            least = error;
            nearest = static_cast<std::uint8_t>(code);
        }
    }
    return nearest;
}

// ---- mxfp4: a power of two for 32 elements ----------------------------------
void decode_mxfp4(const block_mxfp4& block, std::span<float, QK_MXFP4> y) {
    const float d = e8m0_to_f32_half(block.e);
    look_up(block.qs, kDoubledE2m1, d, y);
}

block_mxfp4 encode_mxfp4(Floats<QK_MXFP4> x) {
    // The largest code has exponent 2, so the scale's exponent is that of the extreme element less
    // 2; both are stored with the bias of a float.
    const auto bits = std::bit_cast<std::uint32_t>(std::fabs(extreme_of(x)));
    block_mxfp4 block;
    block.e = static_cast<std::uint8_t>(clamp_to(static_cast<int>(bits >> 23) - 2, 0, 255));
    const float d = e8m0_to_f32_half(block.e);
    std::array<std::uint8_t, QK_MXFP4> codes;
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = nearest_code(x[i], d);
    pack<4, 16>(codes, block.qs);
    return block;
}

bool has_known_exponent(const block_mxfp4& block) { return block.e != 255; }

// ---- nvfp4: a small float for every 16 of 64 elements -----------------------
void decode_nvfp4(const block_nvfp4& block, std::span<float, QK_NVFP4> y) {
    const auto codes = unpack<4, 8>(block.qs);
    for (std::size_t group = 0; group < y.size(); group += QK_NVFP4_SUB) {
        const float d = ue4m3_to_f32_half(block.d[group / QK_NVFP4_SUB]);
        for (std::size_t i = group; i < group + QK_NVFP4_SUB; ++i)
            y[i] = kDoubledE2m1[codes[i]] * d;
    }
}

block_nvfp4 encode_nvfp4(Floats<QK_NVFP4> x) {
    block_nvfp4 block;
    std::array<std::uint8_t, QK_NVFP4> codes;
    for (std::size_t group = 0; group < x.size(); group += QK_NVFP4_SUB) {
        const Floats<QK_NVFP4_SUB> part(x.data() + group, QK_NVFP4_SUB);
        const float largest = std::fabs(extreme_of(part));
        const std::uint8_t scale = f32_to_ue4m3(largest / 6);
        block.d[group / QK_NVFP4_SUB] = scale;
        const float d = ue4m3_to_f32_half(scale);
        for (std::size_t i = 0; i < part.size(); ++i) codes[group + i] = nearest_code(part[i], d);
    }
    pack<4, 8>(codes, block.qs);
    return block;
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_MXFP4,
     .decode = DecodeRows<decode_mxfp4>::run,
     .encode = EncodeRows<encode_mxfp4>::run,
     .first_bad_block = FirstBadBlock<has_known_exponent>::run},
    {.type = GGML_TYPE_NVFP4,
     .decode = DecodeRows<decode_nvfp4>::run,
     .encode = EncodeRows<encode_nvfp4>::run},
};

}  // namespace

std::span<const Codec> fp4_codecs() { return kCodecs; }

}  // namespace heddle::quant
