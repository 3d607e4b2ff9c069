#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/half.hpp"
#include "ggml-common.h"
#include "quant/codec.hpp"
#include "quant/packing.hpp"
#include "quant/rounding.hpp"
#include "quant/rows.hpp"
#include "quant/search.hpp"

/// Formats of sixteen levels that lie closer together near zero, where weights are many.
namespace heddle::quant {
namespace {

constexpr std::array<float, 16> kLevels{-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

using Codes32 = std::array<std::uint8_t, 32>;

/// The codes of the levels nearest to r * x; of two as near the upper one.
Codes32 nearest_codes(Floats<32> x, float r) {
    // A code is the number of midpoints between levels that are not above the value. Counting them
    // for all elements at once needs no branches.
    std::array<std::int32_t, 32> count{};
    for (std::size_t upper = 1; upper < kLevels.size(); ++upper) {
        const float middle = 0.5f * (kLevels[upper - 1] + kLevels[upper]);
        for (std::size_t i = 0; i < x.size(); ++i) count[i] += r * x[i] >= middle ? 1 : 0;
    }
    Codes32 codes;
    for (std::size_t i = 0; i < x.size(); ++i) codes[i] = static_cast<std::uint8_t>(count[i]);
    return codes;
}

/// The levels nearest to r * x, as seen by the weights.
struct Fit {
    float along = 0;   ///< sum of w * level * x
    float square = 0;  ///< sum of w * level * level

    Fit(Floats<32> x, Floats<32> weights, float r) {
        const Codes32 codes = nearest_codes(x, r);
        for (std::size_t i = 0; i < x.size(); ++i) {
            const float level = kLevels[codes[i]];
            along += weights[i] * level * x[i];
            square += weights[i] * level * level;
        }
    }
    float scale() const { return square > 0 ? along / square : 0; }
};

/// The scale that loses least, out of the one that maps the extreme element to 127 and fifteen that
/// map it to about -127.
float search_scale(Floats<32> x, Floats<32> weights) {
    const float extreme = extreme_of(x);
    if (std::fabs(extreme) < kNothing) return 0;
    const Fit start(x, weights, 1 / (extreme / 127));
    float scale = start.scale(), best = scale * start.along;
    for (int t = -7; t <= 7; ++t) {
        const Fit fit(x, weights, static_cast<float>(t - 127) / extreme);
        if (fit.square > 0 && fit.along * fit.along > best * fit.square) {
            scale = fit.along / fit.square;
            best = scale * fit.along;
        }
    }
    return scale;
}

/// Weights of 32 elements: by importance where there is one, else x^2.
std::array<float, 32> weights_of(Floats<32> x, const float* importance, float energy) {
    std::array<float, 32> weights;
    if (importance != nullptr)
        weigh(x, {importance, x.size()}, energy, weights);
    else
        for (std::size_t i = 0; i < x.size(); ++i) weights[i] = x[i] * x[i];
    return weights;
}

// ---- iq4_nl -----------------------------------------------------------------
void decode_iq4_nl(const block_iq4_nl& block, std::span<float, QK4_NL> y) {
    const float d = f16_to_f32(block.d);
    look_up(block.qs, kLevels, d, y);
}

block_iq4_nl make_iq4_nl(Floats<QK4_NL> x, float d, float r) {
    block_iq4_nl block;
    block.d = f32_to_f16(d);
    pack<4, 16>(nearest_codes(x, r), block.qs);
    return block;
}

/// One guess: the extreme element at level -127, then the scale that suits the codes.
block_iq4_nl encode_iq4_nl(Floats<QK4_NL> x) {
    const float extreme = extreme_of(x);
    if (std::fabs(extreme) < kNothing) return {};
    const float r = 1 / (extreme / -127);
    return make_iq4_nl(x, Fit(x, weights_of(x, nullptr, 0), r).scale(), r);
}

void encode_iq4_nl_row(const float* row, void* blocks, std::int64_t n, const float* importance) {
    auto* to = static_cast<std::byte*>(blocks);
    for (std::int64_t i = 0; i < n; i += QK4_NL, to += sizeof(block_iq4_nl)) {
        const Floats<QK4_NL> x(row + i, QK4_NL);
        const float* of_block = importance != nullptr ? importance + i : nullptr;
        const float scale = search_scale(x, weights_of(x, of_block, 2 * mean_square(x)));
        const block_iq4_nl block = make_iq4_nl(x, scale, inverse(scale));
        std::memcpy(to, &block, sizeof block);
    }
}

// ---- iq4_xs: eight groups with scales of six bits ---------------------------
void decode_iq4_xs(const block_iq4_xs& block, std::span<float, QK_K> y) {
    const float d = f16_to_f32(block.d);
    const auto codes = unpack<4, 16>(block.qs);
    const auto low = unpack<4, 1>(block.scales_l);
    for (std::size_t group = 0; group < 8; ++group) {
        const int scale = low[group] | (block.scales_h >> 2 * group & 3) << 4;
        const float step = d * static_cast<float>(scale - 32);
        for (std::size_t i = 32 * group; i < 32 * group + 32; ++i) y[i] = step * kLevels[codes[i]];
    }
}

block_iq4_xs encode_iq4_xs(Floats<QK_K> x, const float* importance) {
    const float energy = 2 * mean_square(x);
    std::array<float, 8> scales;
    for (std::size_t group = 0; group < 8; ++group) {
        const Floats<32> part(x.data() + 32 * group, 32);
        const float* of_group = importance != nullptr ? importance + 32 * group : nullptr;
        scales[group] = search_scale(part, weights_of(part, of_group, energy));
    }

    const float d = -extreme_of(scales) / 32, to_code = inverse(d);
    std::array<std::uint8_t, 8> scale_codes;
    std::array<std::uint8_t, QK_K> codes;
    unsigned high_bits = 0;
    for (std::size_t group = 0; group < 8; ++group) {
        const int scale = clamp_to(round_even(to_code * scales[group]), -32, 31);
        const Floats<32> part(x.data() + 32 * group, 32);
        const Codes32 chosen = nearest_codes(part, inverse(d * static_cast<float>(scale)));
        std::copy(chosen.begin(), chosen.end(), codes.begin() + 32 * group);
        scale_codes[group] = static_cast<std::uint8_t>(scale + 32);
        high_bits |= (scale_codes[group] >> 4 & 3u) << 2 * group;
    }
    block_iq4_xs block;
    block.d = f32_to_f16(d);
    block.scales_h = static_cast<std::uint16_t>(high_bits);
    pack<4, 1>(scale_codes, block.scales_l);
    pack<4, 16>(codes, block.qs);
    return block;
}

block_iq4_xs encode_iq4_xs_plain(Floats<QK_K> x) { return encode_iq4_xs(x, nullptr); }

block_iq4_xs encode_iq4_xs_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    return encode_iq4_xs(x, importance.data());
}

constexpr Codec kCodecs[] = {
    {.type = GGML_TYPE_IQ4_NL,
     .decode = DecodeRows<decode_iq4_nl>::run,
     .encode = EncodeRows<encode_iq4_nl>::run,
     .encode_row = encode_iq4_nl_row,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq4_nl>>::run},
    {.type = GGML_TYPE_IQ4_XS,
     .decode = DecodeRows<decode_iq4_xs>::run,
     .encode = EncodeRows<encode_iq4_xs_plain>::run,
     .encode_row = EncodeRow<encode_iq4_xs_weighted, encode_iq4_xs_plain>::run,
     .first_bad_block = FirstBadBlock<has_finite_scale<block_iq4_xs>>::run},
};

}  // namespace

std::span<const Codec> nonlinear_codecs() { return kCodecs; }

}  // namespace heddle::quant
