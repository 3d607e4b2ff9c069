// Convolutions and patches.

#include "backends/gpu/conditions/convolution.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/convolution.comp has them.
enum Function {
    im2col,
    im2col_back,
    im2col_3d,
    col2im_1d,
    conv_2d,
    conv_2d_dw,
    conv_3d,
    conv_transpose_1d,
    conv_transpose_2d
};

template <std::size_t N>
void set_window(Arguments& a, const Sliding<N>& window) {
    for (std::size_t axis = 0; axis < N; ++axis) {
        a.i[axis] = window.stride[axis];
        a.i[3 + axis] = window.padding[axis];
        a.i[6 + axis] = window.dilation[axis];
    }
}

void record(const Tensor& node, Recorder& recorder, int function, const Arguments& a) {
    recorder.run_elements(
        {.shader = Shader::convolution,
         .values = {function, type_of(node.src[0]), type_of(node.src[1]), type_of(&node)}},
        a, element_count(node));
}

// ---- IM2COL ------------------------------------------------------------------------------------

/// One-dimensional data as images of one row: [L, C, N] becomes [L, 1, C, N].
void make_image(Operand& x) {
    x.extent[3] = x.extent[2], x.stride[3] = x.stride[2];
    x.extent[2] = x.extent[1], x.stride[2] = x.stride[1];
    x.extent[1] = 1;
}

/// Kernel, image and columns, two-dimensional whatever the node is.
struct Patches {
    Arguments all;
    const Operand &kernel, &image, &columns;

    explicit Patches(const Tensor& node)
        : all(arguments(node)),
          kernel(all.src[node.op == GGML_OP_IM2COL ? 0 : 1]),
          image(node.op == GGML_OP_IM2COL ? all.src[1] : all.y),
          columns(node.op == GGML_OP_IM2COL ? all.y : all.src[0]) {
        const auto params = unpack<ops::Im2colRule::Params>(node);
        set_window(all, params.window);
        if (params.is_2d != 0) return;
        make_image(const_cast<Operand&>(kernel));
        make_image(const_cast<Operand&>(image));
        Operand& wide = const_cast<Operand&>(columns);
        wide.extent[3] = wide.extent[2], wide.stride[3] = wide.stride[2];
        wide.extent[2] = 1;
        all.i[1] = 1, all.i[4] = 0, all.i[7] = 0;
    }
    Patches(const Patches&) = delete;

    bool fits() const {
        return columns.extent[0] == kernel.extent[0] * kernel.extent[1] * image.extent[2] &&
               columns.extent[3] == image.extent[3] && all.i[0] >= 1 && all.i[1] >= 1;
    }
};

std::string_view im2col_objection(const Tensor& node) {
    if (!gpu::is_float(node)) return "the result is not F32, F16 or BF16";
    if (!gpu::is_float(*node.src[1])) return "the image is not F32, F16 or BF16";
    return Patches(node).fits() ? "" : "shapes do not fit";
}

std::string_view im2col_back_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    if (!gpu::is_float(*node.src[0])) return "columns are not F32, F16 or BF16";
    return Patches(node).fits() ? "" : "shapes do not fit";
}

template <int kFunction>
void record_patches(const Tensor& node, Recorder& recorder) {
    record(node, recorder, kFunction, Patches(node).all);
}

void record_im2col_3d(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Im2col3d::Params>(node);
    Arguments a = arguments(node);
    set_window(a, params.window);
    a.i[9] = params.channels;
    a.i[10] = static_cast<std::int32_t>(node.ne[3] / (node.src[1]->ne[3] / params.channels));
    record(node, recorder, im2col_3d, a);
}

void record_col2im(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Col2im1d::Params>(node);
    Arguments a = arguments(node);
    a.i[0] = params.stride;
    a.i[3] = params.padding;
    a.i[9] = static_cast<std::int32_t>(node.src[0]->ne[0] / params.channels);
    record(node, recorder, col2im_1d, a);
}

// ---- convolutions ------------------------------------------------------------------------------

template <class OpOf, int kFunction>
void record_window(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    set_window(a, unpack<typename OpOf::Params>(node));
    record(node, recorder, kFunction, a);
}

void record_conv_3d(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Conv3d::Params>(node);
    Arguments a = arguments(node);
    set_window(a, params.window);
    a.i[9] = params.channels;
    a.i[10] = params.out_channels;
    record(node, recorder, conv_3d, a);
}

void record_conv_transpose_2d(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.i[0] = unpack<ops::ConvTranspose2d::Params>(node).stride;
    record(node, recorder, conv_transpose_2d, a);
}

using namespace gpu::convolution;

constexpr Kernel kKernels[] = {
    {"im2col", GGML_OP_IM2COL, im2col_objection, record_patches<im2col>},
    {"im2col_back", GGML_OP_IM2COL_BACK, im2col_back_objection, record_patches<im2col_back>},
    {"im2col_3d", GGML_OP_IM2COL_3D, im2col_3d_objection, record_im2col_3d},
    {"col2im_1d", GGML_OP_COL2IM_1D, col2im_objection, record_col2im},
    {"conv_2d", GGML_OP_CONV_2D, conv_2d_objection, record_window<ops::Conv2d, conv_2d>},
    {"conv_2d_dw", GGML_OP_CONV_2D_DW, conv_2d_dw_objection,
     record_window<ops::Conv2dDw, conv_2d_dw>},
    {"conv_3d", GGML_OP_CONV_3D, conv_3d_objection, record_conv_3d},
    {"conv_transpose_1d", GGML_OP_CONV_TRANSPOSE_1D, conv_transpose_1d_objection,
     record_window<ops::ConvTranspose1d, conv_transpose_1d>},
    {"conv_transpose_2d", GGML_OP_CONV_TRANSPOSE_2D, conv_transpose_2d_objection,
     record_conv_transpose_2d},
};

}  // namespace

std::span<const Kernel> convolution_kernels() { return kKernels; }

}  // namespace heddle::vulkan
