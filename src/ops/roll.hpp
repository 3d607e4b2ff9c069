#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

struct Roll {
    static constexpr Op id = GGML_OP_ROLL;
    static constexpr std::string_view name = "ROLL";
    static constexpr std::string_view symbol = "roll(x)";
    static constexpr std::string_view summary =
        "y[i] = x[(i - shift) mod n] along each of the four dimensions.";
    static constexpr std::array sources{"x"};

    struct Params {
        std::array<std::int32_t, 4> shift;
    };
    static constexpr std::array fields{ParamField{"shift0", 0}, ParamField{"shift1", 1},
                                       ParamField{"shift2", 2}, ParamField{"shift3", 3}};

    /// Rows of x must be dense, and |shift| below the extent in every dimension.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        if (x.nb[0] != size_of(x.type)) return invalid("rows of ", describe(x), " are not dense");
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            const std::int64_t shift = params.shift[d];
            if (-x.ne[d] < shift && shift < x.ne[d]) continue;
            return invalid("shift ", shift, " in dimension ", d, " of extent ", x.ne[d]);
        }
        return TensorSpec::like(x);
    }
};

}  // namespace heddle::ops
