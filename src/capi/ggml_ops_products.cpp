// Builders of the products of matrices.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/matmul.hpp"

using namespace heddle;
using capi::node;

namespace {

/// Changes the parameters of a finished MUL_MAT.
template <class Change>
void change_mul_mat(Tensor* product, std::string_view function, Change&& change) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(capi::require(product, function, "the node"));
        if (product->op != GGML_OP_MUL_MAT) {
            return invalid(function, ": ", describe(*product), " is no product of matrices");
        }
        auto params = unpack<ops::MulMat::Params>(*product);
        change(params);
        set_params(*product, &params, sizeof params);
        return ok();
    });
}

}  // namespace

ggml_tensor* ggml_mul_mat(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::MulMat>(ctx, {}, {a, b});
}

void ggml_mul_mat_set_prec(ggml_tensor* a, ggml_prec prec) {
    change_mul_mat(a, "mul_mat_set_prec",
                   [=](auto& params) { params.precision = static_cast<std::int32_t>(prec); });
}
void ggml_mul_mat_set_hint(ggml_tensor* a, ggml_op_hint hint) {
    change_mul_mat(a, "mul_mat_set_hint",
                   [=](auto& params) { params.hint = static_cast<std::int32_t>(hint); });
}

ggml_tensor* ggml_mul_mat_id(ggml_context* ctx, ggml_tensor* as, ggml_tensor* b, ggml_tensor* ids) {
    return node<ops::MulMatId>(ctx, {}, {as, b, ids});
}
ggml_tensor* ggml_out_prod(ggml_context* ctx, ggml_tensor* a, ggml_tensor* b) {
    return node<ops::OutProd>(ctx, {}, {a, b});
}
