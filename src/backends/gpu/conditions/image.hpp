#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ops/pool.hpp"
#include "ops/upscale.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::image {

inline std::string_view upscale_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    if (heddle::is_empty(*node.src[0])) return "the image is empty";
    const auto mode = ops::Upscale::interpolation_of(unpack<ops::Upscale::Params>(node).mode);
    if (mode < GGML_SCALE_MODE_NEAREST || mode > GGML_SCALE_MODE_BICUBIC) return "no such mode";
    return {};
}

inline bool is_pool(std::int32_t op) { return op == GGML_OP_POOL_MAX || op == GGML_OP_POOL_AVG; }

inline std::string_view pool_1d_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const auto params = unpack<ops::Pool1d::Params>(node);
    if (!is_pool(params.op)) return "no such pooling";
    if (params.taps < 1 || params.stride < 1 || row_count(node) != row_count(*node.src[0])) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view pooling_objection(const ops::Pool2dRule::Params& params) {
    if (!is_pool(params.op)) return "no such pooling";
    for (std::size_t d = 0; d < 2; ++d) {
        if (params.taps[d] < 1 || params.stride[d] < 1) return "windows are empty";
    }
    return {};
}

inline std::string_view pool_2d_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    if (node.ne[2] != node.src[0]->ne[2] || node.ne[3] != node.src[0]->ne[3]) {
        return "shapes do not fit";
    }
    return pooling_objection(unpack<ops::Pool2dRule::Params>(node));
}

inline std::string_view pool_2d_back_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 2); !words.empty()) return words;
    const Tensor &gradient = *node.src[0], &image = *node.src[1];
    if (!same_shape(image, node) || gradient.ne[2] != node.ne[2] || gradient.ne[3] != node.ne[3]) {
        return "shapes do not fit";
    }
    return pooling_objection(unpack<ops::Pool2dRule::Params>(node));
}

}  // namespace heddle::gpu::image
