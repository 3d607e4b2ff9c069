#pragma once

#include "ggml/op_list.h"
#include "ops/rules.hpp"

/// Hyper-connections: a few parallel residual streams, mixed before and after each layer.
namespace heddle::ops {

struct Dsv4HcComb {
    static constexpr Op id = GGML_OP_DSV4_HC_COMB;
    static constexpr std::string_view name = "DSV4_HC_COMB";
    static constexpr std::string_view symbol = "dsv4_hc_comb(mixes, scale, base)";
    static constexpr std::string_view summary =
        "For each token a matrix of weights between streams, its rows and columns normalised in "
        "turn.";
    static constexpr std::array sources{"mixes", "scale", "base"};
    struct Params {
        float eps;
        std::int32_t iterations;
    };
    static constexpr std::array fields{ParamField{"eps", 0, ParamField::Kind::f32},
                                       ParamField{"n_iter", 1}};

    static constexpr std::int64_t kStreams = 4;
    /// Two weights for each stream stand in front of the matrix.
    static constexpr std::int64_t kMixes = (2 + kStreams) * kStreams;
    /// Models have 20. The normalisation has long converged.
    static constexpr std::int32_t kMostIterations = 1024;

    /// f32 [4 streams to, 4 streams from, tokens].
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &mixes = src[0], &scale = src[1], &base = src[2];
        for (const std::size_t slot : {0, 1, 2}) {
            HEDDLE_TRY(need_type(sources[slot], src[slot], GGML_TYPE_F32));
        }
        HEDDLE_TRY(need_matrix("mixes", mixes));
        HEDDLE_TRY(need_extent("mixes", mixes, 0, kMixes));
        HEDDLE_TRY(need_vector("scale", scale));
        if (scale.ne[0] < 3)
            return invalid("scale ", describe(scale), " has fewer than 3 elements");
        HEDDLE_TRY(need_extents("base", base, {kMixes, 1, 1, 1}));
        HEDDLE_TRY(need_at_least("iteration count", params.iterations, 1));
        if (params.iterations > kMostIterations) {
            return invalid("iteration count ", params.iterations, " is above ", kMostIterations);
        }
        return TensorSpec::dense(GGML_TYPE_F32, {kStreams, kStreams, mixes.ne[1], 1});
    }

    /// A soft maximum, then an addition and a multiplication per element for each normalisation.
    static Cost cost(const Params& params, Sources, const Tensor& out) {
        const double each = kTranscendental + 7 + 4.0 * params.iterations;
        return cost_per_element(out, each, out);
    }
};

struct Dsv4HcPre {
    static constexpr Op id = GGML_OP_DSV4_HC_PRE;
    static constexpr std::string_view name = "DSV4_HC_PRE";
    static constexpr std::string_view symbol = "dsv4_hc_pre(x, weights)";
    static constexpr std::string_view summary =
        "y[i,t] = sum over streams h of x[i,h,t] * weights[h,t].";
    static constexpr std::array sources{"x", "weights"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &x = src[0], &weights = src[1];
        HEDDLE_TRY(need_type("x", x, GGML_TYPE_F32));
        HEDDLE_TRY(need_type("weights", weights, GGML_TYPE_F32));
        HEDDLE_TRY(need_extent("x", x, 3, 1));
        if (x.ne[1] < 1) return invalid("x ", describe(x), " has no streams in dimension 1");
        HEDDLE_TRY(need_extents("weights", weights, {x.ne[1], x.ne[2], 1, 1}));
        return TensorSpec::dense(GGML_TYPE_F32, {x.ne[0], x.ne[2], 1, 1});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_per_element(src[0], 2, out);
    }
};

struct Dsv4HcPost {
    static constexpr Op id = GGML_OP_DSV4_HC_POST;
    static constexpr std::string_view name = "DSV4_HC_POST";
    static constexpr std::string_view symbol = "dsv4_hc_post(x, residual, post, comb)";
    static constexpr std::string_view summary =
        "y[i,d,t] = x[i,t] * post[d,t] + sum over streams s of residual[i,s,t] * comb[d,s,t].";
    static constexpr std::array sources{"x", "residual", "post", "comb"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &x = src[0], &residual = src[1];
        for (std::size_t slot = 0; slot < sources.size(); ++slot) {
            HEDDLE_TRY(need_type(sources[slot], src[slot], GGML_TYPE_F32));
        }
        HEDDLE_TRY(need_matrix("x", x));
        const std::int64_t streams = residual.ne[1], tokens = x.ne[1];
        HEDDLE_TRY(need_extents("residual", residual, {x.ne[0], streams, tokens, 1}));
        HEDDLE_TRY(need_extents("post", src[2], {streams, tokens, 1, 1}));
        HEDDLE_TRY(need_extents("comb", src[3], {streams, streams, tokens, 1}));
        return TensorSpec::like(residual);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double streams = static_cast<double>(src[1].ne[1]);
        return cost_per_element(out, 2 * streams + 1, out);
    }
};

}  // namespace heddle::ops
