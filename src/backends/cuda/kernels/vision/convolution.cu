// Convolutions and patches: a thread for each element of the result, which gathers what it needs.

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/convolution.hpp"
#include "ggml/op_list.h"
#include "ops/convolution.hpp"
#include "ops/im2col.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::convolution;

/// An element of `image`, or zero outside of it.
__device__ float padded(const Operand& image, std::int64_t x, std::int64_t y, std::int64_t i2,
                        std::int64_t i3) {
    if (x < 0 || x >= image.extent[0] || y < 0 || y >= image.extent[1]) return 0;
    return image(x, y, i2, i3);
}

__device__ float padded_3d(const Operand& volume, std::int64_t x, std::int64_t y, std::int64_t z,
                           std::int64_t channel) {
    return z < 0 || z >= volume.extent[2] ? 0 : padded(volume, x, y, z, channel);
}

/// Where tap `k` of output `o` lies along an axis.
template <std::size_t N>
__device__ std::int64_t place_of(const Sliding<N>& window, int axis, std::int64_t o,
                                 std::int64_t k) {
    return o * window.stride[axis] + k * window.dilation[axis] - window.padding[axis];
}

/// One-dimensional data as images of one row: [L, C, N] becomes [L, 1, C, N].
Operand as_image(const Tensor* tensor) {
    Operand x = operand(tensor);
    x.extent[3] = x.extent[2], x.stride[3] = x.stride[2];
    x.extent[2] = x.extent[1], x.stride[2] = x.stride[1];
    x.extent[1] = 1;
    return x;
}

// ---- IM2COL ------------------------------------------------------------------------------------

using Im2colParams = ops::Im2colRule::Params;

/// Kernel, image and columns, two-dimensional whatever the node is.
struct Patches {
    Im2colParams params;
    Operand kernel, image, columns;

    Patches(const Tensor& node, const Tensor* kernel_of, const Tensor* image_of,
            const Tensor* columns_of)
        : params(unpack<Im2colParams>(node)) {
        const bool is_2d = params.is_2d != 0;
        kernel = is_2d ? operand(kernel_of) : as_image(kernel_of);
        image = is_2d ? operand(image_of) : as_image(image_of);
        columns = operand(columns_of);
        if (is_2d) return;
        columns.extent[3] = columns.extent[2], columns.stride[3] = columns.stride[2];
        columns.extent[2] = 1;
        params.window.stride[1] = 1;
        params.window.padding[1] = 0;
        params.window.dilation[1] = 0;
    }

    bool fits() const {
        return columns.extent[0] == kernel.extent[0] * kernel.extent[1] * image.extent[2] &&
               columns.extent[3] == image.extent[3] && has_steps(params.window);
    }
    Shape shape_of_columns() const {
        return {{columns.extent[0], columns.extent[1], columns.extent[2], columns.extent[3]}};
    }
};

std::string_view im2col_objection(const Tensor& node) {
    if (!is_float(node)) return "the result is not F32, F16 or BF16";
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    if (!is_float(*node.src[1])) return "the image is not F32, F16 or BF16";
    return Patches(node, node.src[0], node.src[1], &node).fits() ? "" : "shapes do not fit";
}

void launch_im2col(const Tensor& node, const Launch& launch) {
    const Patches patches(node, node.src[0], node.src[1], &node);
    const Shape shape = patches.shape_of_columns();
    for_each(launch, element_count(node), [=] __device__(std::int64_t i) {
        const Place p = unravel(i, shape.extent);
        const std::int64_t across = patches.kernel.extent[0], down = patches.kernel.extent[1];
        const std::int64_t kw = p.i0 % across, kh = p.i0 / across % down;
        const std::int64_t x = place_of(patches.params.window, 0, p.i1, kw);
        const std::int64_t y = place_of(patches.params.window, 1, p.i2, kh);
        patches.columns.put(padded(patches.image, x, y, p.i0 / across / down, p.i3), p.i0, p.i1,
                            p.i2, p.i3);
    });
}

std::string_view im2col_back_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32) return "the result is not F32";
    if (node.src[0] == nullptr || node.src[1] == nullptr) return "an operand is missing";
    if (!is_float(*node.src[0])) return "columns are not F32, F16 or BF16";
    return Patches(node, node.src[1], &node, node.src[0]).fits() ? "" : "shapes do not fit";
}

/// The output whose tap `k` lies at `at`; -1 if there is none.
template <std::size_t N>
__device__ std::int64_t output_at(const Sliding<N>& window, int axis, std::int64_t at,
                                  std::int64_t k, std::int64_t outputs) {
    const std::int64_t from = at + window.padding[axis] - k * window.dilation[axis];
    if (from < 0 || from % window.stride[axis] != 0) return -1;
    const std::int64_t output = from / window.stride[axis];
    return output < outputs ? output : -1;
}

/// Every element takes back what patches took from it.
void launch_im2col_back(const Tensor& node, const Launch& launch) {
    const Patches patches(node, node.src[1], &node, node.src[0]);
    const Operand& image = patches.image;
    const Shape shape{{image.extent[0], image.extent[1], image.extent[2], image.extent[3]}};
    for_each(launch, element_count(node), [=] __device__(std::int64_t i) {
        const Place p = unravel(i, shape.extent);
        const auto& window = patches.params.window;
        const std::int64_t across = patches.kernel.extent[0], down = patches.kernel.extent[1];
        float total = 0;
        for (std::int64_t kh = 0; kh < down; ++kh) {
            const std::int64_t oh = output_at(window, 1, p.i1, kh, patches.columns.extent[2]);
            if (oh < 0) continue;
            for (std::int64_t kw = 0; kw < across; ++kw) {
                const std::int64_t ow = output_at(window, 0, p.i0, kw, patches.columns.extent[1]);
                if (ow < 0) continue;
                total += patches.columns((p.i2 * down + kh) * across + kw, ow, oh, p.i3);
            }
        }
        patches.image.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- IM2COL_3D, COL2IM_1D ----------------------------------------------------------------------

void launch_im2col_3d(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Im2col3d::Params>(node);
    const Operand kernel = operand(node.src[0]), volume = operand(node.src[1]), y = operand(&node);
    const std::int64_t channels = params.channels;
    const std::int64_t depth = node.ne[3] / (node.src[1]->ne[3] / channels);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t kw = p.i0 % kernel.extent[0], over_width = p.i0 / kernel.extent[0];
        const std::int64_t kh = over_width % kernel.extent[1];
        const std::int64_t kd = over_width / kernel.extent[1] % kernel.extent[2];
        const std::int64_t channel = over_width / kernel.extent[1] / kernel.extent[2];
        y.put(padded_3d(volume, place_of(params.window, 0, p.i1, kw),
                        place_of(params.window, 1, p.i2, kh),
                        place_of(params.window, 2, p.i3 % depth, kd),
                        p.i3 / depth * channels + channel),
              p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_col2im(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Col2im1d::Params>(node);
    const Operand columns = operand(node.src[0]), y = operand(&node);
    const std::int64_t taps = node.src[0]->ne[0] / params.channels, step = params.stride;
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t at = p.i0 + params.padding;
        const std::int64_t first = at < taps ? 0 : (at - taps) / step + 1;
        float total = 0;
        for (std::int64_t c = first; c * step <= at && c < columns.extent[1]; ++c) {
            total += columns(p.i1 * taps + at - c * step, c);
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- convolutions ------------------------------------------------------------------------------

void launch_conv_2d(const Tensor& node, const Launch& launch) {
    const auto window = unpack<ops::Conv2d::Params>(node);
    const Operand kernel = operand(node.src[0]), image = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t ic = 0; ic < kernel.extent[2]; ++ic) {
            for (std::int64_t ky = 0; ky < kernel.extent[1]; ++ky) {
                const std::int64_t row = place_of(window, 1, p.i1, ky);
                if (row < 0 || row >= image.extent[1]) continue;
                for (std::int64_t kx = 0; kx < kernel.extent[0]; ++kx) {
                    const std::int64_t column = place_of(window, 0, p.i0, kx);
                    total += kernel(kx, ky, ic, p.i2) * padded(image, column, row, ic, p.i3);
                }
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_conv_2d_dw(const Tensor& node, const Launch& launch) {
    const auto window = unpack<ops::Conv2dDw::Params>(node);
    const Operand kernel = operand(node.src[0]), image = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t ky = 0; ky < kernel.extent[1]; ++ky) {
            for (std::int64_t kx = 0; kx < kernel.extent[0]; ++kx) {
                total +=
                    kernel(kx, ky, 0, p.i2) * padded(image, place_of(window, 0, p.i0, kx),
                                                     place_of(window, 1, p.i1, ky), p.i2, p.i3);
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_conv_3d(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Conv3d::Params>(node);
    const Operand kernel = operand(node.src[0]), volume = operand(node.src[1]), y = operand(&node);
    const std::int64_t channels = params.channels, outputs = params.out_channels;
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t out = p.i3 % outputs, n = p.i3 / outputs;
        float total = 0;
        for (std::int64_t ic = 0; ic < channels; ++ic) {
            for (std::int64_t kz = 0; kz < kernel.extent[2]; ++kz) {
                for (std::int64_t ky = 0; ky < kernel.extent[1]; ++ky) {
                    for (std::int64_t kx = 0; kx < kernel.extent[0]; ++kx) {
                        total += kernel(kx, ky, kz, out * channels + ic) *
                                 padded_3d(volume, place_of(params.window, 0, p.i0, kx),
                                           place_of(params.window, 1, p.i1, ky),
                                           place_of(params.window, 2, p.i2, kz), n * channels + ic);
                    }
                }
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- transposed convolutions -------------------------------------------------------------------

/// Inputs whose kernel covers output `o`: from `first` to `last`, one of `count`.
struct Covering {
    std::int64_t first, last;

    __device__ Covering(std::int64_t o, std::int64_t taps, std::int64_t step, std::int64_t count)
        : first(o < taps ? 0 : (o - taps) / step + 1), last(o / step) {
        if (last >= count) last = count - 1;
    }
};

void launch_conv_transpose_1d(const Tensor& node, const Launch& launch) {
    const std::int64_t step = unpack<ops::ConvTranspose1d::Params>(node).stride[0];
    const Operand kernel = operand(node.src[0]), signal = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const Covering along(p.i0, kernel.extent[0], step, signal.extent[0]);
        float total = 0;
        for (std::int64_t ic = 0; ic < kernel.extent[2]; ++ic) {
            for (std::int64_t l = along.first; l <= along.last; ++l) {
                total += kernel(p.i0 - l * step, p.i1, ic) * signal(l, ic);
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_conv_transpose_2d(const Tensor& node, const Launch& launch) {
    const std::int64_t step = unpack<ops::ConvTranspose2d::Params>(node).stride;
    const Operand kernel = operand(node.src[0]), image = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const Covering across(p.i0, kernel.extent[0], step, image.extent[0]);
        const Covering down(p.i1, kernel.extent[1], step, image.extent[1]);
        float total = 0;
        for (std::int64_t ic = 0; ic < kernel.extent[3]; ++ic) {
            for (std::int64_t row = down.first; row <= down.last; ++row) {
                for (std::int64_t column = across.first; column <= across.last; ++column) {
                    total += kernel(p.i0 - column * step, p.i1 - row * step, p.i2, ic) *
                             image(column, row, ic, p.i3);
                }
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

constexpr Kernel kKernels[] = {
    {"im2col", GGML_OP_IM2COL, im2col_objection, nullptr, launch_im2col},
    {"im2col_back", GGML_OP_IM2COL_BACK, im2col_back_objection, nullptr, launch_im2col_back},
    {"im2col_3d", GGML_OP_IM2COL_3D, im2col_3d_objection, nullptr, launch_im2col_3d},
    {"col2im_1d", GGML_OP_COL2IM_1D, col2im_objection, nullptr, launch_col2im},
    {"conv_2d", GGML_OP_CONV_2D, conv_2d_objection, nullptr, launch_conv_2d},
    {"conv_2d_dw", GGML_OP_CONV_2D_DW, conv_2d_dw_objection, nullptr, launch_conv_2d_dw},
    {"conv_3d", GGML_OP_CONV_3D, conv_3d_objection, nullptr, launch_conv_3d},
    {"conv_transpose_1d", GGML_OP_CONV_TRANSPOSE_1D, conv_transpose_1d_objection, nullptr,
     launch_conv_transpose_1d},
    {"conv_transpose_2d", GGML_OP_CONV_TRANSPOSE_2D, conv_transpose_2d_objection, nullptr,
     launch_conv_transpose_2d},
};

}  // namespace

std::span<const Kernel> convolution_kernels() { return kKernels; }

}  // namespace heddle::cuda
