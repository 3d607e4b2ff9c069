#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/half.hpp"
#include "quant/neighbours.hpp"
#include "quant/rounding.hpp"

/// What the encoders of all grid formats have in common: weights, the scales of the parts of a
/// block, rows of blocks. Scale code s of a part stands for the scale d * (2s + 1).
namespace heddle::quant {

/// Elements of a block of every grid format.
inline constexpr int kGridBlock = 256;

using GridWeights = std::array<float, kGridBlock>;

/// What a format may leave as it is. It must say besides:
///     Block, type, Search (finds a `Choice` for one part), sub_block (elements of a part, which
///     share a scale), max_code (the highest scale code), pack(choice, code, part, block).
struct GridDefaults {
    static constexpr float variance = 2;  ///< times the mean square, in the weights
    static constexpr float fudge = 1;     ///< on the stored d: makes up for what clamping loses

    /// The weight of an element whose importance is one.
    static float weight(float x, float variance) { return std::sqrt(variance + x * x); }

    /// The weight of an element where no importance is known.
    static float plain_weight(float x, float variance) { return weight(x, variance); }
};

/// What was found for a block.
template <class Format>
struct GridPlan {
    static constexpr std::size_t kParts = kGridBlock / Format::sub_block;

    float d = 0;
    std::array<typename Format::Search::Choice, kParts> choices{};
    std::array<int, kParts> codes{};
};

template <class Format>
GridWeights grid_weights(const float* x, const float* importance) {
    float sum = 0;
    for (int i = 0; i < kGridBlock; ++i) sum += x[i] * x[i];
    const float variance = Format::variance * sum / kGridBlock;

    GridWeights weights;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = importance != nullptr ? importance[i] * GridDefaults::weight(x[i], variance)
                                           : Format::plain_weight(x[i], variance);
    }
    return weights;
}

template <class Format>
typename Format::Block encode_grid_block(const float* x, const float* importance,
                                         typename Format::Search& search) {
    const GridWeights weights = grid_weights<Format>(x, importance);
    GridPlan<Format> plan;
    float most = 0;
    for (std::size_t part = 0; part < plan.kParts; ++part) {
        const std::size_t start = part * Format::sub_block;
        plan.choices[part] = search(x + start, weights.data() + start);
        if (plan.choices[part].scale > most) most = plan.choices[part].scale;
    }

    typename Format::Block block{};
    plan.d = most / (2 * Format::max_code + 1);
    if (plan.d == 0) return block;
    for (std::size_t part = 0; part < plan.kParts; ++part) {
        const float steps = plan.choices[part].scale / plan.d;
        plan.codes[part] = clamp_to(round_even(0.5f * (steps - 1)), 0, Format::max_code);
        Format::pack(plan.choices[part], static_cast<unsigned>(plan.codes[part]), part, block);
    }
    if constexpr (requires { Format::pack_scale(plan, x, weights, block); }) {
        Format::pack_scale(plan, x, weights, block);
    } else {
        block.d = f32_to_f16(plan.d * Format::fudge);
    }
    return block;
}

/// Encodes a row of `n` elements. `importance` has a weight for each of them, or is null.
template <class Format>
void encode_grid_row(const float* row, void* blocks, std::int64_t n, const float* importance) {
    const std::shared_ptr<const Neighbours> neighbours = neighbours_of(Format::type);
    typename Format::Search search(*neighbours);
    auto* to = static_cast<std::byte*>(blocks);
    for (std::int64_t i = 0; i < n; i += kGridBlock, to += sizeof(typename Format::Block)) {
        const auto block = encode_grid_block<Format>(
            row + i, importance != nullptr ? importance + i : nullptr, search);
        std::memcpy(to, &block, sizeof block);
    }
}

}  // namespace heddle::quant
