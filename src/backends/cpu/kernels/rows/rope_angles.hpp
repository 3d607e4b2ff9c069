#pragma once

#include <array>
#include <cmath>

#include "ops/rope.hpp"

namespace heddle::cpu {

/// Elements of a table for rows of `n`: whole vectors of pairs, however long vectors are.
inline std::int64_t rope_pitch(std::int64_t n) { return (n + 127) / 128 * 128; }

/// Which elements of a row ROPE turns, and how fast: everything that is the same for all tokens.
struct RopeAngles {
    ops::Rotation::Params params;
    std::int64_t pairs;     ///< turned in each row
    std::int64_t distance;  ///< from the first element of a pair to the second
    float magnitude;        ///< of the turned pairs, against before
    float direction;        ///< 1, or -1 for the way back

    explicit RopeAngles(const Tensor& node) : params(unpack<ops::Rotation::Params>(node)) {
        const bool whole = params.mode == GGML_ROPE_TYPE_VISION;
        pairs = whole ? params.n_dims : params.n_dims / 2;
        distance = params.mode == GGML_ROPE_TYPE_NORMAL ? 1 : pairs;
        magnitude = params.attn_factor;
        if (params.ext_factor != 0) magnitude *= 1 + 0.1f * std::log(1 / params.freq_scale);
        direction = node.op == GGML_OP_ROPE_BACK ? -1.0f : 1.0f;
    }

    bool is_interleaved() const { return params.mode == GGML_ROPE_TYPE_NORMAL; }
    std::int64_t first() const { return params.n_offs; }

    /// For each pair, the angle per unit of position, and which of a token's positions it goes by.
    /// `factors` divide the angles, or are null.
    void fill(const Tensor* factors, float* per_position, std::int32_t* axis) const {
        const double step = std::pow(static_cast<double>(params.freq_base), -2.0 / params.n_dims);
        std::array<float, 2> ramp{};
        if (params.ext_factor != 0) {
            ramp = ops::rope_yarn_corr_dims(params.n_dims, params.n_ctx_orig, params.freq_base,
                                            params.beta_fast, params.beta_slow);
        }
        double power = 1;
        for (std::int64_t p = 0; p < pairs; ++p) {
            const Place place = place_of(p);
            axis[p] = place.axis;
            if (place.restarts) power = 1;
            float angle = static_cast<float>(power);
            if (factors != nullptr) angle /= *factor_at(*factors, p);
            per_position[p] = angle * interpolation(p, ramp[0], ramp[1]);
            power *= step;
        }
    }

private:
    struct Place {
        std::int32_t axis;
        bool restarts;  ///< frequencies begin anew
    };

    static const float* factor_at(const Tensor& factors, std::int64_t p) {
        const auto* bytes = static_cast<const std::byte*>(factors.data);
        return reinterpret_cast<const float*>(bytes + static_cast<std::size_t>(p) * factors.nb[0]);
    }

    /// Between the original angles and those scaled down to a longer context, as YaRN mixes them.
    float interpolation(std::int64_t pair, float low, float high) const {
        if (params.ext_factor == 0) return params.freq_scale;
        const float along = (static_cast<float>(pair) - low) / std::fmax(0.001f, high - low);
        const float ramp = 1 - std::fmin(1.0f, std::fmax(0.0f, along));
        const float mix = ramp * params.ext_factor;
        return params.freq_scale * (1 - mix) + mix;
    }

    Place place_of(std::int64_t pair) const {
        if (!ops::Rotation::has_four_positions(params.mode)) return {0, false};
        const auto [s0, s1, s2, s3] = params.sections;
        const std::int64_t all = std::int64_t{s0} + s1 + s2 + s3;
        const std::int64_t sector = pair % all;
        if (params.mode == GGML_ROPE_TYPE_IMROPE) {
            if (sector % 3 == 1 && sector < 3 * std::int64_t{s1}) return {1, false};
            if (sector % 3 == 2 && sector < 3 * std::int64_t{s2}) return {2, false};
            if (sector % 3 == 0 && sector < 3 * std::int64_t{s0}) return {0, false};
            return {3, false};
        }
        const std::int64_t starts[] = {0, s0, std::int64_t{s0} + s1, all - s3};
        std::int32_t axis = 3;
        while (axis > 0 && sector < starts[axis]) --axis;
        return {axis, params.mode == GGML_ROPE_TYPE_VISION && sector == starts[axis]};
    }
};

}  // namespace heddle::cpu
