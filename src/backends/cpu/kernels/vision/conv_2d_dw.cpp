#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/conv_2d_dw.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "backends/cpu/kernels/vision/sliding_volume.hpp"
#include "ggml/op_list.h"
#include "ops/convolution.hpp"

#ifndef HEDDLE_CPU_CONV_2D_DW_ONCE
#define HEDDLE_CPU_CONV_2D_DW_ONCE
namespace heddle::cpu {
namespace {

/// A depthwise convolution: one kernel for each channel.
struct Depthwise {
    /// Rows of the result that are computed together, where they share rows of x.
    static constexpr std::int64_t kRows = 4;

    const Tensor &node, &kernel, &x;
    SlidingVolume::Axis width, height;
    std::int64_t rows;   ///< of the result, that are computed together
    std::int64_t first;  ///< element of x where a line begins
    Range inside;        ///< what of a line are elements of x

    explicit Depthwise(const Tensor& y) : node(y), kernel(*y.src[0]), x(*y.src[1]) {
        const auto window = unpack<ops::Conv2dDw::Params>(node);
        width = sliding_axis(window, 0, x, kernel.ne[0], node.ne[0]);
        height = sliding_axis(window, 1, x, kernel.ne[1], node.ne[1]);
        rows = height.dilation == 1 && height.stride <= height.taps ? kRows : 1;
        first = width.source(0, 0) - place(0);
        const auto limited = [&](std::int64_t i) { return i < 0 ? 0 : i < span() ? i : span(); };
        inside = {limited(-first), limited(width.extent - first)};
        if (inside.end < inside.begin) inside.end = inside.begin;
    }

    bool has_rows() const { return x.nb[0] == sizeof(float) && node.nb[0] == sizeof(float); }
    bool has_channels() const {
        return x.nb[2] == sizeof(float) && node.nb[2] == sizeof(float) &&
               kernel.nb[3] == size_of(kernel.type);
    }

    // Rows of x with zeros around them, and the weights of a channel, which each task has for
    // itself. Vectors may be read from behind the end of a line.

    std::int64_t lines() const { return (rows - 1) * height.stride + height.taps; }
    std::int64_t span() const {
        const std::int64_t reach = (width.taps - 1) * width.dilation;
        return (width.positions - 1) * width.stride + (reach < 0 ? -reach : reach) + 1;
    }

    /// Where a line has what the first position sees through a tap.
    std::int64_t place(std::int64_t tap) const {
        const std::int64_t last = width.dilation < 0 ? width.taps - 1 : 0;
        return (tap - last) * width.dilation;
    }
    std::int64_t line_pitch() const {
        constexpr std::int64_t behind = 2 * 64, before = 16;
        return (before + span() + behind + 15) / 16 * 16;
    }
    /// Floats before the first line, so that elements of x begin with a cache line.
    std::int64_t shift() const { return (16 - inside.begin % 16) % 16; }
    std::int64_t weights() const { return (width.taps * height.taps + 15) / 16 * 16; }
    std::size_t scratch_size() const {
        if (!has_rows()) return 0;
        return static_cast<std::size_t>(lines() * line_pitch() + weights()) * sizeof(float);
    }

    std::int64_t blocks() const { return (height.positions + rows - 1) / rows; }
    std::int64_t pieces() const {
        const std::int64_t batches = node.ne[3];
        return has_rows() ? blocks() * node.ne[2] * batches : node.ne[0] * node.ne[1] * batches;
    }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// ---- rows are dense ----------------------------------------------------------------------------

/// A row of x to where a line has it, or zeros if there is no such row.
HWY_INLINE void fill_line(const Depthwise& conv, std::int64_t y, std::int64_t channel,
                          std::int64_t batch, float* line) {
    const Range inside = conv.inside;
    const auto size = static_cast<std::size_t>(inside.end - inside.begin) * sizeof(float);
    if (conv.height.has(y)) {
        std::memcpy(line + inside.begin, at(conv.x, conv.first + inside.begin, y, channel, batch),
                    size);
    } else {
        std::memset(line + inside.begin, 0, size);
    }
}

/// Some rows of the result, and what they are made of.
struct Block {
    const float* lines;
    const float* weights;
    float* to[Depthwise::kRows];
    std::int64_t pitch;  ///< of the lines
    std::int64_t count;  ///< of rows
};

/// Puts a vector into row `r` of the result, where this has such a row.
HWY_INLINE void put(const Block& block, std::int64_t r, std::int64_t i, std::int64_t n,
                    hn::Vec<Floats> sum) {
    const Floats d;
    if (r >= block.count) return;
    if (i + lane_count(d) <= n) return hn::StoreU(sum, d, block.to[r] + i);
    float part[hn::MaxLanes(Floats())];
    hn::StoreU(sum, d, part);
    std::memcpy(block.to[r] + i, part, static_cast<std::size_t>(n - i) * sizeof(float));
}

/// Four rows with a kernel of kTaps by kTaps, one step apart: what is loaded once serves all.
template <int kTaps>
HWY_INLINE void convolve_square(const Depthwise& conv, const Block& block) {
    const Floats d;
    float weight[kTaps * kTaps];
    std::memcpy(weight, block.weights, sizeof weight);
    const std::int64_t n = conv.width.positions, step = lane_count(d);
    for (std::int64_t i = 0; i < n; i += step) {
        auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        HWY_UNROLL(8)
        for (int line = 0; line < kTaps + 3; ++line) {
            HWY_UNROLL(4)
            for (int k = 0; k < kTaps; ++k) {
                const auto x = hn::LoadU(d, block.lines + line * block.pitch + i + k);
                const auto add = [&](int r, hn::Vec<Floats>& sum) HWY_ATTR {
                    if (line < r || line >= r + kTaps) return;
                    sum = hn::MulAdd(x, hn::Set(d, weight[(line - r) * kTaps + k]), sum);
                };
                add(0, sum0);
                add(1, sum1);
                add(2, sum2);
                add(3, sum3);
            }
        }
        put(block, 0, i, n, sum0);
        put(block, 1, i, n, sum1);
        put(block, 2, i, n, sum2);
        put(block, 3, i, n, sum3);
    }
}

/// As many elements as there are lanes, one or two apart.
HWY_INLINE hn::Vec<Floats> load_apart(const float* x, std::int64_t stride) {
    const Floats d;
#if HWY_TARGET != HWY_SCALAR
    if (stride == 2) {
        return hn::ConcatEven(d, hn::LoadU(d, x + lane_count(d)), hn::LoadU(d, x));
    }
#endif
    (void)stride;
    return hn::LoadU(d, x);
}

/// Row `r` of a block.
HWY_INLINE void convolve_row(const Depthwise& conv, const Block& block, std::int64_t r) {
    const Floats d;
    const SlidingVolume::Axis &width = conv.width, &height = conv.height;
    const std::int64_t n = width.positions, step = lane_count(d);
    const float* lines = block.lines + r * height.stride * block.pitch;
    const auto for_taps = [&](auto&& visit) HWY_ATTR {
        const float* weight = block.weights;
        for (std::int64_t y = 0; y < height.taps; ++y) {
            const float* line = lines + y * block.pitch;
            for (std::int64_t k = 0; k < width.taps; ++k) visit(line + conv.place(k), *weight++);
        }
    };
    if (width.stride > (HWY_TARGET == HWY_SCALAR ? 1 : 2)) {
        for (std::int64_t i = 0; i < n; ++i) {
            float sum = 0;
            for_taps([&](const float* x, float weight)
                         HWY_ATTR { sum += x[i * width.stride] * weight; });
            block.to[r][i] = sum;
        }
        return;
    }
    for (std::int64_t i = 0; i < n; i += step) {
        auto sum = hn::Zero(d);
        for_taps([&](const float* x, float weight) HWY_ATTR {
            const auto elements = load_apart(x + i * width.stride, width.stride);
            sum = hn::MulAdd(elements, hn::Set(d, weight), sum);
        });
        put(block, r, i, n, sum);
    }
}

/// Rows of one channel from row `first` on.
template <class Weights>
void convolve_block(const Depthwise& conv, std::int64_t first, std::int64_t channel,
                    std::int64_t batch, float* scratch) {
    const SlidingVolume::Axis &width = conv.width, &height = conv.height;
    float* weights = scratch - conv.shift() + conv.lines() * conv.line_pitch();
    for (std::int64_t y = 0; y < height.taps; ++y) {
        for (std::int64_t k = 0; k < width.taps; ++k) {
            weights[y * width.taps + k] = load_one<Weights>(at(conv.kernel, k, y, 0, channel));
        }
    }
    Block block{.lines = scratch,
                .weights = weights,
                .to = {},
                .pitch = conv.line_pitch(),
                .count = height.positions - first};
    if (block.count > conv.rows) block.count = conv.rows;
    const std::int64_t lines = (block.count - 1) * height.stride + height.taps;
    for (std::int64_t line = 0; line < conv.lines(); ++line) {
        const std::int64_t y = first * height.stride - height.padding + line * height.dilation;
        fill_line(conv, line < lines ? y : -1, channel, batch, scratch + line * block.pitch);
    }
    for (std::int64_t r = 0; r < block.count; ++r) {
        block.to[r] = at<float>(conv.node, 0, first + r, channel, batch);
    }
    const bool is_square = width.taps == 3 && height.taps == 3 && width.dilation == 1;
    if (is_square && conv.rows == 4 && width.stride == 1 && height.stride == 1) {
        return convolve_square<3>(conv, block);
    }
    for (std::int64_t r = 0; r < block.count; ++r) convolve_row(conv, block, r);
}

// ---- channels are dense ------------------------------------------------------------------------

/// Calls `visit(x, weights)` for each tap of a pixel that lies inside, with the first channel's.
template <class Visit>
HWY_INLINE void for_taps(const Depthwise& conv, std::int64_t x, std::int64_t y, std::int64_t batch,
                         Visit visit) {
    const SlidingVolume::Axis &width = conv.width, &height = conv.height;
    for (std::int64_t tap_y = 0; tap_y < height.taps; ++tap_y) {
        const std::int64_t from_y = height.source(y, tap_y);
        if (!height.has(from_y)) continue;
        for (std::int64_t tap = 0; tap < width.taps; ++tap) {
            const std::int64_t from_x = width.source(x, tap);
            if (!width.has(from_x)) continue;
            visit(at<const float>(conv.x, from_x, from_y, 0, batch), at(conv.kernel, tap, tap_y));
        }
    }
}

/// All channels of one pixel, which lie next to each other.
template <class Weights>
void convolve_pixel(const Depthwise& conv, std::int64_t x, std::int64_t y, std::int64_t batch) {
    const Floats d;
    const std::int64_t channels = conv.node.ne[2], step = lane_count(d);
    float* to = at<float>(conv.node, x, y, 0, batch);
    const auto products = [&](auto tag, const float* from, const std::byte* weights, std::int64_t c,
                              auto sum) HWY_ATTR {
        return hn::MulAdd(hn::LoadU(tag, from + c),
                          Weights::load(tag, weights + c * Weights::kSize), sum);
    };
    std::int64_t c = 0;
    for (; c + 4 * step <= channels; c += 4 * step) {
        auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for_taps(conv, x, y, batch, [&](const float* from, const std::byte* weights) HWY_ATTR {
            sum0 = products(d, from, weights, c, sum0);
            sum1 = products(d, from, weights, c + step, sum1);
            sum2 = products(d, from, weights, c + 2 * step, sum2);
            sum3 = products(d, from, weights, c + 3 * step, sum3);
        });
        hn::StoreU(sum0, d, to + c);
        hn::StoreU(sum1, d, to + c + step);
        hn::StoreU(sum2, d, to + c + 2 * step);
        hn::StoreU(sum3, d, to + c + 3 * step);
    }
    const auto convolve_rest = [&](auto tag, std::int64_t lanes) HWY_ATTR {
        for (; c + lanes <= channels; c += lanes) {
            auto sum = hn::Zero(tag);
            for_taps(conv, x, y, batch, [&](const float* from, const std::byte* weights) HWY_ATTR {
                sum = products(tag, from, weights, c, sum);
            });
            hn::StoreU(sum, tag, to + c);
        }
    };
    convolve_rest(d, step);
    convolve_rest(hn::CappedTag<float, 1>(), 1);
}

template <class Weights>
void convolve(const Depthwise& conv, const Task& task) {
    const std::int64_t across = conv.node.ne[0], down = conv.node.ne[1];
    const std::int64_t channels = conv.node.ne[2], blocks = conv.blocks();
    const Range pieces = task.share(conv.pieces());
    if (conv.has_rows()) {
        std::byte* memory =
            task.scratch + static_cast<std::size_t>(task.index) * conv.scratch_size();
        std::memset(memory, 0, conv.scratch_size());
        float* scratch = reinterpret_cast<float*>(memory) + conv.shift();
        for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
            convolve_block<Weights>(conv, piece % blocks * conv.rows, piece / blocks % channels,
                                    piece / (blocks * channels), scratch);
        }
        return;
    }
    for (std::int64_t pixel = pieces.begin; pixel < pieces.end; ++pixel) {
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
    if (is_empty(node)) return {};
    const Depthwise conv(node);
    Demand demand = flops_demand<ops::Conv2dDw>(node, conv.pieces(), threads);
    demand.scratch = static_cast<std::size_t>(demand.tasks) * conv.scratch_size();
    return demand;
}

}  // namespace

extern const Kernel kConv2dDw{.name = "conv_2d_dw",
                              .op = GGML_OP_CONV_2D_DW,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
