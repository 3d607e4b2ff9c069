#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/training/cross_entropy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include <limits>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/logits.hpp"
#include "backends/cpu/kernels/rows/row_pieces.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"
#include "ops/loss.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// What a stretch of a row adds to its score.
struct Tally {
    float base;     ///< what logits are compared with, near the largest
    double sum;     ///< of e^(logit - base)
    double score;   ///< of label * (logit - base)
    double labels;  ///< their sum

    void rebase(float to) {
        if (to == base) return;
        const double shift = static_cast<double>(base) - static_cast<double>(to);
        sum *= ::exp(shift);
        score += labels * shift;
        base = to;
    }

    void add(Tally other) {
        if (other.base > base) {
            rebase(other.base);
        } else {
            other.rebase(base);
        }
        sum += other.sum;
        score += other.score;
        labels += other.labels;
    }
};

/// Of `n` logits, at most kRowPiece, which are read again from L1. Those after them
/// are fetched meanwhile, and the labels.
Tally tally(const float* x, const float* labels, std::int64_t n) {
    HWY_ALIGN float terms[kRowPiece];
    const PlainLogits logits{x, 1};
    const float most = largest_of(logits, n);
    const float base = most == kNever ? std::numeric_limits<float>::lowest() : most;
    const double sum = exponentials(logits, terms, n, base, [=](std::int64_t i) HWY_ATTR {
        hwy::Prefetch(labels + i);
        hwy::Prefetch(x + i + kRowPiece);
    });
    const double score = sum_terms(n, [=](auto d, auto part, std::int64_t i) HWY_ATTR {
        const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, base));
        return hn::MulAdd(hn::LoadU(d, labels + i), distance, part);
    });
    return {base, sum, score, sum_of(labels, n)};
}

/// Sum of labels * log(soft_max(logits)) of a row.
double row_score(const float* logits, const float* labels, std::int64_t n) {
    Tally all = tally(logits, labels, row_piece(0, n).end);
    for (std::int64_t i = 1; i < pieces_of_row(n); ++i) {
        const auto [begin, end] = row_piece(i, n);
        all.add(tally(logits + begin, labels + begin, end - begin));
    }
    return all.score - all.labels * ::log(all.sum);
}

}  // namespace

/// The scores of rows are kept apart until all are there, so that they are added up in the same
/// order however many tasks there are.
void cross_entropy(const Tensor& node, const Task& task) {
    const Tensor &logits = *node.src[0], &labels = *node.src[1];
    const std::int64_t rows = row_count(logits);
    auto* scores = reinterpret_cast<double*>(task.scratch);
    const Range range = task.share(rows);
    std::int64_t next = range.begin;
    for_rows(logits, range, [&](const Row& row) HWY_ATTR {
        scores[next++] = row_score(row_at<const float>(logits, row),
                                   row_at<const float>(labels, row), logits.ne[0]);
    });
    task.sync();
    if (task.index != 0) return;
    double total = 0;
    for (std::int64_t row = 0; row < rows; ++row) total += scores[row];
    *static_cast<float*>(node.data) = static_cast<float>(-total / static_cast<double>(rows));
}

void cross_entropy_back(const Tensor& node, const Task& task) {
    const Tensor &logits = *node.src[1], &labels = *node.src[2];
    const float gradient = *static_cast<const float*>(node.src[0]->data);
    const float weight = gradient / static_cast<float>(row_count(logits));
    const std::int64_t n = logits.ne[0];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        const float* x = row_at<const float>(logits, row);
        float* y = row_at<float>(node, row);
        const PlainLogits rising{x, 1};
        const double sum = exponentials(rising, y, n, largest_of(rising, n), [](std::int64_t) {});
        const auto share = static_cast<float>(1 / sum);
        map_floats(y, row_at<const float>(labels, row), y, n,
                   [share, weight](auto d, auto e, auto label) HWY_ATTR {
                       const auto difference = hn::Sub(hn::Mul(e, hn::Set(d, share)), label);
                       return hn::Mul(difference, hn::Set(d, weight));
                   });
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(cross_entropy);
HWY_EXPORT(cross_entropy_back);
namespace {

constexpr double kFlops = 24;  ///< per logit

bool are_f32(std::initializer_list<const Tensor*> tensors) {
    for (const Tensor* t : tensors) {
        if (t->type != GGML_TYPE_F32) return false;
    }
    return true;
}

int tasks_for(const Tensor& logits, int threads) {
    return worthwhile_tasks(2.0 * static_cast<double>(byte_size(logits)),
                            kFlops * static_cast<double>(element_count(logits)), row_count(logits),
                            threads);
}

std::string_view objection(const Tensor& node) {
    const Tensor &logits = *node.src[0], &labels = *node.src[1];
    if (!are_f32({&node, &logits, &labels})) return "only f32";
    if (!same_shape(logits, labels)) return "logits and labels differ in their extents";
    if (is_empty(logits)) return "there are no logits";
    if (!is_scalar(node)) return "the result is not a single number";
    if (!has_dense_rows(logits) || !has_dense_rows(labels)) return "rows are not dense";
    return {};
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(cross_entropy)(node, task); }

Demand demand(const Tensor& node, int threads) {
    const Tensor& logits = *node.src[0];
    return {.tasks = tasks_for(logits, threads),
            .scratch = static_cast<std::size_t>(row_count(logits)) * sizeof(double)};
}

std::string_view back_objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &logits = *node.src[1], &labels = *node.src[2];
    if (!are_f32({&node, &dy, &logits, &labels})) return "only f32";
    if (!is_scalar(dy)) return "dy is not a single number";
    if (!same_shape(logits, labels) || !same_shape(logits, node)) {
        return "logits, labels and the result differ in their extents";
    }
    if (!has_dense_rows(logits) || !has_dense_rows(labels) || !has_dense_rows(node)) {
        return "rows are not dense";
    }
    return {};
}

void run_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(cross_entropy_back)(node, task);
}

Demand back_demand(const Tensor& node, int threads) {
    return {.tasks = tasks_for(*node.src[1], threads)};
}

}  // namespace

extern const Kernel kCrossEntropyLoss{.name = "cross_entropy_loss_f32",
                                      .op = ops::CrossEntropyLoss::id,
                                      .objection = objection,
                                      .run = run,
                                      .demand = demand};
extern const Kernel kCrossEntropyLossBack{.name = "cross_entropy_loss_back_f32",
                                          .op = ops::CrossEntropyLossBack::id,
                                          .objection = back_objection,
                                          .run = run_back,
                                          .demand = back_demand};

}  // namespace heddle::cpu
#endif
