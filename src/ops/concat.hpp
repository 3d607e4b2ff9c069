#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

struct Concat {
    static constexpr Op id = GGML_OP_CONCAT;
    static constexpr std::string_view name = "CONCAT";
    static constexpr std::string_view symbol = "concat(x, y)";
    static constexpr std::string_view summary = "y behind x along one dimension.";
    static constexpr std::array sources{"x", "y"};
    struct Params {
        std::int32_t dim;
    };
    static constexpr std::array fields{ParamField{"dim", 0}};
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        const Tensor& y = src[1];
        if (params.dim < 0 || params.dim >= kMaxDims) {
            return invalid("dimension ", params.dim, " is not one of 0 to ", kMaxDims - 1);
        }
        if (x.type != y.type) return invalid(describe(x), " and ", describe(y), " differ in type");
        Extents extent = extents_of(x);
        for (int d = 0; d < kMaxDims; ++d) {
            if (d != params.dim && x.ne[d] != y.ne[d]) {
                return invalid(describe(x), " and ", describe(y), " differ in dimension ", d);
            }
        }
        std::int64_t& joined = extent[static_cast<std::size_t>(params.dim)];
        if (__builtin_add_overflow(joined, y.ne[params.dim], &joined)) {
            return invalid(describe(x), " and ", describe(y), " are too large together");
        }
        return TensorSpec::dense(x.type, extent);
    }
};

}  // namespace heddle::ops
