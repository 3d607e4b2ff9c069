#pragma once

#include <algorithm>

#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// What products of matrices share: f32 results, and rows of a that follow each other.
struct Product {
    static Result<> check_rows(std::string_view role, const Tensor& a) {
        if (!is_transposed(a)) return ok();
        if (a.ne[0] == 0) return invalid(role, " ", describe(a), " has rows without elements");
        return invalid(role, " ", describe(a), " is transposed: its elements lie ", a.nb[0],
                       " bytes apart, its rows ", a.nb[1]);
    }

    /// a serves whole groups of matrices of b.
    static Result<> check_batch(const Tensor& a, const Tensor& b) {
        for (int d = 2; d < kMaxDims; ++d) HEDDLE_TRY(need_multiple({"b", b, d}, {"a", a, d}));
        return ok();
    }

    /// A multiplication and an addition for each of `depth` terms of each element.
    static double flops(const Tensor& out, std::int64_t depth) {
        return 2 * count_of(out) * static_cast<double>(depth);
    }
};

struct MulMat : Product {
    static constexpr Op id = GGML_OP_MUL_MAT;
    static constexpr std::string_view name = "MUL_MAT";
    static constexpr std::string_view symbol = "X*Y";
    static constexpr std::string_view summary =
        "y(i, j) = the dot product of row i of a and row j of b, always f32; in dimensions 2 and 3 "
        "each matrix of a serves a group of matrices of b.";
    static constexpr std::array sources{"a", "b"};

    struct Params {
        std::int32_t precision = GGML_PREC_DEFAULT;
        std::int32_t hint = GGML_HINT_NONE;
    };
    static constexpr std::array fields{ParamField{"precision", 0}, ParamField{"hint", 1}};

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &a = src[0], &b = src[1];
        HEDDLE_TRY(need_equal({"a", a, 0}, {"b", b, 0}));
        HEDDLE_TRY(check_batch(a, b));
        HEDDLE_TRY(check_rows("a", a));
        return TensorSpec::dense(GGML_TYPE_F32, {a.ne[1], b.ne[1], b.ne[2], b.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = flops(out, src[0].ne[0]), .bytes = bytes_touched(out)};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct MulMatId : Product {
    static constexpr Op id = GGML_OP_MUL_MAT_ID;
    static constexpr std::string_view name = "MUL_MAT_ID";
    static constexpr std::string_view symbol = "X[i]*Y";
    static constexpr std::string_view summary =
        "y(i, e, t) = the dot product of row i of matrix ids(e, t) of as and row e of b(t), for "
        "mixtures of experts. Rows of b repeat if there are fewer of them than of ids.";
    static constexpr std::array sources{"as", "b", "ids"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &as = src[0], &b = src[1], &ids = src[2];
        HEDDLE_TRY(check_rows("as", as));
        HEDDLE_TRY(need_type("ids", ids, GGML_TYPE_I32));
        HEDDLE_TRY(need_extent("as", as, 3, 1));
        HEDDLE_TRY(need_extent("b", b, 3, 1));
        HEDDLE_TRY(need_matrix("ids", ids));
        HEDDLE_TRY(need_equal({"ids", ids, 1}, {"b", b, 2}));
        HEDDLE_TRY(need_equal({"as", as, 0}, {"b", b, 0}));
        HEDDLE_TRY(need_multiple({"ids", ids, 0}, {"b", b, 1}));
        return TensorSpec::dense(GGML_TYPE_F32, {as.ne[1], ids.ne[0], b.ne[2], 1});
    }

    /// Matrices that no id names are not read; which they are is not known before the run.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& as = src[0];
        const double experts = static_cast<double>(std::max<std::int64_t>(as.ne[2], 1));
        const double unused = 1 - std::min(1.0, count_of(src[2]) / experts);
        return {.flops = flops(out, as.ne[0]),
                .bytes = bytes_touched(out) - unused * static_cast<double>(byte_size(as))};
    }
};

struct OutProd : Product {
    static constexpr Op id = GGML_OP_OUT_PROD;
    static constexpr std::string_view name = "OUT_PROD";
    static constexpr std::string_view symbol = "X*Y";
    static constexpr std::string_view summary =
        "y(i, j) = the dot product of column i of a and column j of b, always f32; in dimensions 2 "
        "and 3 each matrix of a serves a group of matrices of b.";
    static constexpr std::array sources{"a", "b"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &a = src[0], &b = src[1];
        HEDDLE_TRY(need_equal({"a", a, 1}, {"b", b, 1}));
        HEDDLE_TRY(check_batch(a, b));
        HEDDLE_TRY(check_rows("a", a));
        return TensorSpec::dense(GGML_TYPE_F32, {a.ne[0], b.ne[0], b.ne[2], b.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = flops(out, src[0].ne[1]), .bytes = bytes_touched(out)};
    }
};

}  // namespace heddle::ops
