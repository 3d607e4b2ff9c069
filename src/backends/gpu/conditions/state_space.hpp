#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/state_space.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::state_space {

inline std::string_view conv_objection(const Tensor &node) {
    if (const auto words = need_f32(node, 2); !words.empty()) return words;
    const Tensor &signal = *node.src[0], &kernel = *node.src[1];
    if (kernel.ne[1] != node.ne[0] || signal.ne[1] != node.ne[0] ||
        signal.ne[0] + 1 != node.ne[1] + kernel.ne[0] || signal.ne[2] != node.ne[2] ||
        node.ne[3] != 1) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view scan_objection(const Tensor &node) {
    if (const auto words = need_f32(node, 6); !words.empty()) return words;
    const Tensor *ids = node.src[6], &pool = *node.src[0], &x = *node.src[1], &dt = *node.src[2];
    const Tensor &decay = *node.src[3], &b = *node.src[4], &c = *node.src[5];
    if (ids == nullptr || ids->type != GGML_TYPE_I32) return "ids are not I32";
    const std::int64_t slots = unpack<ops::SsmScan::Params>(node).snapshots;
    if (slots < 1) return "there is no room for the state";
    if (!is_contiguous(node)) return "the result is not contiguous";
    const std::int64_t state = pool.ne[0] * x.ne[0] * x.ne[1] * x.ne[3];
    const bool fits = pool.ne[1] == x.ne[0] && pool.ne[2] == x.ne[1] && b.ne[1] > 0 &&
                      x.ne[1] % b.ne[1] == 0 && b.ne[0] == pool.ne[0] && same_shape(b, c) &&
                      b.ne[2] == x.ne[2] && b.ne[3] == x.ne[3] && dt.ne[0] == x.ne[1] &&
                      dt.ne[1] == x.ne[2] && dt.ne[2] == x.ne[3] && decay.ne[1] == x.ne[1] &&
                      (decay.ne[0] == 1 || decay.ne[0] == pool.ne[0]) && ids->ne[0] >= x.ne[3] &&
                      element_count(node) >= element_count(x) + slots * state;
    return fits ? "" : "shapes do not fit";
}

}  // namespace heddle::gpu::state_space
