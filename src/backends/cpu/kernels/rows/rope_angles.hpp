#pragma once

#include <cmath>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/rope.hpp"

namespace heddle::cpu {

/// Elements of a table for rows of `n`: whole vectors of pairs, however long vectors are.
inline std::int64_t rope_pitch(std::int64_t n) { return (n + 127) / 128 * 128; }

/// Rows of that many elements in the scratch memory of a task.
inline constexpr std::int64_t kRopeRows = 4;

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

    bool has_axes() const { return ops::Rotation::has_four_positions(params.mode); }

    /// For each pair, the angle per unit of position, and with axes, which of a token's positions
    /// it goes by. `factors` divide the angles, or are null.
    void fill(const Tensor* factors, float* per_position, std::int32_t* axis) const {
        const double step = std::pow(static_cast<double>(params.freq_base), -2.0 / params.n_dims);
        if (has_axes()) {
            fill_axes(step, per_position, axis);
        } else {
            // Four chains, of products that need not wait for each other. The last round may write
            // behind the pairs, where there is room.
            const double square = step * step, leap = square * square;
            double powers[4] = {1, step, square, square * step};
            for (std::int64_t p = 0; p < pairs; p += 4) {
                for (std::int64_t k = 0; k < 4; ++k) {
                    per_position[p + k] = static_cast<float>(powers[k]);
                    powers[k] *= leap;
                }
            }
        }
        if (factors != nullptr) {
            for (std::int64_t p = 0; p < pairs; ++p) per_position[p] /= *factor_at(*factors, p);
        }
        interpolate(per_position);
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

    void fill_axes(double step, float* per_position, std::int32_t* axis) const {
        double power = 1;
        for (std::int64_t p = 0; p < pairs; ++p, power *= step) {
            const Place place = place_of(p);
            axis[p] = place.axis;
            if (place.restarts) power = 1;
            per_position[p] = static_cast<float>(power);
        }
    }

    /// Between the original angles and those scaled down to a longer context, as YaRN mixes them.
    void interpolate(float* per_position) const {
        const float scale = params.freq_scale;
        if (params.ext_factor == 0) {
            if (scale == 1) return;
            for (std::int64_t p = 0; p < pairs; ++p) per_position[p] *= scale;
            return;
        }
        const auto [low, high] = ops::rope_yarn_corr_dims(
            params.n_dims, params.n_ctx_orig, params.freq_base, params.beta_fast, params.beta_slow);
        for (std::int64_t p = 0; p < pairs; ++p) {
            const float along = (static_cast<float>(p) - low) / std::fmax(0.001f, high - low);
            const float ramp = 1 - std::fmin(1.0f, std::fmax(0.0f, along));
            const float mix = ramp * params.ext_factor;
            per_position[p] *= scale * (1 - mix) + mix;
        }
    }

    Place place_of(std::int64_t pair) const {
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
