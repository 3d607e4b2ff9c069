#pragma once

#include <cmath>

#include "backends/cuda/kernels/operand.cuh"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/rope.hpp"

namespace heddle::cuda {

/// What of a ROPE or ROPE_BACK is the same for all tokens.
struct Rotation {
    using Params = ops::Rotation::Params;

    Params params{};
    std::int64_t pairs = 0, distance = 0, tokens = 0;
    float magnitude = 1, direction = 1, low = 0, high = 0;
    double log2_base = 0;

    Rotation() = default;
    explicit Rotation(const Tensor& node) : params(unpack<Params>(node)), tokens(node.ne[2]) {
        pairs = params.mode == GGML_ROPE_TYPE_VISION ? params.n_dims : params.n_dims / 2;
        distance = params.mode == GGML_ROPE_TYPE_NORMAL ? 1 : pairs;
        magnitude = params.attn_factor;
        direction = node.op == GGML_OP_ROPE_BACK ? -1.0f : 1.0f;
        log2_base = std::log2(static_cast<double>(params.freq_base));
        if (params.ext_factor == 0) return;
        magnitude *= 1 + 0.1f * std::log(1 / params.freq_scale);
        const auto dims = ops::rope_yarn_corr_dims(
            params.n_dims, params.n_ctx_orig, params.freq_base, params.beta_fast, params.beta_slow);
        low = dims[0], high = dims[1];
    }

    /// Elements of a row that are turned begin at n_offs and end here.
    __host__ __device__ std::int64_t end() const { return params.n_offs + 2 * pairs; }

    struct Turn {
        std::int64_t axis, exponent;
    };

    /// Which of a token's positions pair `p` goes by, and the power of its frequency.
    __device__ Turn turn_of(std::int64_t p) const {
        if ((params.mode & GGML_ROPE_TYPE_MROPE) == 0) return {0, p};
        const std::int64_t s0 = params.sections[0], s1 = params.sections[1];
        const std::int64_t s2 = params.sections[2], s3 = params.sections[3];
        const std::int64_t sector = p % (s0 + s1 + s2 + s3);
        if (params.mode == GGML_ROPE_TYPE_IMROPE) {
            if (sector % 3 == 1 && sector < 3 * s1) return {1, p};
            if (sector % 3 == 2 && sector < 3 * s2) return {2, p};
            if (sector % 3 == 0 && sector < 3 * s0) return {0, p};
            return {3, p};
        }
        const std::int64_t begin[4] = {0, s0, s0 + s1, s0 + s1 + s2};
        std::int64_t axis = 3;
        while (axis > 0 && sector < begin[axis]) --axis;
        return {axis, params.mode == GGML_ROPE_TYPE_VISION ? sector - begin[axis] : p};
    }

    /// Radians per unit of position. In double precision: positions may be large.
    __device__ double frequency(std::int64_t p, std::int64_t exponent, float factor) const {
        const double plain =
            exp2(-2.0 * static_cast<double>(exponent) / params.n_dims * log2_base) / factor;
        if (params.ext_factor == 0) return params.freq_scale * plain;
        const float along = (static_cast<float>(p) - low) / fmaxf(0.001f, high - low);
        const float mix = (1 - fminf(1.0f, fmaxf(0.0f, along))) * params.ext_factor;
        return plain * (params.freq_scale * (1 - mix) + mix);
    }

    /// Cosine and sine that a pair of a token is turned by.
    __device__ float2 turn(std::int64_t pair, std::int64_t token, const Operand& positions,
                           const Operand& factors) const {
        const auto [axis, exponent] = turn_of(pair);
        const std::int64_t position = positions.integer(token + axis * tokens);
        const float factor = factors.is_there() ? factors(pair) : 1.0f;
        double sine, cosine;
        sincos(static_cast<double>(position) * frequency(pair, exponent, factor), &sine, &cosine);
        return {magnitude * static_cast<float>(cosine),
                direction * magnitude * static_cast<float>(sine)};
    }

    /// Calls `put(element, value)` for what element i0 of a row gives: nothing for the second one
    /// of a pair, which comes with the first. `get(element)` reads the row, `turn_by(pair)` says
    /// what the pair is turned by.
    template <class Get, class Put, class TurnOf>
    __device__ void apply(std::int64_t i0, const Get& get, const Put& put,
                          const TurnOf& turn_by) const {
        const std::int64_t offset = i0 - params.n_offs;
        if (offset < 0 || i0 >= end()) return put(i0, get(i0));
        const bool is_adjacent = distance == 1;
        if (is_adjacent ? offset % 2 != 0 : offset >= pairs) return;
        const float2 by = turn_by(is_adjacent ? offset / 2 : offset);
        const float a = get(i0), b = get(i0 + distance);
        put(i0, a * by.x - b * by.y);
        put(i0 + distance, a * by.y + b * by.x);
    }

    template <class Get, class Put>
    __device__ void apply(std::int64_t i0, std::int64_t token, const Operand& positions,
                          const Operand& factors, const Get& get, const Put& put) const {
        apply(i0, get, put,
              [&](std::int64_t pair) { return turn(pair, token, positions, factors); });
    }
};

}  // namespace heddle::cuda
