#pragma once

#include "backends/gpu/conditions/common.hpp"
#include "ops/convolution.hpp"
#include "ops/im2col.hpp"

/// What kernels of this family ask of a node, on every GPU.
namespace heddle::gpu::convolution {

template <std::size_t N>
inline bool has_steps(const Sliding<N>& window, std::size_t axes = N) {
    for (std::size_t axis = 0; axis < axes; ++axis) {
        if (window.stride[axis] < 1) return false;
    }
    return true;
}

inline std::string_view im2col_3d_objection(const Tensor& node) {
    if (!is_float(node)) return "the result is not F32, F16 or BF16";
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    const Tensor &kernel = *node.src[0], &volume = *node.src[1];
    if (!is_float(volume)) return "the data is not F32, F16 or BF16";
    const auto params = unpack<ops::Im2col3d::Params>(node);
    const std::int64_t batches = params.channels > 0 ? volume.ne[3] / params.channels : 0;
    if (batches < 1 || !has_steps(params.window) || node.ne[3] % batches != 0 ||
        node.ne[0] != kernel.ne[0] * kernel.ne[1] * kernel.ne[2] * params.channels) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view col2im_objection(const Tensor& node) {
    if (const auto words = need_floats(node, 1); !words.empty()) return words;
    const auto params = unpack<ops::Col2im1d::Params>(node);
    if (params.stride < 1) return "the stride is below 1";
    if (params.channels < 1 || node.src[0]->ne[0] % params.channels != 0 ||
        node.ne[1] != params.channels) {
        return "rows are not a whole number of signals";
    }
    return {};
}

inline std::string_view conv_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    return need_floats(node, 2);
}

inline std::string_view conv_2d_objection(const Tensor& node) {
    if (const auto words = conv_objection(node); !words.empty()) return words;
    const Tensor &kernel = *node.src[0], &image = *node.src[1];
    if (!has_steps(unpack<ops::Conv2d::Params>(node)) || kernel.ne[2] != image.ne[2] ||
        kernel.ne[3] != node.ne[2] || image.ne[3] != node.ne[3]) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view conv_2d_dw_objection(const Tensor& node) {
    if (const auto words = conv_objection(node); !words.empty()) return words;
    const Tensor &kernel = *node.src[0], &image = *node.src[1];
    if (!has_steps(unpack<ops::Conv2dDw::Params>(node)) || kernel.ne[3] != image.ne[2] ||
        image.ne[2] != node.ne[2] || image.ne[3] != node.ne[3] || kernel.ne[2] < 1) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view conv_3d_objection(const Tensor& node) {
    if (const auto words = conv_objection(node); !words.empty()) return words;
    const auto params = unpack<ops::Conv3d::Params>(node);
    const Tensor &kernel = *node.src[0], &volume = *node.src[1];
    if (!has_steps(params.window) || params.channels < 1 || params.out_channels < 1 ||
        kernel.ne[3] < std::int64_t{params.channels} * params.out_channels ||
        node.ne[3] % params.out_channels != 0 ||
        volume.ne[3] < node.ne[3] / params.out_channels * params.channels) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view conv_transpose_1d_objection(const Tensor& node) {
    if (const auto words = conv_objection(node); !words.empty()) return words;
    const auto window = unpack<ops::ConvTranspose1d::Params>(node);
    const Tensor &kernel = *node.src[0], &signal = *node.src[1];
    if (window.stride[0] < 1 || kernel.ne[2] != signal.ne[1] || kernel.ne[1] != node.ne[1]) {
        return "shapes do not fit";
    }
    return {};
}

inline std::string_view conv_transpose_2d_objection(const Tensor& node) {
    if (const auto words = conv_objection(node); !words.empty()) return words;
    const Tensor &kernel = *node.src[0], &image = *node.src[1];
    if (unpack<ops::ConvTranspose2d::Params>(node).stride < 1 || kernel.ne[3] != image.ne[2] ||
        kernel.ne[2] != node.ne[2] || image.ne[3] != node.ne[3]) {
        return "shapes do not fit";
    }
    return {};
}

}  // namespace heddle::gpu::convolution
