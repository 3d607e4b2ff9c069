#pragma once

#include <limits>

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

/// Fails where an index into a row of `x` would not fit the i32 it is stored in.
inline Result<> check_index_range(const Tensor& x) {
    constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
    if (x.ne[0] <= limit) return ok();
    return invalid("rows of x ", describe(x), " have more than ", limit, " elements");
}

/// Reads every element of x once.
struct Reduction {
    static constexpr std::array sources{"x"};
    using Params = NoParams;

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_per_element(src[0], 1, out);
    }

    /// One value per row.
    static TensorSpec per_row(Type type, const Tensor& x) {
        return TensorSpec::dense(type, {1, x.ne[1], x.ne[2], x.ne[3]});
    }
};

struct Sum : Reduction {
    static constexpr Op id = GGML_OP_SUM;
    static constexpr std::string_view name = "SUM";
    static constexpr std::string_view symbol = "Σx";
    static constexpr std::string_view summary = "The sum of all elements, in the type of x.";
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        return TensorSpec::dense(src[0].type, {1, 1, 1, 1});
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct SumRows : Reduction {
    static constexpr Op id = GGML_OP_SUM_ROWS;
    static constexpr std::string_view name = "SUM_ROWS";
    static constexpr std::string_view symbol = "Σx_k";
    static constexpr std::string_view summary = "The sum of each row, in the type of x.";
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        return per_row(src[0].type, src[0]);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct CumSum : Reduction {
    static constexpr Op id = GGML_OP_CUMSUM;
    static constexpr std::string_view name = "CUMSUM";
    static constexpr std::string_view symbol = "cumsum(x)";
    static constexpr std::string_view summary = "y[k] = x[0] + ... + x[k] along each row.";

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(need_type("x", src[0], GGML_TYPE_F32));
        return TensorSpec::like(src[0]);
    }
};

struct Mean : Reduction {
    static constexpr Op id = GGML_OP_MEAN;
    static constexpr std::string_view name = "MEAN";
    static constexpr std::string_view symbol = "Σx/n";
    static constexpr std::string_view summary = "The mean of each row, always f32.";
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        return per_row(GGML_TYPE_F32, src[0]);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Argmax : Reduction {
    static constexpr Op id = GGML_OP_ARGMAX;
    static constexpr std::string_view name = "ARGMAX";
    static constexpr std::string_view symbol = "argmax(x)";
    static constexpr std::string_view summary =
        "The index of the largest element of each row of a matrix, as i32.";

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(need_matrix("x", x));
        HEDDLE_TRY(check_index_range(x));
        return TensorSpec::dense(GGML_TYPE_I32, {x.ne[1], 1, 1, 1});
    }
};

struct CountEqual : Reduction {
    static constexpr Op id = GGML_OP_COUNT_EQUAL;
    static constexpr std::string_view name = "COUNT_EQUAL";
    static constexpr std::string_view symbol = "count_equal(x)";
    static constexpr std::string_view summary =
        "The number of positions where a and b have equal values, as i64.";
    static constexpr std::array sources{"a", "b"};
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(need_same_shape("b", src[1], "a", src[0]));
        return TensorSpec::dense(GGML_TYPE_I64, {1, 1, 1, 1});
    }
};

}  // namespace heddle::ops
