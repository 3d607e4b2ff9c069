#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/training/cross_entropy.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "ops/loss.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// A NaN may be passed over; it comes back from the exponentials.
float largest(const float* x, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    float result = x[0];
    std::int64_t i = 0;
    if (n >= step) {
        auto most = hn::LoadU(d, x);
        for (i = step; i + step <= n; i += step) most = hn::Max(most, hn::LoadU(d, x + i));
        result = hn::GetLane(hn::MaxOfLanes(d, most));
    }
    for (; i < n; ++i) result = x[i] > result ? x[i] : result;
    return result;
}

/// Of at most `kChunk` numbers: longer sums are made of these in double precision.
float sum_of_chunk(const float* x, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    auto part = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) part = hn::Add(part, hn::LoadU(d, x + i));
    float sum = hn::GetLane(hn::SumOfLanes(d, part));
    for (; i < n; ++i) sum += x[i];
    return sum;
}

/// Sum of e^(x - most), whose terms are left in `terms`: as many as x has, or `kChunk` that are
/// used again and again.
double exponentials(const float* x, float most, float* terms, bool keep, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t part = n - i < kChunk ? n - i : kChunk;
        float* to = keep ? terms + i : terms;
        map_floats(x + i, to, part, [most](auto d, auto v) HWY_ATTR {
            return exp_of(d, hn::Sub(v, hn::Set(d, most)));
        });
        sum += static_cast<double>(sum_of_chunk(to, part));
    }
    return sum;
}

/// Sum of labels * log(soft_max(logits)) of a row.
double row_score(const float* logits, const float* labels, std::int64_t n) {
    float buffer[kChunk];
    const float most = largest(logits, n);
    const auto log_sum = static_cast<float>(::log(exponentials(logits, most, buffer, false, n)));
    double score = 0;
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t part = n - i < kChunk ? n - i : kChunk;
        map_floats(logits + i, labels + i, buffer, part,
                   [most, log_sum](auto d, auto x, auto label) HWY_ATTR {
                       const auto shifted = hn::Sub(x, hn::Set(d, most));
                       return hn::Mul(label, hn::Sub(shifted, hn::Set(d, log_sum)));
                   });
        score += static_cast<double>(sum_of_chunk(buffer, part));
    }
    return score;
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
        const auto share = static_cast<float>(1.0 / exponentials(x, largest(x, n), y, true, n));
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
