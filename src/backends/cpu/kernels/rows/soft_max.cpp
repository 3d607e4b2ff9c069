#include "ops/soft_max.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/soft_max.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include <limits>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/rows/alibi.hpp"
#include "backends/cpu/kernels/rows/row_pieces.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// Of a piece of a row: the largest logit, and the sum of all e^(logit - largest).
struct SoftPart {
    double sum;
    float largest;
};

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Where logits come from. `at` gives them in units of `unit`.

/// unit * x, of which the largest x makes the largest.
struct PlainLogits {
    static constexpr bool kIsMasked = false;
    const float* x;
    float unit;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        return hn::LoadU(d, x + i);
    }
};

/// scale * x, with any scale.
struct ScaledLogits {
    static constexpr bool kIsMasked = false;
    const float* x;
    float scale;
    static constexpr float unit = 1;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        return hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    }
};

/// scale * x + slope * mask
template <class MaskRows>
struct MaskedLogits {
    static constexpr bool kIsMasked = true;
    const float* x;
    float scale;
    const std::byte* mask;
    float slope;
    static constexpr float unit = 1;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        const auto weight = hn::Set(d, slope);
        return hn::MulAdd(weight, MaskRows::load(d, mask + i * MaskRows::kSize),
                          hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)));
    }
};

template <class L>
HWY_INLINE float largest_of(const L& logits, std::int64_t n) {
    const Floats d;
    const hn::CappedTag<float, 1> single;
    const std::int64_t step = lane_count(d);
    const auto never = hn::Set(d, kNever);
    auto most0 = never, most1 = never, most2 = never, most3 = never;
    std::int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
        most0 = hn::Max(most0, logits.at(d, i));
        most1 = hn::Max(most1, logits.at(d, i + step));
        most2 = hn::Max(most2, logits.at(d, i + 2 * step));
        most3 = hn::Max(most3, logits.at(d, i + 3 * step));
    }
    for (; i + step <= n; i += step) most0 = hn::Max(most0, logits.at(d, i));
    auto most =
        hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(most0, most1), hn::Max(most2, most3))));
    for (; i < n; ++i) {
        const float last = hn::GetLane(logits.at(single, i));
        most = last > most ? last : most;
    }
    return most;
}

/// y = e^(logit - base) and the sum of them; the base is in units of the logits. `beside(i)` is
/// called for each whole vector, for work that memory has time for meanwhile.
template <class L, class Beside>
HWY_INLINE double exponentials(const L& logits, float* y, std::int64_t n, float base,
                               Beside beside) {
    const Floats d;
    const hn::CappedTag<float, 1> single;
    const std::int64_t step = lane_count(d);
    const PowerConstants c = PowerConstants::held();
    const float unit = logits.unit * c.log2e;
    const auto term = [base, unit, c](auto tag, auto logit) HWY_ATTR {
        return exp2_of(tag, hn::Mul(hn::Sub(logit, hn::Set(tag, base)), hn::Set(tag, unit)), c);
    };
    const hn::ScalableTag<double> dd;
    auto total = hn::Zero(dd);
    std::int64_t i = 0;
    while (i + step <= n) {
        const std::int64_t stretch = 2 * step * kFloatsPerLane;
        const std::int64_t end = n - i < stretch ? n : i + stretch;
        auto sum0 = hn::Zero(d), sum1 = sum0;
        for (; i + 2 * step <= end; i += 2 * step) {
            const auto e0 = term(d, logits.at(d, i)), e1 = term(d, logits.at(d, i + step));
            // Before the results are stored: rows are often a multiple of 4 KiB apart, and then
            // loads from one wait for stores to the same place in another.
            beside(i);
            beside(i + step);
            hn::StoreU(e0, d, y + i);
            hn::StoreU(e1, d, y + i + step);
            sum0 = hn::Add(sum0, e0);
            sum1 = hn::Add(sum1, e1);
        }
        for (; i + step <= end; i += step) {
            const auto e = term(d, logits.at(d, i));
            hn::StoreU(e, d, y + i);
            sum0 = hn::Add(sum0, e);
            beside(i);
        }
        total = add_lanes(dd, total, hn::Add(sum0, sum1));
    }
    double sum = hn::GetLane(hn::SumOfLanes(dd, total));
    for (; i < n; ++i) {
        y[i] = hn::GetLane(term(single, logits.at(single, i)));
        sum += static_cast<double>(y[i]);
    }
    return sum;
}

/// What all e^(logit - largest) of a row are measured by.
struct SoftRow {
    double sum = 0;
    float largest = kNever;

    /// The largest logit of a piece that has none does not count at all.
    double weight_of(float largest_of_piece) const {
        if (largest_of_piece == kNever) return 0;
        if (largest_of_piece == largest) return 1;
        return ::exp(static_cast<double>(largest_of_piece) - static_cast<double>(largest));
    }

    static SoftRow of(std::span<const SoftPart> parts, const float* sink) {
        SoftRow row;
        for (const SoftPart& part : parts) {
            // Written so that NaN, which makes all of the row NaN, is not passed over.
            if (!(part.largest <= row.largest)) row.largest = part.largest;
        }
        if (sink != nullptr && *sink > row.largest) row.largest = *sink;
        for (const SoftPart& part : parts) row.sum += part.sum * row.weight_of(part.largest);
        if (sink != nullptr) row.sum += row.weight_of(*sink);
        return row;
    }
};

/// A row that is masked entirely comes out as NaN, unless there is a sink.
template <class L>
struct SoftMaxSteps {
    const Tensor& node;
    ops::SoftMax::Params params = unpack<ops::SoftMax::Params>(node);

    using Value = SoftRow;

    L logits_of(const Row& row, Range range) const {
        const float* from = row_at<const float>(*node.src[0], row) + range.begin;
        if constexpr (L::kIsMasked) {
            const Tensor& mask = *node.src[1];
            const float slope = alibi_slope(params.max_bias, node.ne[2], row.i2);
            const auto* weights = at<const std::byte>(mask, range.begin, row.i1,
                                                      row.i2 % mask.ne[2], row.i3 % mask.ne[3]);
            return {from, params.scale, weights, slope};
        } else {
            return {from, params.scale};
        }
    }

    float* results_of(const Row& row, Range range) const {
        return row_at<float>(node, row) + range.begin;
    }

    /// The largest logit is in the units of the logits until the piece is refined.
    SoftPart measure(const Row& row, Range range) const {
        return {0, largest_of(logits_of(row, range), range.end - range.begin)};
    }

    template <class Beside>
    HWY_INLINE void refine_beside(const Row& row, Range range, SoftPart& part,
                                  Beside beside) const {
        const L logits = logits_of(row, range);
        const std::int64_t n = range.end - range.begin;
        // Where nothing counts any base will do, but infinity minus infinity would not.
        const float base = part.largest == kNever ? 0 : part.largest;
        const float largest = base == 0 ? part.largest : base * logits.unit;
        part = {exponentials(logits, results_of(row, range), n, base, beside), largest};
    }

    void refine(const Row& row, Range range, SoftPart& part) const {
        refine_beside(row, range, part, [](std::int64_t) {});
    }

    SoftRow combine(const Row& row, std::span<const SoftPart> parts) const {
        const Tensor* sinks = node.src[2];
        return SoftRow::of(parts, sinks == nullptr ? nullptr : at<const float>(*sinks, row.i2));
    }

    static float factor_of(const SoftPart& part, const SoftRow& whole) {
        return static_cast<float>(whole.weight_of(part.largest) / whole.sum);
    }

    void finish(const Row& row, Range range, const SoftPart& part, const SoftRow& whole) const {
        float* y = results_of(row, range);
        const float factor = factor_of(part, whole);
        map_floats(y, y, range.end - range.begin,
                   [factor](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); });
    }

    /// Refines a piece, finishes that of another row, and measures the one after it, which are all
    /// of the same length, at once: arithmetic is busy with the one, memory with the others.
    SoftPart refine_and_more(const Row& row, Range range, SoftPart& part, float* before,
                             float factor, const L& next) const {
        const Floats d;
        const hn::CappedTag<float, 1> single;
        const std::int64_t n = range.end - range.begin;
        const auto scale = hn::Set(d, factor);
        auto most = hn::Set(d, kNever);
        refine_beside(row, range, part, [&](std::int64_t i) HWY_ATTR {
            most = hn::Max(most, next.at(d, i));
            hn::StoreU(hn::Mul(hn::LoadU(d, before + i), scale), d, before + i);
        });
        float largest = hn::GetLane(hn::MaxOfLanes(d, most));
        for (std::int64_t i = n - n % lane_count(d); i < n; ++i) {
            const float last = hn::GetLane(next.at(single, i));
            largest = last > largest ? last : largest;
            before[i] *= factor;
        }
        return {0, largest};
    }
};

/// Rows of several pieces that come from memory are read faster one after the other: from this size
/// on.
inline constexpr std::size_t kFarBytes = 12 << 20;

/// Whether rows may be worked on while others are finished, and whether that is faster.
inline bool is_overlap_worthwhile(const Tensor& node, int tasks) {
    if (row_count(node) < kLeastRowsPerTask * tasks) return false;
    if (node.ne[0] <= kRowPiece) return true;
    return node.ne[0] % kRowPiece == 0 && byte_size(node) < kFarBytes;
}

/// This task's share of whole rows of equal pieces, which are finished one row later.
template <class L>
void overlapped_rows(const SoftMaxSteps<L>& steps, const Task& task) {
    const Tensor& node = steps.node;
    const std::int64_t n = node.ne[0], pieces = pieces_of_row(n);
    const Range mine = task.share(row_count(node));
    if (mine.begin >= mine.end) return;
    auto* memory = reinterpret_cast<SoftPart*>(
        task.scratch +
        static_cast<std::size_t>(task.index * kLeastRowsPerTask * pieces) * kPieceSize);
    std::span parts(memory, static_cast<std::size_t>(pieces));
    std::span parts_before(memory + pieces, static_cast<std::size_t>(pieces));
    SoftRow whole_before;
    float* before = nullptr;
    SoftPart measured = steps.measure(nth_row(node, mine.begin), row_piece(0, n));
    for (std::int64_t index = mine.begin; index < mine.end; ++index) {
        // Made anew, as copies of what was just written wait for it.
        const Row row = nth_row(node, index);
        const Row row_after = nth_row(node, index + 1 < mine.end ? index + 1 : index);
        for (std::int64_t i = 0; i < pieces; ++i) {
            const Range range = row_piece(i, n);
            const bool is_last = i + 1 == pieces;
            const Row& next = is_last ? row_after : row;
            const Range range_of_next = row_piece(is_last ? 0 : i + 1, n);
            SoftPart& part = parts[static_cast<std::size_t>(i)] = measured;
            if (before == nullptr) {
                measured = steps.measure(next, range_of_next);
                steps.refine(row, range, part);
                continue;
            }
            const SoftPart& part_before = parts_before[static_cast<std::size_t>(i)];
            measured = steps.refine_and_more(row, range, part, before + range.begin,
                                             steps.factor_of(part_before, whole_before),
                                             steps.logits_of(next, range_of_next));
        }
        whole_before = steps.combine(row, parts);
        std::swap(parts, parts_before);
        before = steps.results_of(row, {0, n});
    }
    for (std::int64_t i = 0; i < pieces; ++i) {
        steps.finish(nth_row(node, mine.end - 1), row_piece(i, n),
                     parts_before[static_cast<std::size_t>(i)], whole_before);
    }
}

template <class L>
void soft_max_of(const Tensor& node, const Task& task) {
    const SoftMaxSteps<L> steps{node};
    if (is_overlap_worthwhile(node, task.count)) {
        overlapped_rows(steps, task);
    } else {
        work_in_pieces<SoftPart>(node, task, steps);
    }
}

void soft_max(const Tensor& node, const Task& task) {
    const Tensor* mask = node.src[1];
    if (mask == nullptr) {
        const bool is_plain = unpack<ops::SoftMax::Params>(node).scale > 0;
        return is_plain ? soft_max_of<PlainLogits>(node, task)
                        : soft_max_of<ScaledLogits>(node, task);
    }
    return mask->type == GGML_TYPE_F32 ? soft_max_of<MaskedLogits<F32Rows>>(node, task)
                                       : soft_max_of<MaskedLogits<F16Rows>>(node, task);
}

/// dx = scale * y * (dy - sum(y * dy))
void soft_max_back(const Tensor& node, const Task& task) {
    const float scale = unpack<ops::SoftMaxBack::Params>(node).scale;
    const std::int64_t n = node.ne[0];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        const float* dy = row_at<const float>(*node.src[0], row);
        const float* y = row_at<const float>(*node.src[1], row);
        const auto sum = static_cast<float>(sum_of_products(dy, y, n));
        map_floats(dy, y, row_at<float>(node, row), n,
                   [sum, scale](auto d, auto gradient, auto v) HWY_ATTR {
                       const auto rest = hn::Sub(gradient, hn::Set(d, sum));
                       return hn::Mul(hn::Mul(rest, v), hn::Set(d, scale));
                   });
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(soft_max);
HWY_EXPORT(soft_max_back);
namespace {

std::string_view mask_objection(const Tensor& x, const Tensor& mask) {
    if (mask.type != GGML_TYPE_F32 && mask.type != GGML_TYPE_F16)
        return "the mask is not f32 or f16";
    if (!has_packed_rows(mask)) return "rows of the mask are not dense";
    if (mask.ne[0] != x.ne[0] || mask.ne[1] < x.ne[1])
        return "the mask does not cover the rows of x";
    if (mask.ne[2] < 1 || mask.ne[3] < 1 || x.ne[2] % mask.ne[2] != 0 ||
        x.ne[3] % mask.ne[3] != 0) {
        return "the planes of the mask do not divide those of x";
    }
    return {};
}

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    const Tensor *mask = node.src[1], *sinks = node.src[2];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    if (mask != nullptr) {
        if (const std::string_view reason = mask_objection(x, *mask); !reason.empty())
            return reason;
    }
    if (sinks != nullptr && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != x.ne[2])) {
        return "sinks are not one f32 for each head";
    }
    return {};
}

std::string_view back_objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &y = *node.src[1];
    if (dy.type != GGML_TYPE_F32 || y.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) {
        return "dy and y are not f32";
    }
    if (unpack<ops::SoftMaxBack::Params>(node).max_bias != 0) return "max_bias is not 0";
    if (!same_shape(dy, y) || !same_shape(node, y)) return "extents differ";
    if (!has_packed_rows(dy) || !has_packed_rows(y) || !has_packed_rows(node)) {
        return "rows are not dense";
    }
    return {};
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(soft_max)(node, task); }
void run_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(soft_max_back)(node, task);
}

Demand demand(const Tensor& node, int threads) {
    const double flops = 8 * static_cast<double>(element_count(node));
    const double bytes = 2 * static_cast<double>(byte_size(node));
    return pieces_demand(node, bytes, flops, threads);
}

}  // namespace

extern const Kernel kSoftMax{.name = "soft_max",
                             .op = GGML_OP_SOFT_MAX,
                             .objection = objection,
                             .run = run,
                             .demand = demand};
extern const Kernel kSoftMaxBack{.name = "soft_max_back",
                                 .op = GGML_OP_SOFT_MAX_BACK,
                                 .objection = back_objection,
                                 .run = run_back};

}  // namespace heddle::cpu
#endif
