#include "ggml/op_list.h"
#include "reference/reference.hpp"

namespace heddle::tool::reference {
namespace {

/// An element of `image`, or zero outside of it.
double padded(const Values& image, std::int64_t x, std::int64_t y, std::int64_t i2,
              std::int64_t i3) {
    if (x < 0 || x >= image.extent(0) || y < 0 || y >= image.extent(1)) return 0;
    return image(x, y, i2, i3);
}

// ---- patches as rows ---------------------------------------------------------------------------

/// One-dimensional data as images of one row: [L, IC, N] becomes [L, 1, IC, N].
Values as_image(const Values& a) { return a.reshaped({a.extent(0), 1, a.extent(1), a.extent(2)}); }

Values im2col(const Operands& in) {
    const bool is_2d = in.integer(6) != 0;
    const Values kernel = is_2d ? in[0] : as_image(in[0]);
    const Values image = is_2d ? in[1] : as_image(in[1]);
    const std::int64_t across = kernel.extent(0), down = kernel.extent(1);
    const Extents extent = is_2d ? in.extent : Extents{in.extent[0], in.extent[1], 1, in.extent[2]};
    return make_values(extent,
                       [&](std::int64_t tap, std::int64_t ow, std::int64_t oh, std::int64_t n) {
                           const std::int64_t kw = tap % across, kh = tap / across % down;
                           const std::int64_t channel = tap / across / down;
                           const std::int64_t x =
                               ow * in.integer(0) + kw * in.integer(4) - in.integer(2);
                           const std::int64_t y =
                               is_2d ? oh * in.integer(1) + kh * in.integer(5) - in.integer(3) : 0;
                           return padded(image, x, y, channel, n);
                       })
        .reshaped(in.extent);
}

/// Every patch gives its elements back to where im2col took them from.
Values im2col_back(const Operands& in) {
    const bool is_2d = in.integer(6) != 0;
    const Values& given = in[0];
    const Values kernel = is_2d ? in[1] : as_image(in[1]);
    const Values columns =
        is_2d ? given : given.reshaped({given.extent(0), given.extent(1), 1, given.extent(2)});
    Values image(is_2d ? in.extent : Extents{in.extent[0], 1, in.extent[1], in.extent[2]});
    const std::int64_t across = kernel.extent(0), down = kernel.extent(1);
    columns.for_each([&](std::int64_t tap, std::int64_t ow, std::int64_t oh, std::int64_t n) {
        const std::int64_t kw = tap % across, kh = tap / across % down;
        const std::int64_t x = ow * in.integer(0) + kw * in.integer(4) - in.integer(2);
        const std::int64_t y = is_2d ? oh * in.integer(1) + kh * in.integer(5) - in.integer(3) : 0;
        if (x < 0 || x >= image.extent(0) || y < 0 || y >= image.extent(1)) return;
        image(x, y, tap / across / down, n) += columns(tap, ow, oh, n);
    });
    return image.reshaped(in.extent);
}

double padded_3d(const Values& volume, std::int64_t x, std::int64_t y, std::int64_t z,
                 std::int64_t channel) {
    return z < 0 || z >= volume.extent(2) ? 0 : padded(volume, x, y, z, channel);
}

/// Where tap `k` of output `o` lies along an axis. Parameters come as strides, paddings, dilations.
std::int64_t place_3d(const Operands& in, std::size_t axis, std::int64_t o, std::int64_t k) {
    return o * in.integer(axis) + k * in.integer(6 + axis) - in.integer(3 + axis);
}

Values im2col_3d(const Operands& in) {
    const Values &kernel = in[0], &volume = in[1];
    const std::int64_t channels = in.integer(9);
    const std::int64_t batches = volume.extent(3) / channels;
    if (batches == 0) return Values(in.extent);
    const std::int64_t depth = in.extent[3] / batches;
    return make_values(in.extent, [&](std::int64_t tap, std::int64_t ow, std::int64_t oh,
                                      std::int64_t plane) {
        const std::int64_t kw = tap % kernel.extent(0), over_width = tap / kernel.extent(0);
        const std::int64_t kh = over_width % kernel.extent(1);
        const std::int64_t kd = over_width / kernel.extent(1) % kernel.extent(2);
        const std::int64_t channel = over_width / kernel.extent(1) / kernel.extent(2);
        return padded_3d(volume, place_3d(in, 0, ow, kw), place_3d(in, 1, oh, kh),
                         place_3d(in, 2, plane % depth, kd), plane / depth * channels + channel);
    });
}

/// Columns are added into the signal they were the product for.
Values col2im_1d(const Operands& in) {
    const Values& columns = in[0];
    const std::int64_t step = in.integer(0), taps = columns.extent(0) / in.integer(1);
    Values result(in.extent);
    columns.for_each([&](std::int64_t row, std::int64_t column, auto...) {
        const std::int64_t at = column * step + row % taps - in.integer(2);
        if (at < 0 || at >= result.extent(0)) return;
        result(at, row / taps) += columns(row, column);
    });
    return result;
}

// ---- convolutions ------------------------------------------------------------------------------

Values conv_2d(const Operands& in) {
    const Values &kernel = in[0], &image = in[1];
    return make_values(in.extent, [&](std::int64_t ox, std::int64_t oy, std::int64_t channel,
                                      std::int64_t n) {
        double total = 0;
        for (std::int64_t ic = 0; ic < kernel.extent(2); ++ic) {
            for (std::int64_t ky = 0; ky < kernel.extent(1); ++ky) {
                for (std::int64_t kx = 0; kx < kernel.extent(0); ++kx) {
                    const std::int64_t x = ox * in.integer(0) + kx * in.integer(4) - in.integer(2);
                    const std::int64_t y = oy * in.integer(1) + ky * in.integer(5) - in.integer(3);
                    total += kernel(kx, ky, ic, channel) * padded(image, x, y, ic, n);
                }
            }
        }
        return total;
    });
}

Values conv_2d_dw(const Operands& in) {
    const Values &kernel = in[0], &image = in[1];
    return make_values(
        in.extent, [&](std::int64_t ox, std::int64_t oy, std::int64_t channel, std::int64_t n) {
            double total = 0;
            for (std::int64_t ky = 0; ky < kernel.extent(1); ++ky) {
                for (std::int64_t kx = 0; kx < kernel.extent(0); ++kx) {
                    const std::int64_t x = ox * in.integer(0) + kx * in.integer(4) - in.integer(2);
                    const std::int64_t y = oy * in.integer(1) + ky * in.integer(5) - in.integer(3);
                    total += kernel(kx, ky, 0, channel) * padded(image, x, y, channel, n);
                }
            }
            return total;
        });
}

Values conv_3d(const Operands& in) {
    const Values &kernel = in[0], &volume = in[1];
    const std::int64_t channels = in.integer(9), out_channels = in.integer(11);
    return make_values(in.extent, [&](std::int64_t ox, std::int64_t oy, std::int64_t oz,
                                      std::int64_t plane) {
        const std::int64_t out = plane % out_channels, n = plane / out_channels;
        double total = 0;
        for (std::int64_t ic = 0; ic < channels; ++ic) {
            for (std::int64_t kz = 0; kz < kernel.extent(2); ++kz) {
                for (std::int64_t ky = 0; ky < kernel.extent(1); ++ky) {
                    for (std::int64_t kx = 0; kx < kernel.extent(0); ++kx) {
                        total += kernel(kx, ky, kz, out * channels + ic) *
                                 padded_3d(volume, place_3d(in, 0, ox, kx), place_3d(in, 1, oy, ky),
                                           place_3d(in, 2, oz, kz), n * channels + ic);
                    }
                }
            }
        }
        return total;
    });
}

/// Every input element lays the kernel, times itself, over the output.
Values conv_transpose_1d(const Operands& in) {
    const Values &kernel = in[0], &signal = in[1];
    Values result(in.extent);
    kernel.for_each([&](std::int64_t k, std::int64_t out, std::int64_t ic, auto) {
        for (std::int64_t l = 0; l < signal.extent(0); ++l) {
            result(l * in.integer(0) + k, out) += kernel(k, out, ic) * signal(l, ic);
        }
    });
    return result;
}

Values conv_transpose_2d(const Operands& in) {
    const Values &kernel = in[0], &image = in[1];
    const std::int64_t step = in.integer(0);
    Values result(in.extent);
    image.for_each([&](std::int64_t x, std::int64_t y, std::int64_t ic, std::int64_t n) {
        for (std::int64_t out = 0; out < kernel.extent(2); ++out) {
            for (std::int64_t ky = 0; ky < kernel.extent(1); ++ky) {
                for (std::int64_t kx = 0; kx < kernel.extent(0); ++kx) {
                    result(x * step + kx, y * step + ky, out, n) +=
                        kernel(kx, ky, out, ic) * image(x, y, ic, n);
                }
            }
        }
    });
    return result;
}

constexpr Definition kDefinitions[] = {
    {GGML_OP_IM2COL, im2col},
    {GGML_OP_IM2COL_BACK, im2col_back},
    {GGML_OP_IM2COL_3D, im2col_3d},
    {GGML_OP_COL2IM_1D, col2im_1d},
    {GGML_OP_CONV_2D, conv_2d},
    {GGML_OP_CONV_2D_DW, conv_2d_dw},
    {GGML_OP_CONV_3D, conv_3d},
    {GGML_OP_CONV_TRANSPOSE_1D, conv_transpose_1d},
    {GGML_OP_CONV_TRANSPOSE_2D, conv_transpose_2d},
};

}  // namespace

std::span<const Definition> convolution_definitions() { return kDefinitions; }

}  // namespace heddle::tool::reference
