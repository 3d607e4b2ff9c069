#include "ops/norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/norm.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"
#include "ops/backward.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// y = (x - centre) * factor
void scale_row(const float* x, float* y, std::int64_t n, float centre, float factor) {
    map_floats(x, y, n, [centre, factor](auto d, auto v) HWY_ATTR {
        return hn::Mul(hn::Sub(v, hn::Set(d, centre)), hn::Set(d, factor));
    });
}

void norm_row(const float* x, float* y, std::int64_t n, float eps) {
    const auto count = static_cast<double>(n);
    const auto centre = static_cast<float>(sum_of(x, n) / count);
    const auto variance = static_cast<float>(sum_of_squares(x, n, centre) / count);
    scale_row(x, y, n, centre, 1 / ::sqrtf(variance + eps));
}

void rms_norm_row(const float* x, float* y, std::int64_t n, float eps) {
    const auto mean = static_cast<float>(sum_of_products(x, x, n) / static_cast<double>(n));
    scale_row(x, y, n, 0, 1 / ::sqrtf(mean + eps));
}

/// eps is the least length that a row is taken to have.
void l2_norm_row(const float* x, float* y, std::int64_t n, float eps) {
    const auto length = static_cast<float>(::sqrt(sum_of_products(x, x, n)));
    scale_row(x, y, n, 0, 1 / (length > eps ? length : eps));
}

/// Applies `row_norm` to each row. Where elements of a row do not follow each other, they pass
/// through this task's part of the scratch memory.
template <class RowNorm>
void norm_rows(const Tensor& node, const Task& task, RowNorm row_norm) {
    const Tensor& x = *node.src[0];
    const float eps = unpack<ops::RowNorm::Params>(node).eps;
    const std::int64_t n = node.ne[0];
    const bool dense_x = has_packed_rows(x), dense_y = has_packed_rows(node);
    float* buffer = nullptr;
    if (!dense_x || !dense_y) buffer = reinterpret_cast<float*>(task.scratch) + task.index * n;
    for_rows(node, task.share(row_count(node)), [&](Row row) HWY_ATTR {
        const float* from = row_at<const float>(x, row);
        float* to = row_at<float>(node, row);
        if (!dense_x) {
            for (std::int64_t i = 0; i < n; ++i) {
                buffer[i] = *at<const float>(x, i, row.i1, row.i2, row.i3);
            }
        }
        row_norm(dense_x ? from : buffer, dense_y ? to : buffer, n, eps);
        if (!dense_y) {
            for (std::int64_t i = 0; i < n; ++i) {
                *at<float>(node, i, row.i1, row.i2, row.i3) = buffer[i];
            }
        }
    });
}

void norm(const Tensor& node, const Task& task) { norm_rows(node, task, norm_row); }
void rms_norm(const Tensor& node, const Task& task) { norm_rows(node, task, rms_norm_row); }
void l2_norm(const Tensor& node, const Task& task) { norm_rows(node, task, l2_norm_row); }

/// The channels `range` of one batch, as stretches that are dense in x and y: planes, or their
/// rows.
struct Group {
    const Tensor& x;
    const Tensor& y;
    Range channels;
    std::int64_t batch;
    bool whole_planes;

    std::int64_t stretch() const { return whole_planes ? x.ne[0] * x.ne[1] : x.ne[0]; }

    template <class Body>
    HWY_INLINE void for_stretches(Body body) const {
        for (std::int64_t i2 = channels.begin; i2 < channels.end; ++i2) {
            for (std::int64_t i1 = 0; i1 < (whole_planes ? 1 : x.ne[1]); ++i1) {
                body(at<const float>(x, 0, i1, i2, batch), at<float>(y, 0, i1, i2, batch));
            }
        }
    }
};

void group_norm(const Tensor& node, const Task& task) {
    const auto [n_groups, eps] = unpack<ops::GroupNorm::Params>(node);
    const Tensor& x = *node.src[0];
    const std::int64_t groups = n_groups;
    const std::int64_t each = (x.ne[2] + groups - 1) / groups;
    const std::size_t pitch = static_cast<std::size_t>(x.ne[0]) * sizeof(float);
    const bool whole_planes = x.nb[1] == pitch && node.nb[1] == pitch;
    const auto [begin, end] = task.share(groups * x.ne[3]);
    for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % groups * each;
        const std::int64_t last = first + each < x.ne[2] ? first + each : x.ne[2];
        if (first >= last) continue;  // groups at the end may be short or have nothing
        const Group group{x, node, {first, last}, i / groups, whole_planes};
        const std::int64_t n = group.stretch();
        const auto count = static_cast<double>(x.ne[0] * x.ne[1] * (last - first));
        double sum = 0, squares = 0;
        group.for_stretches([&](const float* from, float*) HWY_ATTR { sum += sum_of(from, n); });
        const auto centre = static_cast<float>(sum / count);
        group.for_stretches([&](const float* from, float*)
                                HWY_ATTR { squares += sum_of_squares(from, n, centre); });
        const float factor = 1 / ::sqrtf(static_cast<float>(squares / count) + eps);
        group.for_stretches([&](const float* from, float* to)
                                HWY_ATTR { scale_row(from, to, n, centre, factor); });
    }
}

/// dx = (dy - x * sum(x * dy) / (sum(x * x) + n * eps)) / sqrt(mean(x * x) + eps)
void rms_norm_back(const Tensor& node, const Task& task) {
    const float eps = unpack<ops::RmsNormBack::Params>(node).eps;
    const std::int64_t n = node.ne[0];
    const auto count = static_cast<float>(n);
    for_rows(node, task.share(row_count(node)), [&](Row row) HWY_ATTR {
        const float* dy = row_at<const float>(*node.src[0], row);
        const float* x = row_at<const float>(*node.src[1], row);
        const double squares = sum_of_products(x, x, n), products = sum_of_products(x, dy, n);
        const auto mean = static_cast<float>(squares / static_cast<double>(n)) + eps;
        const float weight =
            static_cast<float>(products / (squares + static_cast<double>(count * eps)));
        const float factor = 1 / ::sqrtf(mean);
        map_floats(dy, x, row_at<float>(node, row), n,
                   [weight, factor](auto d, auto gradient, auto v) HWY_ATTR {
                       const auto rest = hn::NegMulAdd(v, hn::Set(d, weight), gradient);
                       return hn::Mul(rest, hn::Set(d, factor));
                   });
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(norm);
HWY_EXPORT(rms_norm);
HWY_EXPORT(l2_norm);
HWY_EXPORT(group_norm);
HWY_EXPORT(rms_norm_back);
namespace {

std::string_view same_f32(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    return same_shape(x, node) ? "" : "the result does not have the extents of x";
}

std::string_view strided_objection(const Tensor& node) {
    if (!(unpack<ops::RowNorm::Params>(node).eps >= 0)) return "eps is negative";
    return same_f32(node);
}

std::string_view rms_norm_objection(const Tensor& node) {
    if (const std::string_view reason = strided_objection(node); !reason.empty()) return reason;
    return has_packed_rows(*node.src[0]) && has_packed_rows(node) ? "" : "rows are not dense";
}

std::string_view group_norm_objection(const Tensor& node) {
    if (const std::string_view reason = same_f32(node); !reason.empty()) return reason;
    if (unpack<ops::GroupNorm::Params>(node).n_groups < 1) return "there are no groups";
    return has_packed_rows(*node.src[0]) && has_packed_rows(node) ? "" : "rows are not dense";
}

std::string_view rms_norm_back_objection(const Tensor& node) {
    const Tensor& x = *node.src[1];
    if (const std::string_view reason = same_f32(node); !reason.empty()) return reason;
    if (x.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "x does not have the extents of dy";
    const bool dense = has_packed_rows(*node.src[0]) && has_packed_rows(x) && has_packed_rows(node);
    return dense ? "" : "rows are not dense";
}

void run_norm(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(norm)(node, task); }
void run_rms_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(rms_norm)(node, task);
}
void run_l2_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(l2_norm)(node, task);
}
void run_group_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(group_norm)(node, task);
}
void run_rms_norm_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(rms_norm_back)(node, task);
}

Demand strided_demand(const Tensor& node, int threads) {
    Demand demand = rows_demand(node, threads);
    if (!has_packed_rows(*node.src[0]) || !has_packed_rows(node)) {
        demand.scratch = static_cast<std::size_t>(demand.tasks) *
                         static_cast<std::size_t>(node.ne[0]) * sizeof(float);
    }
    return demand;
}

Demand group_norm_demand(const Tensor& node, int threads) {
    const std::int64_t groups = unpack<ops::GroupNorm::Params>(node).n_groups * node.ne[3];
    const double bytes = 4.0 * static_cast<double>(byte_size(node));
    return {.tasks = worthwhile_tasks(bytes, 0, groups, threads)};
}

}  // namespace

extern const Kernel kNorm{.name = "norm",
                          .op = GGML_OP_NORM,
                          .objection = strided_objection,
                          .run = run_norm,
                          .demand = strided_demand};
extern const Kernel kRmsNorm{.name = "rms_norm",
                             .op = GGML_OP_RMS_NORM,
                             .objection = rms_norm_objection,
                             .run = run_rms_norm};
extern const Kernel kL2Norm{.name = "l2_norm",
                            .op = GGML_OP_L2_NORM,
                            .objection = strided_objection,
                            .run = run_l2_norm,
                            .demand = strided_demand};
extern const Kernel kGroupNorm{.name = "group_norm",
                               .op = GGML_OP_GROUP_NORM,
                               .objection = group_norm_objection,
                               .run = run_group_norm,
                               .demand = group_norm_demand};
extern const Kernel kRmsNormBack{.name = "rms_norm_back",
                                 .op = GGML_OP_RMS_NORM_BACK,
                                 .objection = rms_norm_back_objection,
                                 .run = run_rms_norm_back};

}  // namespace heddle::cpu
#endif
