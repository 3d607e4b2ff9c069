#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/norm.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::norm {

inline std::string_view row_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 1); !words.empty()) return words;
    return same_shape(*node.src[0], node) ? "" : "shapes differ";
}

inline std::string_view group_objection(const Tensor& node) {
    if (unpack<ops::GroupNorm::Params>(node).n_groups < 1) return "there are no groups";
    return row_objection(node);
}

}  // namespace heddle::gpu::norm
