// ROPE and ROPE_BACK in all modes.

#include "backends/gpu/conditions/rope.hpp"

#include <cmath>
#include <numbers>

#include "backends/vulkan/kernels/common.hpp"
#include "backends/vulkan/step.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"

namespace heddle::vulkan {
namespace {

using Params = ops::Rotation::Params;

/// As shaders/rope.comp has it.
struct Turn {
    std::uint64_t fraction;
    std::int32_t axis, padding = 0;
};

struct Course {
    std::int64_t axis, exponent;
};

/// Which of a token's positions pair `p` goes by, and the power of its frequency.
Course course_of(const Params& params, std::int64_t p) {
    if (!ops::Rotation::has_four_positions(params.mode)) return {0, p};
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

/// A fraction of a turn with 64 bits after the point; whole turns do not count.
std::uint64_t fraction_of(double radians) {
    const double turns = radians / (2 * std::numbers::pi);
    const double rest = turns - std::floor(turns);
    return static_cast<std::uint64_t>(std::ldexp(rest, 63)) << 1;
}

std::vector<Turn> turns_of(const Params& params, std::int64_t pairs) {
    std::array<float, 2> corrected{};
    if (params.ext_factor != 0) {
        corrected = ops::rope_yarn_corr_dims(params.n_dims, params.n_ctx_orig, params.freq_base,
                                             params.beta_fast, params.beta_slow);
    }
    std::vector<Turn> turns;
    for (std::int64_t p = 0; p < pairs; ++p) {
        const auto [axis, exponent] = course_of(params, p);
        const double plain = std::pow(static_cast<double>(params.freq_base),
                                      -2.0 * static_cast<double>(exponent) / params.n_dims);
        double scale = params.freq_scale;
        if (params.ext_factor != 0) {
            const float along = (static_cast<float>(p) - corrected[0]) /
                                std::max(0.001f, corrected[1] - corrected[0]);
            const float mix = (1 - std::clamp(along, 0.0f, 1.0f)) * params.ext_factor;
            scale = params.freq_scale * (1 - mix) + mix;
        }
        turns.push_back({fraction_of(plain * scale), static_cast<std::int32_t>(axis)});
    }
    return turns;
}

/// To rows of `store`, if that is not null.
void record_turns(const Tensor& node, const Tensor* store, Recorder& recorder) {
    const auto params = unpack<Params>(node);
    const std::int32_t pairs =
        params.mode == GGML_ROPE_TYPE_VISION ? params.n_dims : params.n_dims / 2;
    const bool is_adjacent = params.mode == GGML_ROPE_TYPE_NORMAL;
    float magnitude = params.attn_factor;
    if (params.ext_factor != 0) magnitude *= 1 + 0.1f * std::log(1 / params.freq_scale);
    Arguments a = arguments(node);
    a.i[0] = params.n_offs;
    a.i[1] = pairs;
    a.i[2] = is_adjacent ? 1 : pairs;
    a.i[3] = static_cast<std::int32_t>(node.ne[2]);
    a.i[4] = is_adjacent ? 1 : 0;
    a.f[0] = magnitude;
    a.f[1] = node.op == GGML_OP_ROPE_BACK ? -magnitude : magnitude;
    if (store != nullptr) {
        a.src[3] = operand(store);
        a.src[4] = operand(store->src[1]);
        a.op = store->op;  // the one that is named where an index is outside of the cache
    }
    const Tensor& result = store != nullptr ? *store : node;
    const std::vector<Turn> turns = turns_of(params, pairs);
    recorder.run_elements({.shader = Shader::rope,
                           .values = {type_of(node.src[0]), type_of(&result), store != nullptr},
                           .extra = std::as_bytes(std::span(turns))},
                          a, element_count(node));
}

void record_rope(const Tensor& node, Recorder& recorder) { record_turns(node, nullptr, recorder); }

constexpr Kernel kKernels[] = {
    {"rope", GGML_OP_ROPE, gpu::rope::objection, record_rope},
    {"rope_back", GGML_OP_ROPE_BACK, gpu::rope::objection, record_rope},
};

}  // namespace

void record_rope_store(const RopeStore& pair, Recorder& recorder) {
    record_turns(*pair.rope, pair.store, recorder);
}

std::span<const Kernel> rope_kernels() { return kKernels; }

}  // namespace heddle::vulkan
