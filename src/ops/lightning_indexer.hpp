#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

namespace heddle::ops {

struct LightningIndexer {
    static constexpr Op id = GGML_OP_LIGHTNING_INDEXER;
    static constexpr std::string_view name = "LIGHTNING_INDEXER";
    static constexpr std::string_view symbol = "lightning_indexer(q, k, weights, mask)";
    static constexpr std::string_view summary =
        "Which keys are worth attending to: y[j,t] = mask[j,t] + sum over heads h of weights[h,t] "
        "* "
        "max(0, q[:,h,t] . k[:,j]).";
    static constexpr std::array sources{"q", "k", "weights", "mask"};
    using Params = NoParams;

    /// f32 [keys, tokens, 1, ne3] from q [D,heads,tokens,ne3], k [D,1,keys,ne3],
    /// weights [heads,tokens,1,ne3] and a mask [keys,tokens,1,*] that repeats along dimension 3.
    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &q = src[0], &k = src[1], &weights = src[2], &mask = src[3];
        HEDDLE_TRY(need_type("q", q, GGML_TYPE_F32));
        HEDDLE_TRY(need_type("weights", weights, GGML_TYPE_F32));
        HEDDLE_TRY(need_type("mask", mask, GGML_TYPE_F16));
        const std::int64_t keys = k.ne[2], heads = q.ne[1], tokens = q.ne[2];
        HEDDLE_TRY(need_extents("k", k, {q.ne[0], 1, keys, q.ne[3]}));
        HEDDLE_TRY(need_extents("weights", weights, {heads, tokens, 1, q.ne[3]}));
        HEDDLE_TRY(need_extents("mask", mask, {keys, tokens, 1, mask.ne[3]}));
        if (mask.ne[3] != q.ne[3] && (mask.ne[3] == 0 || q.ne[3] % mask.ne[3] != 0)) {
            return invalid("mask ", describe(mask), " does not repeat to extent ", q.ne[3],
                           " in dimension 3");
        }
        return TensorSpec::dense(GGML_TYPE_F32, {keys, tokens, 1, q.ne[3]});
    }

    /// A dot product, a multiplication and an addition for each head; the mask once.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& q = src[0];
        const double length = static_cast<double>(q.ne[0]), heads = static_cast<double>(q.ne[1]);
        return cost_per_element(out, (2 * length + 2) * heads + 1, out);
    }
};

}  // namespace heddle::ops
