#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/products/out_prod.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/products/gemm_pieces.hpp"
#include "ggml/op_list.h"
#include "ops/matmul.hpp"
#include "quant/codec.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] += x[i] * factor
void add_scaled_row(const float* HWY_RESTRICT x, float factor, float* HWY_RESTRICT y,
                    std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto f = hn::Set(lanes, factor);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::MulAdd(hn::LoadU(lanes, x + i), f, hn::LoadU(lanes, y + i)), lanes, y + i);
    }
    for (; i < n; ++i) y[i] += x[i] * factor;
}

/// One row of the result from f32: a part of it at a time stays in registers over the whole sum.
void out_prod_row(const Tensor& a, const Tensor& b, Row to, Row from, float* y) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const std::int64_t m = a.ne[0], depth = a.ne[1];
    std::int64_t i = 0;
    for (; i + 4 * step <= m; i += 4 * step) {
        auto sum0 = hn::Zero(lanes), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (std::int64_t p = 0; p < depth; ++p) {
            const float* x = at<const float>(a, i, p, from.i2, from.i3);
            const auto f = hn::Set(lanes, *at<const float>(b, to.i1, p, to.i2, to.i3));
            sum0 = hn::MulAdd(hn::LoadU(lanes, x), f, sum0);
            sum1 = hn::MulAdd(hn::LoadU(lanes, x + step), f, sum1);
            sum2 = hn::MulAdd(hn::LoadU(lanes, x + 2 * step), f, sum2);
            sum3 = hn::MulAdd(hn::LoadU(lanes, x + 3 * step), f, sum3);
        }
        hn::StoreU(sum0, lanes, y + i);
        hn::StoreU(sum1, lanes, y + i + step);
        hn::StoreU(sum2, lanes, y + i + 2 * step);
        hn::StoreU(sum3, lanes, y + i + 3 * step);
    }
    for (std::int64_t j = i; j < m; ++j) y[j] = 0;
    if (i == m) return;
    for (std::int64_t p = 0; p < depth; ++p) {
        add_scaled_row(at<const float>(a, i, p, from.i2, from.i3),
                       *at<const float>(b, to.i1, p, to.i2, to.i3), y + i, m - i);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(add_scaled_row);
HWY_EXPORT(out_prod_row);
namespace {

std::string_view shape_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "b or the result is not f32";
    if (a.nb[0] != size_of(a.type)) return "rows of a are not dense";
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    return {};
}

std::string_view plain_objection(const Tensor& node) {
    if (node.src[0]->type != GGML_TYPE_F32) return "a is not f32";
    return shape_objection(node);
}

// ---- over micro-panels --------------------------------------------------------------------------

/// Columns of a piece; its micro-panels lie behind those of the rows.
constexpr std::int64_t kOuterColumns = 96;
constexpr std::size_t kOuterBytes = kPieceBytes + kOuterColumns * 1024 * kMicroPanelElement;

bool is_worth_micro_panels(const Tensor& a, const Tensor& b) {
    return a.ne[0] >= 16 && b.ne[0] >= 4 && a.ne[1] >= 8;
}

/// Elements `depth` of rows `rows` of matrix (i2, i3), which lie across, in micro-panels of
/// `width`.
void pack_across(const Tensor& t, Range rows, Range depth, std::int64_t i2, std::int64_t i3,
                 std::int64_t width, float* to) {
    for (std::int64_t first = rows.begin; first < rows.end; first += width) {
        const std::int64_t left = rows.end - first, count = left < width ? left : width;
        for (std::int64_t p = depth.begin; p < depth.end; ++p, to += width) {
            if (t.nb[0] == sizeof(float)) {
                std::memcpy(to, at(t, first, p, i2, i3),
                            static_cast<std::size_t>(count) * sizeof(float));
            } else {
                for (std::int64_t i = 0; i < count; ++i) {
                    to[i] = *at<const float>(t, first + i, p, i2, i3);
                }
            }
            for (std::int64_t i = count; i < width; ++i) to[i] = 0;
        }
    }
}

void run_micro_panels(const Tensor& node, const GemmKernel& kernel, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const std::int64_t group2 = b.ne[2] / a.ne[2], group3 = b.ne[3] / a.ne[3];
    const std::int64_t rows = 2 * kernel.rows, depth = kernel.depth < 1024 ? kernel.depth : 1024;
    const std::int64_t row_pieces = blocks_of(a.ne[0], rows);
    const std::int64_t column_pieces = blocks_of(b.ne[0], kOuterColumns);
    const std::int64_t pieces = row_pieces * column_pieces * node.ne[2] * node.ne[3];
    std::byte* row_micro_panels = task.scratch + static_cast<std::size_t>(task.index) * kOuterBytes;
    std::byte* column_micro_panels = row_micro_panels + kPieceBytes;
    for (std::int64_t piece = task.take(); piece < pieces; piece = task.take()) {
        const std::int64_t row = piece % row_pieces * rows;
        const std::int64_t column = piece / row_pieces % column_pieces * kOuterColumns;
        const std::int64_t matrix = piece / (row_pieces * column_pieces);
        const std::int64_t i2 = matrix % node.ne[2], i3 = matrix / node.ne[2];
        const Range i{row, row + rows < a.ne[0] ? row + rows : a.ne[0]};
        const Range j{column, column + kOuterColumns < b.ne[0] ? column + kOuterColumns : b.ne[0]};
        for (std::int64_t begin = 0; begin < a.ne[1]; begin += depth) {
            const Range p{begin, begin + depth < a.ne[1] ? begin + depth : a.ne[1]};
            const std::int64_t count = p.end - p.begin;
            // Micro-panels hold whole blocks of 32 elements; what is past the end is not
            // multiplied.
            const std::int64_t room = blocks_of(count, 32) * 32;
            for (std::int64_t r = i.begin; r < i.end; r += kernel.rows) {
                const Range part{r, r + kernel.rows < i.end ? r + kernel.rows : i.end};
                pack_across(a, part, p, i2 / group2, i3 / group3, kernel.rows,
                            reinterpret_cast<float*>(row_micro_panels) + (r - i.begin) * room);
            }
            for (std::int64_t c = j.begin; c < j.end; c += kernel.columns) {
                const Range part{c, c + kernel.columns < j.end ? c + kernel.columns : j.end};
                pack_across(b, part, p, i2, i3, kernel.columns,
                            reinterpret_cast<float*>(column_micro_panels) + (c - j.begin) * room);
            }
            multiply_micro_panels(
                kernel, row_micro_panels, i.end - i.begin, column_micro_panels,
                kernel.column_micro_panel_size(count), j.end - j.begin, count,
                [&](std::int64_t c) { return at<float>(node, i.begin, j.begin + c, i2, i3); },
                begin > 0);
        }
    }
}

// ---- row by row --------------------------------------------------------------------------------

void run_plain(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (is_empty(node)) return;
    if (is_worth_micro_panels(a, b)) {
        if (const GemmKernel kernel = gemm_float_of(GGML_TYPE_F32)) {
            return run_micro_panels(node, kernel, task);
        }
    }
    const std::int64_t group2 = b.ne[2] / a.ne[2], group3 = b.ne[3] / a.ne[3];
    const auto multiply = HWY_DYNAMIC_DISPATCH(out_prod_row);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        multiply(a, b, row, {0, row.i2 / group2, row.i3 / group3}, row_at<float>(node, row));
    });
}

std::string_view decoded_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_F16 && quant::codec_of(a.type) == nullptr) {
        return "a is neither f32, f16 nor a block format";
    }
    if (a.ne[2] != b.ne[2] || a.ne[3] != b.ne[3]) return "a is not f32 and would have to repeat";
    return shape_objection(node);
}

int worthwhile(const Tensor& node, int threads) {
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(node.src[0]->ne[1]);
    return worthwhile_tasks(static_cast<double>(byte_size(node)), flops, row_count(node), threads);
}

Demand plain_demand(const Tensor& node, int threads) {
    const int tasks = worthwhile(node, threads);
    const bool has_micro_panels = is_worth_micro_panels(*node.src[0], *node.src[1]);
    return {.tasks = tasks,
            .scratch = has_micro_panels ? static_cast<std::size_t>(tasks) * kOuterBytes : 0};
}

std::size_t decoded_pitch(const Tensor& a) {
    return (static_cast<std::size_t>(a.ne[0]) * sizeof(float) + 63) / 64 * 64;
}

Demand decoded_demand(const Tensor& node, int threads) {
    const int tasks = worthwhile(node, threads);
    return {.tasks = tasks,
            .scratch = static_cast<std::size_t>(tasks) * decoded_pitch(*node.src[0])};
}

/// Each row of a is decoded once and added to all rows of the result that this task has in the same
/// matrix.
void run_decoded(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const Range range = task.share(row_count(node));
    auto* decoded = reinterpret_cast<float*>(task.scratch + static_cast<std::size_t>(task.index) *
                                                                decoded_pitch(a));
    const quant::Codec* codec = quant::codec_of(a.type);
    const auto add = HWY_DYNAMIC_DISPATCH(add_scaled_row);
    for (std::int64_t row = range.begin; row < range.end;) {
        const std::int64_t matrix = row / node.ne[1], first = row % node.ne[1];
        const std::int64_t i2 = matrix % node.ne[2], i3 = matrix / node.ne[2];
        const std::int64_t left = range.end - row + first;
        const std::int64_t last = left < node.ne[1] ? left : node.ne[1];
        for (std::int64_t j = first; j < last; ++j) {
            std::memset(at(node, 0, j, i2, i3), 0,
                        static_cast<std::size_t>(a.ne[0]) * sizeof(float));
        }
        for (std::int64_t p = 0; p < a.ne[1]; ++p) {
            if (codec != nullptr) {
                codec->decode(at(a, 0, p, i2, i3), decoded, a.ne[0]);
            } else {
                f16_to_f32_row(at(a, 0, p, i2, i3), decoded, a.ne[0]);
            }
            for (std::int64_t j = first; j < last; ++j) {
                add(decoded, *at<const float>(b, j, p, i2, i3), at<float>(node, 0, j, i2, i3),
                    a.ne[0]);
            }
        }
        row += last - first;
    }
}

}  // namespace

extern const Kernel kOutProd{.name = "out_prod_f32",
                             .op = GGML_OP_OUT_PROD,
                             .objection = plain_objection,
                             .run = run_plain,
                             .demand = plain_demand};
extern const Kernel kOutProdDecoded{.name = "out_prod_decoded",
                                    .op = GGML_OP_OUT_PROD,
                                    .objection = decoded_objection,
                                    .run = run_decoded,
                                    .demand = decoded_demand,
                                    .rank = Rank::rest};

}  // namespace heddle::cpu
#endif
