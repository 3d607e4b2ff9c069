// UPSCALE in all modes, POOL_1D, POOL_2D and POOL_2D_BACK.

#include <cfloat>

#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/image.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ops/pool.hpp"
#include "ops/upscale.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::image;

// ---- UPSCALE -----------------------------------------------------------------------------------

/// Places of source pixels. Divisions in single precision by definition: at the borders between
/// pixels the last bit decides, so nothing may be contracted either.
struct Scaling {
    Operand x;
    float factor[4];
    float offset = 0.5f;

    explicit Scaling(const Tensor& node) : x(operand(node.src[0])) {
        for (int d = 0; d < 4; ++d) {
            factor[d] = static_cast<float>(node.ne[d]) / static_cast<float>(x.extent[d]);
        }
        const auto mode = unpack<ops::Upscale::Params>(node).mode;
        if ((mode & GGML_SCALE_FLAG_ALIGN_CORNERS) == 0) return;
        offset = 0;
        for (int d = 0; d < 2; ++d) {
            if (node.ne[d] <= 1 || x.extent[d] <= 1) continue;
            factor[d] = static_cast<float>(node.ne[d] - 1) / static_cast<float>(x.extent[d] - 1);
        }
    }

    __device__ std::int64_t inside(int d, std::int64_t j) const {
        return j < 0 ? 0 : j >= x.extent[d] ? x.extent[d] - 1 : j;
    }
    __device__ std::int64_t nearest(int d, std::int64_t i) const {
        return inside(d, static_cast<std::int64_t>(__fdiv_rn(static_cast<float>(i), factor[d])));
    }
    /// Before the offset is taken off again.
    __device__ float centre(int d, std::int64_t i) const {
        return __fdiv_rn(__fadd_rn(static_cast<float>(i), offset), factor[d]);
    }
    __device__ float place(int d, std::int64_t i) const { return __fadd_rn(centre(d, i), -offset); }
};

__device__ float bilinear(const Scaling& scaling, const Place& p, std::int64_t j2,
                          std::int64_t j3) {
    const std::int64_t i[2] = {p.i0, p.i1};
    std::int64_t low[2], high[2];
    float share[2];
    for (int d = 0; d < 2; ++d) {
        const float place = scaling.place(d, i[d]);
        const auto floor = static_cast<std::int64_t>(floorf(place));
        low[d] = scaling.inside(d, floor);
        high[d] = scaling.inside(d, floor + 1);
        share[d] = fminf(fmaxf(place - static_cast<float>(low[d]), 0.0f), 1.0f);
    }
    const Operand& x = scaling.x;
    const float top =
        x(low[0], low[1], j2, j3) * (1 - share[0]) + x(high[0], low[1], j2, j3) * share[0];
    const float bottom =
        x(low[0], high[1], j2, j3) * (1 - share[0]) + x(high[0], high[1], j2, j3) * share[0];
    return top * (1 - share[1]) + bottom * share[1];
}

/// A triangle as wide as the pixels that fall into one.
struct Triangle {
    float centre, width, offset;
    std::int64_t begin, end;

    __device__ Triangle(const Scaling& scaling, int d, std::int64_t i) {
        centre = scaling.centre(d, i);
        width = fmaxf(1.0f, __fdiv_rn(1.0f, scaling.factor[d]));
        offset = scaling.offset;
        begin = static_cast<std::int64_t>(__fadd_rn(__fadd_rn(centre, -width), offset));
        end = static_cast<std::int64_t>(__fadd_rn(__fadd_rn(centre, width), offset));
        if (begin < 0) begin = 0;
        if (end > scaling.x.extent[d]) end = scaling.x.extent[d];
    }
    __device__ float weight(std::int64_t j) const {
        const float away = __fadd_rn(__fadd_rn(static_cast<float>(j), -centre), offset);
        return fmaxf(1.0f - fabsf(__fdiv_rn(away, width)), 0.0f);
    }
};

__device__ float antialiased(const Scaling& scaling, const Place& p, std::int64_t j2,
                             std::int64_t j3) {
    const Triangle across(scaling, 0, p.i0), down(scaling, 1, p.i1);
    float total = 0, weights = 0;
    for (std::int64_t row = down.begin; row < down.end; ++row) {
        for (std::int64_t column = across.begin; column < across.end; ++column) {
            const float share = across.weight(column) * down.weight(row);
            if (share <= 0) continue;
            total += share * scaling.x(column, row, j2, j3);
            weights += share;
        }
    }
    return weights > 0 ? total / weights : 0.0f;
}

__device__ float bicubic(const Scaling& scaling, const Place& p, std::int64_t j2, std::int64_t j3) {
    constexpr float alpha = -0.75f;
    const auto near = [](float t) { return ((alpha + 2) * t - (alpha + 3)) * t * t + 1; };
    const auto far = [](float t) {
        return ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha;
    };
    const std::int64_t i[2] = {p.i0, p.i1};
    std::int64_t first[2];
    float weight[2][4];
    for (int d = 0; d < 2; ++d) {
        const float place = scaling.place(d, i[d]), t = place - floorf(place);
        first[d] = static_cast<std::int64_t>(floorf(place)) - 1;
        weight[d][0] = far(t + 1), weight[d][1] = near(t);
        weight[d][2] = near(1 - t), weight[d][3] = far(2 - t);
    }
    float total = 0;
    for (int row = 0; row < 4; ++row) {
        float along = 0;
        for (int column = 0; column < 4; ++column) {
            along += weight[0][column] * scaling.x(scaling.inside(0, first[0] + column),
                                                   scaling.inside(1, first[1] + row), j2, j3);
        }
        total += weight[1][row] * along;
    }
    return total;
}

void launch_upscale(const Tensor& node, const Launch& launch) {
    const Scaling scaling(node);
    const Operand y = operand(&node);
    const auto word = unpack<ops::Upscale::Params>(node).mode;
    const int mode = ops::Upscale::interpolation_of(word);
    const bool is_antialiased = (word & GGML_SCALE_FLAG_ANTIALIAS) != 0;
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::int64_t j2 = scaling.nearest(2, p.i2), j3 = scaling.nearest(3, p.i3);
        float value;
        if (mode == GGML_SCALE_MODE_BICUBIC) {
            value = bicubic(scaling, p, j2, j3);
        } else if (mode == GGML_SCALE_MODE_NEAREST) {
            value = scaling.x(scaling.nearest(0, p.i0), scaling.nearest(1, p.i1), j2, j3);
        } else {
            value = is_antialiased ? antialiased(scaling, p, j2, j3) : bilinear(scaling, p, j2, j3);
        }
        y.put(value, p.i0, p.i1, p.i2, p.i3);
    });
}

// ---- pooling -----------------------------------------------------------------------------------

/// Positions of a window that lie inside the image.
struct Window {
    std::int64_t begin, end;

    __device__ Window(std::int64_t o, std::int64_t taps, std::int64_t step, std::int64_t padding,
                      std::int64_t extent)
        : begin(o * step - padding), end(o * step - padding + taps) {
        if (begin < 0) begin = 0;
        if (end > extent) end = extent;
    }
    __device__ std::int64_t count() const { return end > begin ? end - begin : 0; }
};

void launch_pool_1d(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Pool1d::Params>(node);
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const Window window(p.i0, params.taps, params.stride, params.padding, x.extent[0]);
        float largest = -FLT_MAX, total = 0;
        for (std::int64_t j = window.begin; j < window.end; ++j) {
            const float value = x(j, p.i1, p.i2, p.i3);
            largest = fmaxf(largest, value);
            total += value;
        }
        // Padding does not count.
        const float mean = window.count() == 0 ? 0 : total / static_cast<float>(window.count());
        y.put(params.op == GGML_OP_POOL_MAX ? largest : mean, p.i0, p.i1, p.i2, p.i3);
    });
}

using Pool2dParams = ops::Pool2dRule::Params;

/// The parameters of POOL_2D in a form that kernels can read.
struct Pooling {
    std::int64_t taps[2], step[2], padding[2];
    bool is_max;
    float area;

    explicit Pooling(const Pool2dParams& params)
        : is_max(params.op == GGML_OP_POOL_MAX),
          area(static_cast<float>(params.taps[0]) * static_cast<float>(params.taps[1])) {
        for (std::size_t d = 0; d < 2; ++d) {
            taps[d] = params.taps[d], step[d] = params.stride[d], padding[d] = params.padding[d];
        }
    }
    __device__ Window window(int d, std::int64_t o, const Operand& image) const {
        return {o, taps[d], step[d], padding[d], image.extent[d]};
    }
    /// Outputs whose window covers position `i`, among `count`.
    __device__ Window covering(int d, std::int64_t i, std::int64_t count) const {
        const std::int64_t at = i + padding[d];
        Window outputs(0, 0, 1, 0, 0);
        outputs.begin = at < taps[d] ? 0 : (at - taps[d]) / step[d] + 1;
        outputs.end = at < 0 ? 0 : at / step[d] + 1;
        if (outputs.end > count) outputs.end = count;
        return outputs;
    }
};

/// Unlike in one dimension, padding counts as zeros.
void launch_pool_2d(const Tensor& node, const Launch& launch) {
    const Pooling pooling(unpack<Pool2dParams>(node));
    const Operand x = operand(node.src[0]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const Window wide = pooling.window(0, p.i0, x), high = pooling.window(1, p.i1, x);
        float largest = -FLT_MAX, total = 0;
        for (std::int64_t row = high.begin; row < high.end; ++row) {
            for (std::int64_t column = wide.begin; column < wide.end; ++column) {
                const float value = x(column, row, p.i2, p.i3);
                largest = fmaxf(largest, value);
                total += value;
            }
        }
        y.put(pooling.is_max ? largest : total / pooling.area, p.i0, p.i1, p.i2, p.i3);
    });
}

/// Whether (i0, i1) is the first of the largest elements of a window.
__device__ bool wins(const Operand& image, const Window& wide, const Window& high, const Place& p) {
    float largest = -FLT_MAX;
    std::int64_t winner_column = -1, winner_row = -1;
    for (std::int64_t row = high.begin; row < high.end; ++row) {
        for (std::int64_t column = wide.begin; column < wide.end; ++column) {
            const float value = image(column, row, p.i2, p.i3);
            if (value <= largest) continue;
            largest = value;
            winner_column = column, winner_row = row;
        }
    }
    return winner_column == p.i0 && winner_row == p.i1;
}

/// Every element gathers from the windows it lies in, in order.
void launch_pool_2d_back(const Tensor& node, const Launch& launch) {
    const Pooling pooling(unpack<Pool2dParams>(node));
    const Operand gradient = operand(node.src[0]), image = operand(node.src[1]);
    const Operand y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const Window across = pooling.covering(0, p.i0, gradient.extent[0]);
        const Window down = pooling.covering(1, p.i1, gradient.extent[1]);
        float total = 0;
        for (std::int64_t oy = down.begin; oy < down.end; ++oy) {
            for (std::int64_t ox = across.begin; ox < across.end; ++ox) {
                const float given = gradient(ox, oy, p.i2, p.i3);
                if (!pooling.is_max) {
                    total += given / pooling.area;
                } else if (wins(image, pooling.window(0, ox, image), pooling.window(1, oy, image),
                                p)) {
                    total += given;
                }
            }
        }
        y.put(total, p.i0, p.i1, p.i2, p.i3);
    });
}

constexpr Kernel kKernels[] = {
    {"upscale", GGML_OP_UPSCALE, upscale_objection, nullptr, launch_upscale},
    {"pool_1d", GGML_OP_POOL_1D, pool_1d_objection, nullptr, launch_pool_1d},
    {"pool_2d", GGML_OP_POOL_2D, pool_2d_objection, nullptr, launch_pool_2d},
    {"pool_2d_back", GGML_OP_POOL_2D_BACK, pool_2d_back_objection, nullptr, launch_pool_2d_back},
};

}  // namespace

std::span<const Kernel> image_kernels() { return kKernels; }

}  // namespace heddle::cuda
