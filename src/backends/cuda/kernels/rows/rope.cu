// ROPE and ROPE_BACK in all modes: a thread for each pair of elements.

#include "backends/cuda/kernels/operand.cuh"
#include "ops/rope.hpp"

namespace heddle::cuda {
namespace {

using Params = ops::Rotation::Params;

/// What is the same for all tokens.
struct Rotation {
    Params params;
    std::int64_t pairs, distance, tokens;
    float magnitude, direction, low, high;

    explicit Rotation(const Tensor& node)
        : params(unpack<Params>(node)), tokens(node.ne[2]), low(0), high(0) {
        pairs = params.mode == GGML_ROPE_TYPE_VISION ? params.n_dims : params.n_dims / 2;
        distance = params.mode == GGML_ROPE_TYPE_NORMAL ? 1 : pairs;
        magnitude = params.attn_factor;
        direction = node.op == GGML_OP_ROPE_BACK ? -1.0f : 1.0f;
        if (params.ext_factor == 0) return;
        magnitude *= 1 + 0.1f * std::log(1 / params.freq_scale);
        const auto dims = ops::rope_yarn_corr_dims(
            params.n_dims, params.n_ctx_orig, params.freq_base, params.beta_fast, params.beta_slow);
        low = dims[0], high = dims[1];
    }

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
        const double plain = pow(static_cast<double>(params.freq_base),
                                 -2.0 * static_cast<double>(exponent) / params.n_dims) /
                             factor;
        if (params.ext_factor == 0) return params.freq_scale * plain;
        const float along = (static_cast<float>(p) - low) / fmaxf(0.001f, high - low);
        const float mix = (1 - fminf(1.0f, fmaxf(0.0f, along))) * params.ext_factor;
        return plain * (params.freq_scale * (1 - mix) + mix);
    }
};

std::string_view objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const Tensor *positions = node.src[1], *factors = node.src[2];
    if (positions == nullptr || positions->type != GGML_TYPE_I32) return "positions are not I32";
    if (!same_shape(*node.src[0], node)) return "shapes differ";
    const auto params = unpack<Params>(node);
    const bool is_vision = params.mode == GGML_ROPE_TYPE_VISION;
    const bool has_axes = ops::Rotation::has_four_positions(params.mode);
    if (params.mode != GGML_ROPE_TYPE_NORMAL && params.mode != GGML_ROPE_TYPE_NEOX &&
        params.mode != GGML_ROPE_TYPE_MROPE && params.mode != GGML_ROPE_TYPE_IMROPE && !is_vision) {
        return "no such mode";
    }
    if (positions->ne[0] < node.ne[2] * (has_axes ? 4 : 1)) return "positions are missing";
    if (params.n_dims < 2 || params.n_dims % 2 != 0) return "n_dims is not even";
    const std::int64_t turned = is_vision ? 2 * std::int64_t{params.n_dims} : params.n_dims;
    if (params.n_offs < 0 || params.n_offs + turned > node.ne[0]) {
        return "rows are shorter than what is rotated";
    }
    const std::int64_t pairs = is_vision ? params.n_dims : params.n_dims / 2;
    if (factors != nullptr && (factors->type != GGML_TYPE_F32 || factors->ne[0] < pairs)) {
        return "factors are not one F32 for each pair";
    }
    if (has_axes) {
        std::int64_t total = 0;
        for (const std::int32_t section : params.sections) {
            if (section < 0) return "a section is negative";
            total += section;
        }
        if (total == 0) return "all sections are empty";
    }
    return {};
}

/// One thread for each element that starts a pair, and for each that is not turned.
void launch_rope(const Tensor& node, const Launch& launch) {
    const Rotation rotation(node);
    const Operand x = operand(node.src[0]), positions = operand(node.src[1]);
    const Operand factors = operand(node.src[2]), y = operand(&node);
    const std::int64_t first = rotation.params.n_offs, end = first + 2 * rotation.pairs;
    const bool is_adjacent = rotation.distance == 1;
    for_each_place(launch, node, [=] __device__(Place p) {
        if (p.i0 < first || p.i0 >= end) {
            return y.put(x(p.i0, p.i1, p.i2, p.i3), p.i0, p.i1, p.i2, p.i3);
        }
        const std::int64_t offset = p.i0 - first;
        if (is_adjacent ? offset % 2 != 0 : offset >= rotation.pairs) return;  // a second one
        const std::int64_t pair = is_adjacent ? offset / 2 : offset;
        const auto [axis, exponent] = rotation.turn_of(pair);
        const std::int64_t position = positions.integer(p.i2 + axis * rotation.tokens);
        const float factor = factors.is_there() ? factors(pair) : 1.0f;
        const double angle =
            static_cast<double>(position) * rotation.frequency(pair, exponent, factor);
        double sine_of, cosine_of;
        sincos(angle, &sine_of, &cosine_of);
        const float cosine = rotation.magnitude * static_cast<float>(cosine_of);
        const float sine = rotation.direction * rotation.magnitude * static_cast<float>(sine_of);
        const std::int64_t other = p.i0 + rotation.distance;
        const float a = x(p.i0, p.i1, p.i2, p.i3), b = x(other, p.i1, p.i2, p.i3);
        y.put(a * cosine - b * sine, p.i0, p.i1, p.i2, p.i3);
        y.put(a * sine + b * cosine, other, p.i1, p.i2, p.i3);
    });
}

constexpr Kernel kKernels[] = {
    {"rope", GGML_OP_ROPE, objection, nullptr, launch_rope},
    {"rope_back", GGML_OP_ROPE_BACK, objection, nullptr, launch_rope},
};

}  // namespace

std::span<const Kernel> rope_kernels() { return kKernels; }

}  // namespace heddle::cuda
