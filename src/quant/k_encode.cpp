#include "quant/k_encode.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/half.hpp"
#include "quant/k_scales.hpp"
#include "quant/packing.hpp"
#include "quant/rounding.hpp"
#include "quant/search.hpp"

// Each encoder has three steps: find scale and codes of every sub-block alone; make the scales
// small whole numbers of a common unit; choose the codes again for the scales that are really
// stored.

namespace heddle::quant {
namespace {

using Codes = std::array<std::uint8_t, QK_K>;

/// What the first two steps find where sub-blocks have a minimum.
template <std::size_t kParts>
struct AffineParts {
    Codes codes;
    std::array<float, kParts> scale, minimum;
    std::array<std::uint8_t, kParts> scale_code, minimum_code;
    float scale_unit = 0, minimum_unit = 0;
};

float sum_of(std::span<const float> x) {
    float sum = 0;
    for (const float value : x) sum += value;
    return sum;
}

/// Whole numbers up to `most` for numbers that are not negative; returns their unit.
template <std::size_t kParts>
float to_codes(const std::array<float, kParts>& values, int most,
               std::array<std::uint8_t, kParts>& codes) {
    codes.fill(0);
    const float largest = std::max(0.0f, *std::max_element(values.begin(), values.end()));
    if (!(largest > 0)) return 0;
    const float r = static_cast<float>(most) / largest;
    for (std::size_t j = 0; j < kParts; ++j)
        codes[j] = static_cast<std::uint8_t>(clamp_to(round_even(r * values[j]), 0, most));
    return largest / static_cast<float>(most);
}

/// Step one with a minimum; `weights_of(part, x, weights)` fills the weights of a sub-block.
template <std::size_t kParts, class WeightsOf>
void search_parts(Floats<QK_K> x, int max_code, const AffineTrials& trials, WeightsOf weights_of,
                  AffineParts<kParts>& found) {
    constexpr std::size_t kSize = QK_K / kParts;
    std::array<float, QK_K> weights;
    for (std::size_t part = 0; part < kParts; ++part) {
        weights_of(part, x.subspan(kSize * part, kSize),
                   std::span(weights).subspan(kSize * part, kSize));
    }
    std::array<Affine, kParts> lines;
    search_affine(x, weights, kSize, max_code, trials, found.codes, lines);
    for (std::size_t part = 0; part < kParts; ++part) {
        found.scale[part] = lines[part].scale;
        found.minimum[part] = lines[part].minimum;
    }
}

/// Steps one and two with an importance: the weights also decide how scales and minima are rounded.
template <std::size_t kParts>
void search_weighted(Floats<QK_K> x, Floats<QK_K> importance, float energy, int max_code,
                     int max_scale, AffineParts<kParts>& found) {
    std::array<float, kParts> total;
    const auto weights_of = [&](std::size_t part, auto values, auto weights) {
        weigh(values, importance.subspan(values.size() * part, values.size()), energy, weights);
        total[part] = sum_of(weights);
    };
    search_parts(x, max_code, kFineTrials, weights_of, found);
    found.scale_unit = search_positive(found.scale, total, max_scale, found.scale_code);
    found.minimum_unit = search_positive(found.minimum, total, max_scale, found.minimum_code);
}

/// Step three with a minimum. A sub-block whose scale came out as 0 keeps the codes it has.
template <std::size_t kParts>
void choose_again(Floats<QK_K> x, int max_code, AffineParts<kParts>& found) {
    constexpr std::size_t kSize = QK_K / kParts;
    const float scale_unit = f16_to_f32(f32_to_f16(found.scale_unit));
    const float minimum_unit = f16_to_f32(f32_to_f16(found.minimum_unit));
    for (std::size_t part = 0; part < kParts; ++part) {
        const float scale = scale_unit * static_cast<float>(found.scale_code[part]);
        if (scale == 0) continue;
        const float minimum = minimum_unit * static_cast<float>(found.minimum_code[part]);
        for (std::size_t i = kSize * part; i < kSize * part + kSize; ++i)
            found.codes[i] = static_cast<std::uint8_t>(
                clamp_to(round_even((x[i] + minimum) / scale), 0, max_code));
    }
}

/// Step three around zero, for one sub-block.
void choose_again(std::span<const float> x, float scale, int half, std::span<std::uint8_t> codes) {
    if (scale == 0) return;
    for (std::size_t i = 0; i < x.size(); ++i)
        codes[i] =
            static_cast<std::uint8_t>(clamp_to(round_even(x[i] / scale), -half, half - 1) + half);
}

// ---- q2_K -------------------------------------------------------------------
block_q2_K make_q2_K(Floats<QK_K> x, AffineParts<16>& found) {
    choose_again(x, 3, found);
    block_q2_K block;
    for (std::size_t part = 0; part < 16; ++part)
        block.scales[part] = static_cast<std::uint8_t>((found.scale_code[part] & 15) |
                                                       found.minimum_code[part] << 4);
    pack<2, 32>(found.codes, block.qs);
    block.d = f32_to_f16(found.scale_unit);
    block.dmin = f32_to_f16(found.minimum_unit);
    return block;
}

// ---- q3_K -------------------------------------------------------------------
/// What the first two steps find; a scale is unit * (scale_code - 32).
struct ScaledParts {
    Codes codes;
    std::array<float, 16> scale;
    std::array<std::uint8_t, 16> scale_code{};
    float unit = 0;
};

block_q3_K make_q3_K(Floats<QK_K> x, ScaledParts& found) {
    block_q3_K block;
    block.d = f32_to_f16(found.unit);
    const float unit = f16_to_f32(block.d);
    for (std::size_t part = 0; part < 16; ++part)
        choose_again(x.subspan(16 * part, 16),
                     unit * static_cast<float>(found.scale_code[part] - 32), 4,
                     std::span(found.codes).subspan(16 * part, 16));
    pack<1, 32>(found.codes, block.hmask, 2);
    pack<2, 32>(found.codes, block.qs);
    pack_q3_scales(found.scale_code, block.scales);
    return block;
}

// ---- q4_K and q5_K ----------------------------------------------------------
template <class Block>
constexpr bool kHasFifthBit = requires(const Block& block) {
    block.qh;
};

template <class Block>
constexpr int kMaxCode = kHasFifthBit<Block> ? 31 : 15;

constexpr int kMaxScale = 63;

template <class Block>
Block make_affine(Floats<QK_K> x, AffineParts<8>& found) {
    choose_again(x, kMaxCode<Block>, found);
    Block block;
    block.d = f32_to_f16(found.scale_unit);
    block.dmin = f32_to_f16(found.minimum_unit);
    pack_scales_and_minima({found.scale_code, found.minimum_code}, block.scales);
    pack<4, 32>(found.codes, block.qs);
    if constexpr (kHasFifthBit<Block>) pack<1, 32>(found.codes, block.qh, 4);
    return block;
}

template <class Block>
Block encode_affine(Floats<QK_K> x, const AffineTrials& trials) {
    const auto weights_of = [](std::size_t, auto values, auto weights) {
        const float typical = std::sqrt(mean_square(values));
        for (std::size_t i = 0; i < values.size(); ++i) weights[i] = typical + std::fabs(values[i]);
    };
    AffineParts<8> found;
    search_parts(x, kMaxCode<Block>, trials, weights_of, found);
    found.scale_unit = to_codes(found.scale, kMaxScale, found.scale_code);
    found.minimum_unit = to_codes(found.minimum, kMaxScale, found.minimum_code);
    return make_affine<Block>(x, found);
}

template <class Block>
Block encode_affine_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    AffineParts<8> found;
    search_weighted(x, importance, 2 * mean_square(x), kMaxCode<Block>, kMaxScale, found);
    return make_affine<Block>(x, found);
}

// ---- q6_K -------------------------------------------------------------------
/// `importance` is empty or as long as `x`, and then the weight itself.
block_q6_K search_q6_K(Floats<QK_K> x, std::span<const float> importance) {
    Codes codes;
    std::array<float, 16> scales;
    search_symmetric(x, importance, 16, 32, codes, scales);
    const float extreme = extreme_of(scales);
    if (std::fabs(extreme) < kNothing) return {};

    block_q6_K block;
    const float r = -128 / extreme;
    block.d = f32_to_f16(1 / r);
    const float unit = f16_to_f32(block.d);
    for (std::size_t part = 0; part < 16; ++part) {
        const int code = clamp_to(round_even(r * scales[part]), -128, 127);
        block.scales[part] = static_cast<std::int8_t>(code);
        choose_again(x.subspan(16 * part, 16), unit * static_cast<float>(code), 32,
                     std::span(codes).subspan(16 * part, 16));
    }
    pack<4, 64>(codes, block.ql);
    pack<2, 32>(codes, block.qh, 4);
    return block;
}

}  // namespace

block_q2_K encode_q2_K(Floats<QK_K> x) {
    const AffineTrials trials{.first = -0.5f, .step = 0.1f, .last = 15, .squared = false};
    const auto weights_of = [](std::size_t, auto values, auto weights) {
        for (std::size_t i = 0; i < values.size(); ++i) weights[i] = std::fabs(values[i]);
    };
    AffineParts<16> found;
    search_parts(x, 3, trials, weights_of, found);
    found.scale_unit = to_codes(found.scale, 15, found.scale_code);
    found.minimum_unit = to_codes(found.minimum, 15, found.minimum_code);
    return make_q2_K(x, found);
}

block_q2_K encode_q2_K_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    AffineParts<16> found;
    search_weighted(x, importance, mean_square(x), 3, 15, found);
    return make_q2_K(x, found);
}

block_q3_K encode_q3_K(Floats<QK_K> x) {
    ScaledParts found;
    for (std::size_t part = 0; part < 16; ++part)
        found.scale[part] = refine_symmetric(x.subspan(16 * part, 16), 4,
                                             std::span(found.codes).subspan(16 * part, 16));
    const float extreme = extreme_of(found.scale);
    if (extreme != 0) {
        const float r = -32 / extreme;
        for (std::size_t part = 0; part < 16; ++part)
            found.scale_code[part] = static_cast<std::uint8_t>(
                clamp_to(round_even(r * found.scale[part]), -32, 31) + 32);
        found.unit = 1 / r;
    }
    return make_q3_K(x, found);
}

block_q3_K encode_q3_K_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    const float energy = 2 * mean_square(x);
    ScaledParts found;
    std::array<float, QK_K> weights;
    weigh(x, importance, energy, weights);
    std::array<float, 16> total;
    for (std::size_t part = 0; part < 16; ++part) {
        total[part] = sum_of(std::span(weights).subspan(16 * part, 16));
    }
    search_symmetric(x, weights, 16, 4, found.codes, found.scale);
    found.unit = search_symmetric(found.scale, total, 32, found.scale_code);
    return make_q3_K(x, found);
}

block_q4_K encode_q4_K(Floats<QK_K> x) {
    return encode_affine<block_q4_K>(x, {.first = -1.0f, .step = 0.1f, .last = 20});
}

block_q4_K encode_q4_K_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    return encode_affine_weighted<block_q4_K>(x, importance);
}

block_q5_K encode_q5_K(Floats<QK_K> x) {
    return encode_affine<block_q5_K>(x, {.first = -0.5f, .step = 0.1f, .last = 15});
}

block_q5_K encode_q5_K_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    return encode_affine_weighted<block_q5_K>(x, importance);
}

block_q6_K encode_q6_K(Floats<QK_K> x) { return search_q6_K(x, {}); }

block_q6_K encode_q6_K_weighted(Floats<QK_K> x, Floats<QK_K> importance) {
    return search_q6_K(x, importance);
}

}  // namespace heddle::quant
