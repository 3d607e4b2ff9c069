#include "ops/reduce.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/reduce.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/row_pieces.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"
#include "core/half.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// Sum of `n` elements that lie `stride` bytes apart.
double sum_of_row(Type type, const std::byte* x, std::size_t stride, std::int64_t n) {
    const std::size_t size = type == GGML_TYPE_F32 ? 4 : 2;
    if (type == GGML_TYPE_F32 && stride == size)
        return sum_of(reinterpret_cast<const float*>(x), n);
    float values[kChunk];
    double total = 0;
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t part = n - i < kChunk ? n - i : kChunk;
        const std::byte* from = x + static_cast<std::size_t>(i) * stride;
        if (stride == size) {
            total += sum_of(read_floats(type, from, values, part), part);
            continue;
        }
        for (std::int64_t k = 0; k < part; ++k) {
            const std::byte* element = from + static_cast<std::size_t>(k) * stride;
            values[k] = *read_floats(type, element, values + k, 1);
        }
        total += sum_of(values, part);
    }
    return total;
}

/// The sum of piece `index` of `count` of a tensor: of its elements where they are packed, else
/// rows.
double sum_of_piece(const Tensor& x, std::int64_t index, std::int64_t count) {
    const Task piece{.index = static_cast<int>(index), .count = static_cast<int>(count)};
    if (is_packed(x)) {
        const auto [begin, end] = share_elements(piece, count_elements(x));
        const std::size_t size = size_of(x.type);
        return sum_of_row(x.type, at(x, 0) + static_cast<std::size_t>(begin) * size, size,
                          end - begin);
    }
    double total = 0;
    for_rows(x, piece.share(row_count(x)), [&](const Row& row) HWY_ATTR {
        total += sum_of_row(x.type, row_at<const std::byte>(x, row), x.nb[0], x.ne[0]);
    });
    return total;
}

/// One value per row: its sum over `divisor`.
struct RowSums : MeasuredAtOnce {
    const Tensor& x;
    const Tensor& y;
    float divisor;

    using Value = float;

    RowSums(const Tensor& node, float over) : x(*node.src[0]), y(node), divisor(over) {}

    double measure(const Row& row, Range range) const {
        return sum_of_row(x.type, at<const std::byte>(x, range.begin, row.i1, row.i2, row.i3),
                          x.nb[0], range.end - range.begin);
    }
    float combine(const Row&, std::span<const double> sums) const {
        double total = 0;
        for (const double sum : sums) total += sum;
        return static_cast<float>(total) / divisor;
    }
    void finish(const Row& row, Range range, double, float sum) const {
        if (range.begin == 0) *row_at<float>(y, row) = sum;
    }
};

void sum_rows(const Tensor& node, const Task& task) {
    work_in_pieces<double>(*node.src[0], task, RowSums(node, 1));
}

void mean(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    work_in_pieces<double>(x, task, RowSums(node, static_cast<float>(x.ne[0])));
}

/// The last index of the largest element; 0 if there is none that is a number.
std::int32_t last_index_of_largest(const float* x, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const hn::Rebind<std::uint32_t, Floats> du;
    const auto larger = [x, d](auto best, std::int64_t at) HWY_ATTR {
        const auto v = hn::LoadU(d, x + at);
        return hn::IfThenElse(hn::Gt(v, best), v, best);
    };
    auto best0 = hn::BitCast(d, hn::Set(du, 0xff800000u));  // minus infinity
    auto best1 = best0, best2 = best0, best3 = best0;       // so that one need not wait for another
    std::int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
        best0 = larger(best0, i);
        best1 = larger(best1, i + step);
        best2 = larger(best2, i + 2 * step);
        best3 = larger(best3, i + 3 * step);
    }
    for (; i + step <= n; i += step) best0 = larger(best0, i);
    const auto best = hn::Max(hn::Max(best0, best1), hn::Max(best2, best3));
    float largest = hn::GetLane(hn::MaxOfLanes(d, best));
    for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    i = n;
    const auto all_largest = hn::Set(d, largest);
    while (i >= step && hn::AllFalse(d, hn::Eq(hn::LoadU(d, x + i - step), all_largest))) i -= step;
    while (i > 1 && x[i - 1] != largest) --i;
    return static_cast<std::int32_t>(i > 0 ? i - 1 : 0);
}

void argmax(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const auto [begin, end] = task.share(x.ne[1]);
    for (std::int64_t row = begin; row < end; ++row) {
        *at<std::int32_t>(node, row) = last_index_of_largest(at<const float>(x, 0, row), x.ne[0]);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(sum_of_piece);
HWY_EXPORT(sum_rows);
HWY_EXPORT(mean);
HWY_EXPORT(argmax);
namespace {

// ---- SUM ----

/// A sum is cut into pieces that do not depend on the number of tasks, so neither does the result.
std::int64_t pieces_of_sum(const Tensor& x) {
    constexpr std::int64_t most = 64, least_elements = 4096;
    const std::int64_t by_size =
        std::clamp<std::int64_t>(element_count(x) / least_elements, 1, most);
    return is_packed(x) ? by_size : std::min(by_size, std::max<std::int64_t>(row_count(x), 1));
}

std::string_view sum_objection(const Tensor& node) {
    if (!is_float(node.src[0]->type)) return "x is not f32, f16 or bf16";
    if (node.type != node.src[0]->type) return "the result does not have the type of x";
    return is_scalar(node) ? "" : "the result is not a single value";
}

void store_sum(const Tensor& node, double sum) {
    const float value = static_cast<float>(sum);
    if (node.type == GGML_TYPE_F32) {
        *static_cast<float*>(node.data) = value;
    } else {
        auto* half = static_cast<std::uint16_t*>(node.data);
        *half = node.type == GGML_TYPE_F16 ? f32_to_f16(value) : f32_to_bf16(value);
    }
}

void run_sum(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    auto* parts = reinterpret_cast<double*>(task.scratch);
    const std::int64_t pieces = pieces_of_sum(x);
    const Range mine = task.share(pieces);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
        parts[i] = is_empty(x) ? 0 : HWY_DYNAMIC_DISPATCH(sum_of_piece)(x, i, pieces);
    }
    task.sync();
    if (task.index != 0) return;
    double sum = 0;
    for (std::int64_t i = 0; i < pieces; ++i) sum += parts[i];
    store_sum(node, sum);
}

Demand sum_demand(const Tensor& node, int threads) {
    const Tensor& x = *node.src[0];
    const std::int64_t pieces = pieces_of_sum(x);
    const double bytes = static_cast<double>(byte_size(x));
    return {.tasks = worthwhile_tasks(bytes, 0, pieces, threads),
            .scratch = static_cast<std::size_t>(pieces) * sizeof(double)};
}

// ---- SUM_ROWS, MEAN ----

std::string_view per_row_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (node.ne[0] != 1 || node.ne[1] != x.ne[1] || node.ne[2] != x.ne[2] ||
        node.ne[3] != x.ne[3]) {
        return "the result is not one value for each row of x";
    }
    return {};
}

void run_sum_rows(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(sum_rows)(node, task);
}
void run_mean(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(mean)(node, task); }

Demand per_row_demand(const Tensor& node, int threads) {
    const Tensor& x = *node.src[0];
    return pieces_demand(x, static_cast<double>(byte_size(x)), 0, threads);
}

// ---- ARGMAX ----

std::string_view argmax_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32) return "x is not f32";
    if (node.type != GGML_TYPE_I32) return "the result is not i32";
    if (x.ne[2] * x.ne[3] != 1) return "x is not a matrix";
    if (node.ne[0] != x.ne[1]) return "the result is not one index for each row of x";
    return has_packed_rows(x) ? "" : "rows are not dense";
}

void run_argmax(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(argmax)(node, task); }

Demand argmax_demand(const Tensor& node, int threads) {
    const Tensor& x = *node.src[0];
    return {.tasks = worthwhile_tasks(static_cast<double>(byte_size(x)), 0, x.ne[1], threads)};
}

}  // namespace

extern const Kernel kSum{.name = "sum",
                         .op = GGML_OP_SUM,
                         .objection = sum_objection,
                         .run = run_sum,
                         .demand = sum_demand};
extern const Kernel kSumRows{.name = "sum_rows",
                             .op = GGML_OP_SUM_ROWS,
                             .objection = per_row_objection,
                             .run = run_sum_rows,
                             .demand = per_row_demand};
extern const Kernel kMean{.name = "mean",
                          .op = GGML_OP_MEAN,
                          .objection = per_row_objection,
                          .run = run_mean,
                          .demand = per_row_demand};
extern const Kernel kArgmax{.name = "argmax",
                            .op = GGML_OP_ARGMAX,
                            .objection = argmax_objection,
                            .run = run_argmax,
                            .demand = argmax_demand};

}  // namespace heddle::cpu
#endif
