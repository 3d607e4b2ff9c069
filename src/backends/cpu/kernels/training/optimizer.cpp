#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/training/optimizer.cpp"
#include "ops/optimizer.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Calls `body(d, i)` for vectors of elements and then for the single ones that are left. Products
/// and sums are rounded one by one, so both give the same bits, and so does every instruction set.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t n, Body body) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) body(d, i);
    const hn::CappedTag<float, 1> one;
    for (; i < n; ++i) body(one, i);
}

struct AdamwRow {
    float* weights;
    const float* gradient;
    float* m;
    float* v;
};

/// `values` are alpha, beta1, beta2, eps, weight decay, and what corrects the bias of m and of v.
void adamw_row(const AdamwRow& row, const float* values, std::int64_t n) {
    const float alpha = values[0], beta1 = values[1], beta2 = values[2], eps = values[3];
    const float keep = 1.0f - alpha * values[4], correct_m = values[5], correct_v = values[6];
    for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto set = [d](float value) HWY_ATTR { return hn::Set(d, value); };
        const auto g = hn::LoadU(d, row.gradient + i);
        const auto m =
            hn::Add(hn::Mul(hn::LoadU(d, row.m + i), set(beta1)), hn::Mul(g, set(1.0f - beta1)));
        const auto v = hn::Add(hn::Mul(hn::LoadU(d, row.v + i), set(beta2)),
                               hn::Mul(hn::Mul(g, g), set(1.0f - beta2)));
        hn::StoreU(m, d, row.m + i);
        hn::StoreU(v, d, row.v + i);
        const auto root = hn::Add(hn::Sqrt(hn::Mul(v, set(correct_v))), set(eps));
        const auto step = hn::Div(hn::Mul(set(alpha), hn::Mul(m, set(correct_m))), root);
        const auto kept = hn::Mul(hn::LoadU(d, row.weights + i), set(keep));
        hn::StoreU(hn::Sub(kept, step), d, row.weights + i);
    });
}

/// `values` are alpha and weight decay.
void sgd_row(float* weights, const float* gradient, const float* values, std::int64_t n) {
    const float alpha = values[0], keep = 1.0f - alpha * values[1];
    for_vectors(n, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto kept = hn::Mul(hn::LoadU(d, weights + i), hn::Set(d, keep));
        const auto step = hn::Mul(hn::LoadU(d, gradient + i), hn::Set(d, alpha));
        hn::StoreU(hn::Sub(kept, step), d, weights + i);
    });
}

}  // namespace

void adamw(const Tensor& node, const Task& task) {
    const auto* values = static_cast<const float*>(node.src[4]->data);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        adamw_row({row_at<float>(node, row), row_at<const float>(*node.src[1], row),
                   row_at<float>(*node.src[2], row), row_at<float>(*node.src[3], row)},
                  values, node.ne[0]);
    });
}

void sgd(const Tensor& node, const Task& task) {
    const auto* values = static_cast<const float*>(node.src[2]->data);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        sgd_row(row_at<float>(node, row), row_at<const float>(*node.src[1], row), values,
                node.ne[0]);
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(adamw);
HWY_EXPORT(sgd);
namespace {

/// The weights are the node itself. The last of `operands` has the `count` numbers of the step.
std::string_view objection_to(const Tensor& node, int operands, std::int64_t count) {
    for (int slot = 0; slot < operands; ++slot) {
        if (node.src[slot]->type != GGML_TYPE_F32) return "only f32";
        if (slot + 1 == operands) break;
        if (!same_shape(*node.src[slot], node)) return "the operands differ in their extents";
        if (!has_dense_rows(*node.src[slot])) return "rows are not dense";
    }
    if (node.type != GGML_TYPE_F32) return "only f32";
    if (!has_dense_rows(node)) return "rows are not dense";
    const Tensor& values = *node.src[operands - 1];
    if (element_count(values) != count || !is_contiguous(values)) {
        return "the values are not as many as the step has, one after the other";
    }
    return {};
}

std::string_view adamw_objection(const Tensor& node) { return objection_to(node, 5, 7); }
std::string_view sgd_objection(const Tensor& node) { return objection_to(node, 3, 2); }

void run_adamw(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(adamw)(node, task); }
void run_sgd(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(sgd)(node, task); }

}  // namespace

extern const Kernel kOptStepAdamw{.name = "opt_step_adamw_f32",
                                  .op = ops::OptStepAdamw::id,
                                  .objection = adamw_objection,
                                  .run = run_adamw};
extern const Kernel kOptStepSgd{.name = "opt_step_sgd_f32",
                                .op = ops::OptStepSgd::id,
                                .objection = sgd_objection,
                                .run = run_sgd};

}  // namespace heddle::cpu
#endif
