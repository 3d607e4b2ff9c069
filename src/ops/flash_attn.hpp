#pragma once

#include "ggml/op_list.h"
#include "ggml/ops_reduce.h"
#include "ops/attention.hpp"

namespace heddle::ops {

struct FlashAttnExt {
    static constexpr Op id = GGML_OP_FLASH_ATTN_EXT;
    static constexpr std::string_view name = "FLASH_ATTN_EXT";
    static constexpr std::string_view symbol = "flash_attn_ext(x)";
    static constexpr std::string_view summary =
        "Attention in one step: softmax(scale * q.k + slope * mask) weighs the rows of v.";
    static constexpr std::array sources{"q", "k", "v", "mask?", "sinks?"};
    static constexpr unsigned may_be_empty = 0b01110;  ///< without keys the result is zero

    struct Params {
        float scale = 1;
        float max_bias = 0;       ///< above 0: the mask of head h is multiplied by its ALiBi slope
        float logit_softcap = 0;  ///< 0: none
        std::int32_t precision = GGML_PREC_DEFAULT;
    };
    static constexpr auto f32 = ParamField::Kind::f32;
    static constexpr std::array fields{ParamField{"scale", 0, f32}, ParamField{"max_bias", 1, f32},
                                       ParamField{"logit_softcap", 2, f32},
                                       ParamField{"precision", 3}};

    /// Heads come before tokens in the result, so that joining them is a reshape.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& q = src[0];
        const Tensor& k = src[1];
        const Tensor& v = src[2];
        if (k.ne[0] != q.ne[0]) {
            return invalid("k ", describe(k), " and q ", describe(q), " differ in head size");
        }
        if (!divides(k.ne[2], q.ne[2])) {
            return invalid("the heads of k ", describe(k), " do not divide those of q ",
                           describe(q));
        }
        if (q.ne[3] != k.ne[3] || q.ne[3] != v.ne[3]) {
            return invalid("q ", describe(q), ", k ", describe(k), " and v ", describe(v),
                           " differ in dimension 3");
        }
        if (src.has(3) && src[3].type != GGML_TYPE_F16) {
            return invalid("mask ", describe(src[3]), " is not F16");
        }
        if (src.has(3) && (src[3].ne[0] < k.ne[1] || src[3].ne[1] < q.ne[1])) {
            return invalid("mask ", describe(src[3]), " does not cover the ", k.ne[1], " keys and ",
                           q.ne[1], " queries of k ", describe(k), " and q ", describe(q));
        }
        HEDDLE_TRY(check_attention_mask(q, src.has(3) ? &src[3] : nullptr, params.max_bias));
        if (src.has(4)) HEDDLE_TRY(check_sinks(q, src[4]));
        return TensorSpec::dense(GGML_TYPE_F32, {v.ne[0], q.ne[2], q.ne[1], q.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& y) {
        const Tensor& q = src[0];
        const double queries = static_cast<double>(row_count(q));
        const double widths = static_cast<double>(q.ne[0]) + static_cast<double>(src[2].ne[0]);
        return {.flops = 2 * queries * widths * static_cast<double>(src[1].ne[1]),
                .bytes = bytes_touched(y)};
    }

    /// Asks for `precision` in a finished node.
    static Result<> set_precision(Tensor& node, std::int32_t precision) {
        if (node.op != id) return invalid("precision: ", describe(node), " is not a ", name);
        if (precision != GGML_PREC_DEFAULT && precision != GGML_PREC_F32) {
            return invalid("precision: ", precision, " is neither ",
                           static_cast<int>(GGML_PREC_DEFAULT), " (default) nor ",
                           static_cast<int>(GGML_PREC_F32), " (F32)");
        }
        auto params = unpack<Params>(node);
        params.precision = precision;
        set_params(node, &params, sizeof params);
        return ok();
    }

    static Result<std::int32_t> precision_of(const Tensor& node) {
        if (node.op != id) return invalid("precision: ", describe(node), " is not a ", name);
        return unpack<Params>(node).precision;
    }
};

/// A number that is kept but cannot be built: no rule for this gradient exists.
struct FlashAttnBack {
    static constexpr Op id = GGML_OP_FLASH_ATTN_BACK;
    static constexpr std::string_view name = "FLASH_ATTN_BACK";
    static constexpr std::string_view symbol = "flash_attn_back(x)";
    static constexpr std::string_view summary = "Reserved; cannot be built.";
    static constexpr std::array sources{"q", "k", "v", "dy"};
    struct Params {
        std::int32_t masked;
    };
    static constexpr std::array fields{ParamField{"masked", 0}};

    static Result<TensorSpec> infer(const Params&, Sources) {
        return failure(Errc::unsupported,
                       "attention in one step has no gradient; build it from matrix products and "
                       "SOFT_MAX where one is needed");
    }
};

}  // namespace heddle::ops
