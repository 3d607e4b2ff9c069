#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/optimizer.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::training {

inline std::string_view silu_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 2); !words.empty()) return words;
    const bool fits = same_shape(*node.src[0], node) && same_shape(*node.src[1], node);
    return fits ? "" : "shapes differ";
}

inline std::string_view rms_objection(const Tensor& node) {
    return either(need_f32(node, 2), silu_objection(node));
}

inline std::string_view loss_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    return same_shape(*node.src[0], *node.src[1]) ? "" : "shapes differ";
}

inline std::string_view loss_back_objection(const Tensor& node) {
    if (const auto words = need_f32(node, 3); !words.empty()) return words;
    const bool fits = same_shape(*node.src[1], node) && same_shape(*node.src[2], node) &&
                      element_count(*node.src[0]) == 1;
    return fits ? "" : "shapes differ";
}

inline std::string_view step_objection(const Tensor& node, int values, std::int64_t count) {
    if (const auto words = need_f32(node, values + 1); !words.empty()) return words;
    for (int i = 0; i < values; ++i) {
        if (!same_shape(*node.src[i], node)) return "shapes differ";
    }
    return element_count(*node.src[values]) == count ? "" : "values are missing";
}

inline std::string_view adamw_objection(const Tensor& node) { return step_objection(node, 4, 7); }

inline std::string_view sgd_objection(const Tensor& node) { return step_objection(node, 2, 2); }

}  // namespace heddle::gpu::training
