#include "ops/triangle.hpp"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_layout.h"
#include "ops/mask.hpp"

/// Ops that keep a part of each matrix: which elements depends on the row alone.
namespace heddle::cpu {
namespace {

/// y = x in columns `kept`, `fill` in all others. x and y may be the same.
void keep_columns(const float* x, float* y, std::int64_t n, Range kept, float fill) {
    const std::int64_t begin = std::clamp<std::int64_t>(kept.begin, 0, n);
    const std::int64_t end = std::clamp<std::int64_t>(kept.end, begin, n);
    std::fill(y, y + begin, fill);
    if (x != y) std::copy(x + begin, x + end, y + begin);
    std::fill(y + end, y + n, fill);
}

std::string_view same_f32(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    return {};
}

// ---- DIAG_MASK_INF, DIAG_MASK_ZERO ----

std::string_view mask_objection(const Tensor& node) {
    if (unpack<ops::DiagMask::Params>(node).n_past < 0) return "n_past is negative";
    return same_f32(node);
}

void mask(const Tensor& node, const Task& task, float fill) {
    const std::int64_t n_past = unpack<ops::DiagMask::Params>(node).n_past;
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        keep_columns(row_at<const float>(*node.src[0], row), row_at<float>(node, row), node.ne[0],
                     {0, n_past + row.i1 + 1}, fill);
    });
}

void run_mask_inf(const Tensor& node, const Task& task) {
    mask(node, task, -std::numeric_limits<float>::infinity());
}

void run_mask_zero(const Tensor& node, const Task& task) { mask(node, task, 0); }

// ---- TRI ----

std::string_view tri_objection(const Tensor& node) {
    const std::int32_t type = unpack<ops::Tri::Params>(node).type;
    if (type < GGML_TRI_TYPE_UPPER_DIAG || type > GGML_TRI_TYPE_LOWER)
        return "there is no such type";
    return same_f32(node);
}

Range kept_columns(std::int32_t type, std::int64_t row, std::int64_t n) {
    switch (type) {
        case GGML_TRI_TYPE_UPPER_DIAG:
            return {row, n};
        case GGML_TRI_TYPE_UPPER:
            return {row + 1, n};
        case GGML_TRI_TYPE_LOWER_DIAG:
            return {0, row + 1};
        default:
            return {0, row};
    }
}

void run_tri(const Tensor& node, const Task& task) {
    const std::int32_t type = unpack<ops::Tri::Params>(node).type;
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        keep_columns(row_at<const float>(*node.src[0], row), row_at<float>(node, row), node.ne[0],
                     kept_columns(type, row.i1, node.ne[0]), 0);
    });
}

// ---- DIAG ----

std::string_view diag_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (x.ne[1] != 1) return "x is not a vector in each plane";
    if (node.ne[0] != x.ne[0] || node.ne[1] != x.ne[0] || node.ne[2] != x.ne[2] ||
        node.ne[3] != x.ne[3]) {
        return "the result is not a square matrix for each vector of x";
    }
    return has_packed_rows(node) ? "" : "rows are not dense";
}

void run_diag(const Tensor& node, const Task& task) {
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* y = row_at<float>(node, row);
        std::fill_n(y, node.ne[0], 0.0f);
        y[row.i1] = *at<const float>(*node.src[0], row.i1, 0, row.i2, row.i3);
    });
}

}  // namespace

extern const Kernel kDiagMaskInf{.name = "diag_mask_inf",
                                 .op = GGML_OP_DIAG_MASK_INF,
                                 .objection = mask_objection,
                                 .run = run_mask_inf};
extern const Kernel kDiagMaskZero{.name = "diag_mask_zero",
                                  .op = GGML_OP_DIAG_MASK_ZERO,
                                  .objection = mask_objection,
                                  .run = run_mask_zero};
extern const Kernel kTri{
    .name = "tri", .op = GGML_OP_TRI, .objection = tri_objection, .run = run_tri};
extern const Kernel kDiag{
    .name = "diag", .op = GGML_OP_DIAG, .objection = diag_objection, .run = run_diag};

}  // namespace heddle::cpu
