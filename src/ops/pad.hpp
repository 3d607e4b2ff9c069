#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

/// Negative amounts cut off instead.
struct Pad {
    static constexpr Op id = GGML_OP_PAD;
    static constexpr std::string_view name = "PAD";
    static constexpr std::string_view symbol = "pad(x)";
    static constexpr std::string_view summary =
        "x with zeros, or with its own periodic continuation, around it.";
    static constexpr std::array sources{"x"};

    struct Amount {
        std::int32_t before, after;
    };
    struct Params {
        std::array<Amount, kMaxDims> amount;
        std::int32_t circular;
    };
    static constexpr std::array fields{
        ParamField{"before0", 0}, ParamField{"after0", 1},  ParamField{"before1", 2},
        ParamField{"after1", 3},  ParamField{"before2", 4}, ParamField{"after2", 5},
        ParamField{"before3", 6}, ParamField{"after3", 7},  ParamField{"circular", 8}};
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        Extents extent = extents_of(x);
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            const auto [before, after] = params.amount[d];
            const std::int64_t added = std::int64_t{before} + after;
            if (__builtin_add_overflow(extent[d], added, &extent[d])) {
                return invalid(describe(x), " with ", added, " more in dimension ", d,
                               " is too large to address");
            }
        }
        return TensorSpec::dense(x.type, extent);
    }
};

struct PadReflect1d {
    static constexpr Op id = GGML_OP_PAD_REFLECT_1D;
    static constexpr std::string_view name = "PAD_REFLECT_1D";
    static constexpr std::string_view symbol = "pad_reflect_1d(x)";
    static constexpr std::string_view summary =
        "The rows of x continued by their mirror images; the end elements are not repeated.";
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t before, after;
    };
    static constexpr std::array fields{ParamField{"before", 0}, ParamField{"after", 1}};

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        for (const std::int32_t amount : {params.before, params.after}) {
            if (amount < 0 || amount >= x.ne[0]) {
                return invalid("padding ", amount, " is not one of 0 to ", x.ne[0] - 1, " for ",
                               describe(x));
            }
        }
        if (!is_contiguous(x)) return invalid(describe(x), " is not contiguous");
        if (x.type != GGML_TYPE_F32) return invalid(describe(x), " is not F32");
        Extents extent = extents_of(x);
        extent[0] += std::int64_t{params.before} + params.after;
        return TensorSpec::dense(x.type, extent);
    }
};

}  // namespace heddle::ops
