// Builders of the ops that work along rows: reductions, norms, sorting.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/ops_reduce.h"
#include "ops/norm.hpp"
#include "ops/reduce.hpp"
#include "ops/sort.hpp"
#include "ops/view.hpp"

using namespace heddle;
using capi::node;
using capi::node_in_place;

ggml_tensor* ggml_sum(ggml_context* ctx, ggml_tensor* a) { return node<ops::Sum>(ctx, {}, {a}); }
ggml_tensor* ggml_sum_rows(ggml_context* ctx, ggml_tensor* a) {
    return node<ops::SumRows>(ctx, {}, {a});
}
ggml_tensor* ggml_cumsum(ggml_context* ctx, ggml_tensor* a) {
    return node<ops::CumSum>(ctx, {}, {a});
}
ggml_tensor* ggml_mean(ggml_context* ctx, ggml_tensor* a) { return node<ops::Mean>(ctx, {}, {a}); }
ggml_tensor* ggml_argmax(ggml_context* ctx, ggml_tensor* a) {
    return node<ops::Argmax>(ctx, {}, {a});
}
ggml_tensor* ggml_count_equal(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::CountEqual>(ctx, {}, {a, b});
}

ggml_tensor* ggml_norm(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node<ops::Norm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_norm_inplace(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node_in_place<ops::Norm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_rms_norm(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node<ops::RmsNorm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_rms_norm_inplace(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node_in_place<ops::RmsNorm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_l2_norm(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node<ops::L2Norm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_l2_norm_inplace(ggml_context* ctx, ggml_tensor* a, float eps) {
    return node_in_place<ops::L2Norm>(ctx, {eps}, {a});
}
ggml_tensor* ggml_group_norm(ggml_context* ctx, ggml_tensor* a, int n_groups, float eps) {
    return node<ops::GroupNorm>(ctx, {.n_groups = n_groups, .eps = eps}, {a});
}
ggml_tensor* ggml_group_norm_inplace(ggml_context* ctx, ggml_tensor* a, int n_groups, float eps) {
    return node_in_place<ops::GroupNorm>(ctx, {.n_groups = n_groups, .eps = eps}, {a});
}

ggml_tensor* ggml_argsort(ggml_context* ctx, ggml_tensor* a, ggml_sort_order order) {
    return node<ops::Argsort>(ctx, {.order = static_cast<std::int32_t>(order)}, {a});
}
ggml_tensor* ggml_top_k(ggml_context* ctx, ggml_tensor* a, int k) {
    return node<ops::TopK>(ctx, {.k = k}, {a});
}

ggml_tensor* ggml_argsort_top_k(ggml_context* ctx, ggml_tensor* a, int k) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(ctx, "argsort_top_k", "the context"));
        HEDDLE_TRY(capi::require(a, "argsort_top_k", "operand x"));
        if (auto checked = ops::TopK::check_k(k, *a); !checked) {
            return std::move(checked).error().within("argsort_top_k");
        }
        HEDDLE_TRY_ASSIGN(Tensor * sorted,
                          build<ops::Argsort>(*ctx, {.order = GGML_SORT_ORDER_DESC}, {a}));
        const Extents extent{k, a->ne[1], a->ne[2], a->ne[3]};
        return build<ops::View>(*ctx, {{0}, extent, std::span(sorted->nb).subspan(1)}, {sorted});
    });
}
