#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ggml/ops_nn.h"
#include "ops/rope.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::rope {

inline std::string_view objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const Tensor *positions = node.src[1], *factors = node.src[2];
    if (positions == nullptr || positions->type != GGML_TYPE_I32) return "positions are not I32";
    if (!same_shape(*node.src[0], node)) return "shapes differ";
    const auto params = unpack<ops::Rotation::Params>(node);
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

}  // namespace heddle::gpu::rope
