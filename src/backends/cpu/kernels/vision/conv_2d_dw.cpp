#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/conv_2d_dw.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "backends/cpu/kernels/vision/sliding_volume.hpp"
#include "ops/convolution.hpp"

#ifndef HEDDLE_CPU_CONV_2D_DW_ONCE
#define HEDDLE_CPU_CONV_2D_DW_ONCE
namespace heddle::cpu {
namespace {

/// A depthwise convolution: one kernel for each channel.
struct Depthwise {
    const Tensor &node, &kernel, &x;
    SlidingVolume::Axis width, height;

    explicit Depthwise(const Tensor& y) : node(y), kernel(*y.src[0]), x(*y.src[1]) {
        const auto window = unpack<ops::Conv2dDw::Params>(node);
        width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[0]);
        height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[1]);
    }

    bool has_rows() const { return x.nb[0] == sizeof(float) && node.nb[0] == sizeof(float); }
    bool has_channels() const {
        return x.nb[2] == sizeof(float) && node.nb[2] == sizeof(float) &&
               kernel.nb[3] == size_of(kernel.type);
    }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Row `y` of one channel, tap after tap.
template <class Weights>
void convolve_row(const Depthwise& conv, std::int64_t y, std::int64_t channel, std::int64_t batch) {
    const SlidingVolume::Axis &width = conv.width, &height = conv.height;
    float* to = at<float>(conv.node, 0, y, channel, batch);
    for (std::int64_t i = 0; i < width.positions; ++i) to[i] = 0;
    for (std::int64_t tap_y = 0; tap_y < height.taps; ++tap_y) {
        const std::int64_t from_y = height.source(y, tap_y);
        if (!height.has(from_y)) continue;
        const float* from = at<const float>(conv.x, 0, from_y, channel, batch);
        for (std::int64_t tap = 0; tap < width.taps; ++tap) {
            const float weight = load_one<Weights>(at(conv.kernel, tap, tap_y, 0, channel));
            const Range inside = positions_inside(width, tap);
            if (width.stride == 1) {
                add_scaled(to + inside.begin, from + width.source(inside.begin, tap), weight,
                           inside.end - inside.begin);
                continue;
            }
            for (std::int64_t i = inside.begin; i < inside.end; ++i) {
                to[i] += weight * from[width.source(i, tap)];
            }
        }
    }
}

/// y[i] += x[i] * weights[i]
template <class Weights>
HWY_INLINE void add_products(float* y, const float* x, const std::byte* weights, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto w = Weights::load(d, weights + i * Weights::kSize);
        hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), w, hn::LoadU(d, y + i)), d, y + i);
    }
    for (; i < n; ++i) y[i] += x[i] * load_one<Weights>(weights + i * Weights::kSize);
}

/// All channels of one pixel, which lie next to each other.
template <class Weights>
void convolve_pixel(const Depthwise& conv, std::int64_t x, std::int64_t y, std::int64_t batch) {
    const SlidingVolume::Axis &width = conv.width, &height = conv.height;
    const std::int64_t channels = conv.node.ne[2];
    float* to = at<float>(conv.node, x, y, 0, batch);
    for (std::int64_t i = 0; i < channels; ++i) to[i] = 0;
    for (std::int64_t tap_y = 0; tap_y < height.taps; ++tap_y) {
        const std::int64_t from_y = height.source(y, tap_y);
        if (!height.has(from_y)) continue;
        for (std::int64_t tap = 0; tap < width.taps; ++tap) {
            const std::int64_t from_x = width.source(x, tap);
            if (!width.has(from_x)) continue;
            add_products<Weights>(to, at<const float>(conv.x, from_x, from_y, 0, batch),
                                  at(conv.kernel, tap, tap_y), channels);
        }
    }
}

template <class Weights>
void convolve(const Depthwise& conv, const Task& task) {
    const std::int64_t across = conv.node.ne[0], down = conv.node.ne[1];
    const std::int64_t channels = conv.node.ne[2], batches = conv.node.ne[3];
    if (conv.has_rows()) {
        const Range rows = task.share(down * channels * batches);
        for (std::int64_t row = rows.begin; row < rows.end; ++row) {
            convolve_row<Weights>(conv, row % down, row / down % channels, row / (down * channels));
        }
        return;
    }
    const Range pixels = task.share(across * down * batches);
    for (std::int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
        convolve_pixel<Weights>(conv, pixel % across, pixel / across % down,
                                pixel / (across * down));
    }
}

}  // namespace

void convolve_depthwise(const Tensor& node, const Task& task) {
    const Depthwise conv(node);
    if (conv.kernel.type == GGML_TYPE_F32) {
        convolve<F32Rows>(conv, task);
    } else {
        convolve<F16Rows>(conv, task);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(convolve_depthwise);
namespace {

std::string_view objection(const Tensor& node) {
    const Depthwise conv(node);
    if (conv.kernel.type != GGML_TYPE_F32 && conv.kernel.type != GGML_TYPE_F16) {
        return "the kernel is not f32 or f16";
    }
    if (conv.x.type != GGML_TYPE_F32) return "x is not f32";
    if (!conv.has_rows() && !conv.has_channels()) {
        return "neither rows nor channels are dense in all of x, kernel and result";
    }
    return {};
}

void run(const Tensor& node, const Task& task) {
    if (!is_empty(node)) HWY_DYNAMIC_DISPATCH(convolve_depthwise)(node, task);
}

Demand demand(const Tensor& node, int threads) {
    const std::int64_t pieces = Depthwise(node).has_rows() ? node.ne[1] * node.ne[2] * node.ne[3]
                                                           : node.ne[0] * node.ne[1] * node.ne[3];
    return flops_demand<ops::Conv2dDw>(node, pieces, threads);
}

}  // namespace

extern const Kernel kConv2dDw{.name = "conv_2d_dw",
                              .op = GGML_OP_CONV_2D_DW,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
