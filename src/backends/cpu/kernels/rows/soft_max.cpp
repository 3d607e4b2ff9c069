#include "ops/soft_max.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/soft_max.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/alibi.hpp"
#include "backends/cpu/kernels/rows/logits.hpp"
#include "backends/cpu/kernels/rows/row_pieces.hpp"
#include "backends/cpu/kernels/rows/soft_max_stages.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

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

/// A piece that has still to be multiplied by a factor on its way to the result.
struct Unfinished {
    const float* from;
    float* to;
    float factor;
    bool past_caches;  ///< `to` begins a vector
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
    HWY_INLINE void refine_beside(const Row& row, Range range, SoftPart& part, float* y,
                                  Beside beside) const {
        const L logits = logits_of(row, range);
        const std::int64_t n = range.end - range.begin;
        // Where nothing counts any base will do, but infinity minus infinity would not.
        const float base = part.largest == kNever ? 0 : part.largest;
        const float largest = base == 0 ? part.largest : base * logits.unit;
        part = {exponentials(logits, y, n, base, beside), largest};
    }

    void refine_to(const Row& row, Range range, SoftPart& part, float* y) const {
        refine_beside(row, range, part, y, [](std::int64_t) {});
    }

    void refine(const Row& row, Range range, SoftPart& part) const {
        refine_to(row, range, part, results_of(row, range));
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
    SoftPart refine_and_more(const Row& row, Range range, SoftPart& part, float* y,
                             Unfinished before, L next) const {
        const Floats d;
        const hn::CappedTag<float, 1> single;
        const std::int64_t n = range.end - range.begin;
        const auto scale = hn::Set(d, before.factor);
        auto most = hn::Set(d, kNever);
        const auto finished = [&](std::int64_t i) HWY_ATTR {
            return hn::Mul(hn::LoadU(d, before.from + i), scale);
        };
        if (before.past_caches) {
            refine_beside(row, range, part, y, [&](std::int64_t i) HWY_ATTR {
                hwy::Prefetch(next.x + i + kReadAhead);
                most = hn::Max(most, next.at(d, i));
                hn::Stream(finished(i), d, before.to + i);
            });
        } else {
            refine_beside(row, range, part, y, [&](std::int64_t i) HWY_ATTR {
                most = hn::Max(most, next.at(d, i));
                hn::StoreU(finished(i), d, before.to + i);
            });
        }
        float largest = hn::GetLane(hn::MaxOfLanes(d, most));
        for (std::int64_t i = n - n % lane_count(d); i < n; ++i) {
            const float last = hn::GetLane(next.at(single, i));
            largest = last > largest ? last : largest;
            before.to[i] = before.from[i] * before.factor;
        }
        return {0, largest};
    }
};

/// Whether rows may be worked on while others are finished, and whether that is faster.
inline bool is_overlap_worthwhile(const Tensor& node, int tasks) {
    if (row_count(node) < kLeastRowsPerTask * tasks) return false;
    if (node.ne[0] <= kRowPiece) return true;
    return node.ne[0] % kRowPiece == 0 && (is_staged(node) || byte_size(node) < kFarBytes);
}

/// This task's share of whole rows of equal pieces, which are finished one row later.
template <class L>
class OverlappedRows {
public:
    OverlappedRows(const SoftMaxSteps<L>& steps, const Task& task)
        : steps_(steps), node_(steps.node), mine_(task.share(row_count(node_))) {
        const auto pieces = static_cast<std::size_t>(pieces_of_row(n_));
        const std::size_t size = kLeastRowsPerTask * pieces;  // of parts of a task
        auto* memory = reinterpret_cast<SoftPart*>(
            task.scratch + static_cast<std::size_t>(task.index) * size * kPieceSize);
        parts_ = {memory, pieces};
        parts_before_ = {memory + pieces, pieces};
        if (!is_staged(node_)) return;
        stage_ = stages_of(*node_.src[0], task,
                           task.scratch + static_cast<std::size_t>(task.count) * size * kPieceSize);
        stage_before_ = stage_ + staged_pitch(n_);
    }

    void run() {
        if (mine_.begin >= mine_.end) return;
        SoftPart measured = steps_.measure(nth_row(node_, mine_.begin), row_piece(0, n_));
        for (std::int64_t index = mine_.begin; index < mine_.end; ++index) {
            const Row row = nth_row(node_, index);
            const Row row_after = nth_row(node_, index + 1 < mine_.end ? index + 1 : index);
            measured = refine_row(row, row_after, measured);
            whole_before_ = steps_.combine(row, parts_);
            results_before_ = steps_.results_of(row, {0, n_});
            std::swap(parts_, parts_before_);
            std::swap(stage_, stage_before_);
        }
        for (std::int64_t i = 0; i < pieces_of_row(n_); ++i) {
            const auto [begin, end] = row_piece(i, n_);
            const Unfinished last = before(i);
            map_floats(last.from, last.to, end - begin, [&](auto d, auto v) HWY_ATTR {
                return hn::Mul(v, hn::Set(d, last.factor));
            });
        }
        if (stage_ != nullptr) hwy::FlushStream();
    }

private:
    /// `measured` has the largest logit of the first piece; returns that of the row after.
    SoftPart refine_row(const Row& row, const Row& row_after, SoftPart measured) {
        const std::int64_t pieces = pieces_of_row(n_);
        for (std::int64_t i = 0; i < pieces; ++i) {
            const Range range = row_piece(i, n_);
            const bool is_last = i + 1 == pieces;
            const Row& next = is_last ? row_after : row;
            const Range range_of_next = row_piece(is_last ? 0 : i + 1, n_);
            SoftPart& part = parts_[static_cast<std::size_t>(i)] = measured;
            float* y = stage_ != nullptr ? stage_ + range.begin : steps_.results_of(row, range);
            if (results_before_ == nullptr) {
                measured = steps_.measure(next, range_of_next);
                steps_.refine_to(row, range, part, y);
                continue;
            }
            measured = steps_.refine_and_more(row, range, part, y, before(i),
                                              steps_.logits_of(next, range_of_next));
        }
        return measured;
    }

    /// Piece `i` of the row before.
    Unfinished before(std::int64_t i) const {
        const std::int64_t begin = row_piece(i, n_).begin;
        float* y = results_before_ + begin;
        const float factor =
            steps_.factor_of(parts_before_[static_cast<std::size_t>(i)], whole_before_);
        if (stage_ == nullptr) return {y, y, factor, false};
        return {stage_before_ + begin, y, factor, true};
    }

    const SoftMaxSteps<L>& steps_;
    const Tensor& node_;
    const Range mine_;
    const std::int64_t n_ = node_.ne[0];
    std::span<SoftPart> parts_, parts_before_;
    float *stage_ = nullptr, *stage_before_ = nullptr;  ///< a row each, or null
    SoftRow whole_before_;
    float* results_before_ = nullptr;
};

template <class L>
void soft_max_of(const Tensor& node, const Task& task) {
    const SoftMaxSteps<L> steps{node};
    if (is_overlap_worthwhile(node, task.count)) {
        OverlappedRows<L>(steps, task).run();
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
    Demand wanted = pieces_demand(node, bytes, flops, threads);
    if (has_stages(node)) wanted.scratch += stages_size(node.ne[0], wanted.tasks);
    return wanted;
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
