#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/col2im_1d.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>

#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ggml/op_list.h"
#include "ops/im2col.hpp"

#ifndef HEDDLE_CPU_COL2IM_1D_ONCE
#define HEDDLE_CPU_COL2IM_1D_ONCE
namespace heddle::cpu {
namespace {

/// Columns that are added up into signals, piece by piece: some groups of `stride` elements,
/// padding included, of some signals. Column t adds its taps to group t and those that follow.
struct Columns {
    static constexpr std::int64_t kPiece = 256;  ///< elements of a signal that are summed together
    static constexpr std::int64_t kMostTaps = 64;  ///< of columns that are gathered
    static constexpr std::int64_t kMostGroups = 64;

    const Tensor &node, &x;
    std::int64_t stride, channels, padding, taps;

    explicit Columns(const Tensor& y) : node(y), x(*y.src[0]) {
        const auto params = unpack<ops::Col2im1d::Params>(node);
        stride = params.stride;
        channels = params.channels;
        padding = params.padding;
        taps = x.ne[0] / channels;
    }

    /// Whether so little of a column belongs to a signal that the columns of a piece are gathered
    /// first, for several signals.
    bool gathers() const { return taps <= kMostTaps && stride <= kMostTaps; }

    std::int64_t elements_per_piece() const {
        return gathers() ? std::min(kPiece / stride, kMostGroups) * stride : kPiece;
    }
    std::int64_t channels_per_piece() const {
        return gathers() ? kMostTaps / std::max<std::int64_t>(taps, 1) : 1;
    }

    /// Pieces begin with a group.
    std::int64_t skipped() const { return gathers() ? padding % stride : 0; }
    std::int64_t blocks() const {
        return (channels + channels_per_piece() - 1) / channels_per_piece();
    }
    std::int64_t pieces() const {
        const std::int64_t size = elements_per_piece();
        return (node.ne[0] + skipped() + size - 1) / size * blocks();
    }
};

}  // namespace
}  // namespace heddle::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Part of the columns, as floats: those that meet in some groups, zeros where there are none.
struct Gathered {
    static constexpr std::int64_t kPitch = Columns::kMostTaps;
    static constexpr std::int64_t kColumns = Columns::kMostGroups + Columns::kMostTaps;
    alignas(64) float rows[kColumns][kPitch];
    float beyond[hn::MaxLanes(Floats())];  ///< what vectors may read, but do not use

    template <class Rows>
    void read(const Tensor& x, std::int64_t first, std::int64_t count, std::int64_t at_tap,
              std::int64_t taps) {
        for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t t = first + i;
            if (t < 0 || t >= x.ne[1]) {
                std::memset(rows[i], 0, static_cast<std::size_t>(taps) * sizeof(float));
                continue;
            }
            const std::byte* from = at(x, at_tap, t);
            // Columns are often pages apart, so that no hardware prefetcher follows.
            for (std::int64_t b = 0; b < taps * Rows::kSize; b += 64) {
                hwy::Prefetch(from + taps * Rows::kSize + b);
            }
            convert_row<Rows, F32Rows>(from, rows[i], taps);
        }
    }
};

/// A vector of each of `groups` groups: the sums of `columns` rows, and of the first `part`
/// elements of one more. `from` is the row that begins in the first group, those before it begin
/// in groups before. A number of columns that is usual is a constant.
template <int kColumns, class D>
HWY_INLINE void sum_vectors(D d, const float* from, std::int64_t columns, std::int64_t part,
                            std::int64_t stride, std::int64_t groups, float* sums) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(HWY_MAX(part, 0)));
    const std::int64_t count = kColumns > 0 ? kColumns : columns;
    const std::int64_t back = stride - Gathered::kPitch;
    for (std::int64_t g = 0; g < groups; ++g, from += Gathered::kPitch, sums += stride) {
        auto total = hn::Zero(d);
        for (std::int64_t i = 0; i < count; ++i) {
            total = hn::Add(total, hn::LoadU(d, from + i * back));
        }
        if (kColumns == 0 && part > 0) {
            total = hn::Add(total, hn::IfThenElseZero(mask, hn::LoadU(d, from + count * back)));
        }
        hn::StoreU(total, d, sums);
    }
}

/// Where vectors are longer than groups they read what follows, and write what the next group
/// replaces: up to a vector behind the last one.
template <class D>
void sum_groups(D d, const float* from, const Columns& columns, std::int64_t groups, float* sums) {
    const std::int64_t step = lane_count(d), taps = columns.taps, stride = columns.stride;
    for (std::int64_t i = 0; i < stride; i += step) {
        const std::int64_t j = HWY_MAX(HWY_MIN(i, stride - step), 0);
        if (taps == 2 * stride) {
            sum_vectors<2>(d, from + j, 2, 0, stride, groups, sums + j);
        } else {
            const std::int64_t part = taps % stride - j;
            sum_vectors<0>(d, from + j, taps / stride, part, stride, groups, sums + j);
        }
    }
}

template <class Rows>
void add_gathered(const Columns& columns, std::int64_t first, Range channels) {
    const std::int64_t taps = columns.taps, stride = columns.stride;
    const std::int64_t groups = columns.elements_per_piece() / stride;
    const std::int64_t before = (taps - 1) / stride;  // columns that reach into the first group
    const std::int64_t group = (first + columns.padding) / stride;
    const Range inside{HWY_MAX(first, 0),
                       HWY_MIN(first + columns.elements_per_piece(), columns.node.ne[0])};
    Gathered gathered;
    gathered.read<Rows>(columns.x, group - before, before + groups, channels.begin * taps,
                        (channels.end - channels.begin) * taps);

    float sums[Columns::kPiece + hn::MaxLanes(Floats())];
    for (std::int64_t c = channels.begin; c < channels.end; ++c) {
        const float* from = gathered.rows[before] + (c - channels.begin) * taps;
        if (stride >= 16) {
            sum_groups(Floats(), from, columns, groups, sums);
        } else if (stride >= 8) {
            sum_groups(hn::CappedTag<float, 8>(), from, columns, groups, sums);
        } else {
            sum_groups(hn::CappedTag<float, 4>(), from, columns, groups, sums);
        }
        convert_row<F32Rows, Rows>(sums + (inside.begin - first), at(columns.node, inside.begin, c),
                                   inside.end - inside.begin);
    }
}

/// sums[i] += from[i]
template <class Rows>
HWY_INLINE void add_row(const std::byte* from, std::int64_t n, float* sums) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto x = Rows::load(d, from + i * Rows::kSize);
        hn::StoreU(hn::Add(hn::LoadU(d, sums + i), x), d, sums + i);
    }
    for (; i < n; ++i) sums[i] += load_one<Rows>(from + i * Rows::kSize);
}

/// Elements `range` of a signal of which each column has many elements.
template <class Rows>
void add_long(const Columns& columns, Range range, std::int64_t channel) {
    const Tensor& x = columns.x;
    const std::int64_t taps = columns.taps, stride = columns.stride;
    const std::int64_t begin = range.begin + columns.padding, end = range.end + columns.padding;
    const std::int64_t first = begin < taps ? 0 : (begin - taps) / stride + 1;
    const std::int64_t last = HWY_MIN((end - 1) / stride + 1, x.ne[1]);
    float sums[Columns::kPiece] = {};
    for (std::int64_t t = first; t < last; ++t) {
        const std::int64_t start = t * stride;
        const std::int64_t from = HWY_MAX(begin - start, 0), to = HWY_MIN(end - start, taps);
        add_row<Rows>(at(x, channel * taps + from, t), to - from, sums + (start + from - begin));
    }
    convert_row<F32Rows, Rows>(sums, at(columns.node, range.begin, channel),
                               range.end - range.begin);
}

template <class Rows>
void add_columns(const Columns& columns, const Task& task) {
    const std::int64_t blocks = columns.blocks(), size = columns.elements_per_piece();
    const Range pieces = task.share(columns.pieces());
    for (std::int64_t piece = pieces.begin; piece < pieces.end; ++piece) {
        const std::int64_t first = piece / blocks * size - columns.skipped();
        const std::int64_t channel = piece % blocks * columns.channels_per_piece();
        if (columns.gathers()) {
            const std::int64_t end = channel + columns.channels_per_piece();
            add_gathered<Rows>(columns, first, {channel, HWY_MIN(end, columns.channels)});
        } else {
            add_long<Rows>(columns, {first, HWY_MIN(first + size, columns.node.ne[0])}, channel);
        }
    }
}

}  // namespace

void col2im_1d(const Tensor& node, const Task& task) {
    const Columns columns(node);
    if (node.type == GGML_TYPE_F32) return add_columns<F32Rows>(columns, task);
    if (node.type == GGML_TYPE_F16) return add_columns<F16Rows>(columns, task);
    add_columns<Bf16Rows>(columns, task);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(col2im_1d);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16 && x.type != GGML_TYPE_BF16) {
        return "x is not f32, f16 or bf16";
    }
    if (node.type != x.type) return "the result is not of the type of x";
    const auto params = unpack<ops::Col2im1d::Params>(node);
    if (params.stride < 1) return "columns do not move on";
    if (params.channels < 1) return "there are no signals";
    return {};
}

/// Sums are of single precision, and rounded once.
void run(const Tensor& node, const Task& task) {
    if (!is_empty(node)) HWY_DYNAMIC_DISPATCH(col2im_1d)(node, task);
}

Demand demand(const Tensor& node, int threads) {
    return flops_demand<ops::Col2im1d>(node, Columns(node).pieces(), threads);
}

}  // namespace

extern const Kernel kCol2im1d{.name = "col2im_1d",
                              .op = GGML_OP_COL2IM_1D,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
