#pragma once

#include <algorithm>
#include <cmath>

#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/reduce.hpp"
#include "ops/rules.hpp"

namespace heddle::ops {

struct Argsort {
    static constexpr Op id = GGML_OP_ARGSORT;
    static constexpr std::string_view name = "ARGSORT";
    static constexpr std::string_view symbol = "argsort(x)";
    static constexpr std::string_view summary =
        "The indices, as i32, that sort each row: rising with order 0, falling with order 1.";
    static constexpr std::array sources{"x"};

    struct Params {
        std::int32_t order = GGML_SORT_ORDER_ASC;
    };
    static constexpr std::array fields{ParamField{"order", 0}};

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(check_index_range(src[0]));
        return TensorSpec::dense(GGML_TYPE_I32, extents_of(src[0]));
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double length = static_cast<double>(std::max<std::int64_t>(src[0].ne[0], 1));
        return cost_per_element(src[0], std::log2(length), out);
    }
};

struct TopK {
    static constexpr Op id = GGML_OP_TOP_K;
    static constexpr std::string_view name = "TOP_K";
    static constexpr std::string_view symbol = "top_k(x)";
    static constexpr std::string_view summary =
        "The indices, as i32, of the k largest elements of each row, in any order.";
    static constexpr std::array sources{"x"};
    using Params = NoParams;

    struct Args {
        Params params{};
        std::int64_t k = 0;
    };

    static Args recover(const Tensor& node) { return {.k = node.ne[0]}; }

    static Result<> check_k(std::int64_t k, const Tensor& x) {
        if (0 <= k && k <= x.ne[0]) return ok();
        return invalid("k ", k, " is not in 0 .. ", x.ne[0], ", the length of rows of x ",
                       describe(x));
    }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(check_k(args.k, x));
        return TensorSpec::dense(GGML_TYPE_I32, {args.k, x.ne[1], x.ne[2], x.ne[3]});
    }

    /// Each element is looked at once, then k are kept in order.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double k = static_cast<double>(std::max<std::int64_t>(out.ne[0], 1));
        return {.flops = count_of(src[0]) + count_of(out) * std::log2(k),
                .bytes = bytes_touched(out)};
    }
};

}  // namespace heddle::ops
