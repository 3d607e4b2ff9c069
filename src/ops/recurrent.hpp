#pragma once

#include "ggml/op_list.h"
#include "ops/snapshots.hpp"

/// Recurrences with a matrix as the state of each head. Results hold the outputs first, the states
/// behind them.
namespace heddle::ops {

/// What the recurrences over [S, heads, tokens] operands share. Tokens are grouped by sequence; the
/// number of sequences is that of the state's rows.
struct MatrixStateRule {
    /// `keys` is contiguous, as are all of `slots`, and those have its extents.
    template <class Names>
    static Result<> check_tokens(const Names& names, Sources src, std::size_t keys,
                                 std::initializer_list<std::size_t> slots) {
        HEDDLE_TRY(need_contiguous(names[keys], src[keys]));
        for (const std::size_t slot : slots) {
            HEDDLE_TRY(need_contiguous(names[slot], src[slot]));
            const Tensor& k = src[keys];
            HEDDLE_TRY(
                need_extents(names[slot], src[slot], {k.ne[0], k.ne[1], k.ne[2], src[slot].ne[3]}));
        }
        return ok();
    }

    /// f32 [S * heads, tokens + S * sequences]: outputs, then S * S * heads values per sequence.
    static Result<TensorSpec> result(const Tensor& k, const Tensor& state) {
        HEDDLE_TRY(need_contiguous("state", state));
        const std::int64_t size = k.ne[0], heads = k.ne[1], tokens = k.ne[2];
        const std::int64_t sequences = state.ne[1];
        const Count values = Count(size) * size * heads * sequences;
        if (!values.is(element_count(state))) {
            return invalid("state ", describe(state), " does not hold ", sequences, " times ",
                           heads, " matrices of ", size, " by ", size);
        }
        return dense_result(GGML_TYPE_F32,
                            {Count(size) * heads, Count(tokens) + Count(size) * sequences, 1, 1});
    }

    /// `each` operations for each element of each head's matrix, at each token.
    static Cost cost_of(const Tensor& k, const Tensor& out, double each) {
        return cost_per_element(k, each * static_cast<double>(k.ne[0]), out);
    }
};

struct RwkvWkv6 : MatrixStateRule {
    static constexpr Op id = GGML_OP_RWKV_WKV6;
    static constexpr std::string_view name = "RWKV_WKV6";
    static constexpr std::string_view symbol = "rwkv_wkv6(k, v, r, tf, td, s)";
    static constexpr std::string_view summary =
        "y = r (tf k v + M), then M = td M + k v, for each head and token.";
    static constexpr std::array sources{"k", "v", "r", "tf", "td", "state"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(check_tokens(sources, src, 0, {1, 2, 4}));
        HEDDLE_TRY(need_contiguous("tf", src[3]));
        return result(src[0], src[5]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_of(src[0], out, 7);
    }
};

struct RwkvWkv7 : MatrixStateRule {
    static constexpr Op id = GGML_OP_RWKV_WKV7;
    static constexpr std::string_view name = "RWKV_WKV7";
    static constexpr std::string_view symbol = "rwkv_wkv7(r, w, k, v, a, b, s)";
    static constexpr std::string_view summary =
        "M = w M + v k + (M a) b, then y = M r, for each head and token.";
    static constexpr std::array sources{"r", "w", "k", "v", "a", "b", "state"};
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(need_contiguous("r", src[0]));
        HEDDLE_TRY(check_tokens(sources, src, 2, {1, 3, 4, 5}));
        return result(src[2], src[6]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_of(src[2], out, 9);
    }
};

struct GatedLinearAttn : MatrixStateRule {
    static constexpr Op id = GGML_OP_GATED_LINEAR_ATTN;
    static constexpr std::string_view name = "GATED_LINEAR_ATTN";
    static constexpr std::string_view symbol = "gated_linear_attn(k, v, q, gate, s)";
    static constexpr std::string_view summary =
        "M = g M + k v, then y = scale q M, for each head and token.";
    static constexpr std::array sources{"k", "v", "q", "g", "state"};
    struct Params {
        float scale;
    };
    static constexpr std::array fields{ParamField{"scale", 0, ParamField::Kind::f32}};

    static Result<TensorSpec> infer(const Params&, Sources src) {
        HEDDLE_TRY(check_tokens(sources, src, 0, {1, 2, 3}));
        return result(src[0], src[4]);
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_of(src[0], out, 5);
    }
};

struct GatedDeltaNet : SnapshotRule {
    static constexpr Op id = GGML_OP_GATED_DELTA_NET;
    static constexpr std::string_view name = "GATED_DELTA_NET";
    static constexpr std::string_view symbol = "gated_delta_net(q, k, v, g, beta, s)";
    static constexpr std::string_view summary =
        "M = exp(g) M, then M += beta (v - M k) k and y = M q / sqrt(S), for each head and token; "
        "the last K states follow the outputs.";
    static constexpr std::array sources{"q", "k", "v", "g", "beta", "state"};
    static constexpr unsigned may_be_empty = 0b011111;  ///< without tokens the state is copied

    /// f32 [S * heads, tokens * sequences + K * S * sequences].
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        HEDDLE_TRY(check_snapshots(args));
        for (const std::size_t slot : {0, 1, 2}) {
            HEDDLE_TRY(need_type(sources[slot], src[slot], GGML_TYPE_F32));
            HEDDLE_TRY(need_dense_rows(sources[slot], src[slot]));
        }
        for (const std::size_t slot : {3, 4, 5}) {
            HEDDLE_TRY(need_type(sources[slot], src[slot], GGML_TYPE_F32));
            HEDDLE_TRY(need_contiguous(sources[slot], src[slot]));
        }
        const Tensor &v = src[2], &gate = src[3];
        const auto [size, heads, tokens, sequences] = extents_of(v);
        HEDDLE_TRY(need_queries("q", src[0], v));
        HEDDLE_TRY(need_queries("k", src[1], v));
        const std::int64_t gates = gate.ne[0] == 1 ? 1 : size;
        HEDDLE_TRY(need_extents("g", gate, {gates, heads, tokens, sequences}));
        HEDDLE_TRY(need_extents("beta", src[4], {1, heads, tokens, sequences}));
        HEDDLE_TRY(need_extents("state", src[5], {size, size, heads, sequences}));
        return dense_result(
            GGML_TYPE_F32,
            {Count(size) * heads,
             Count(tokens) * sequences + Count(args.snapshots) * size * sequences, 1, 1});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& v = src[2];
        return cost_per_element(v, 7 * static_cast<double>(v.ne[0]), out);
    }

private:
    /// Queries and keys go with the values: as long, as many tokens, heads and sequences that
    /// repeat a whole number of times. Anything else would be read past its end.
    static Result<> need_queries(std::string_view role, const Tensor& x, const Tensor& v) {
        const auto repeats = [](std::int64_t few, std::int64_t many) {
            return few == many || (few > 0 && many % few == 0);
        };
        if (x.ne[0] == v.ne[0] && x.ne[2] == v.ne[2] && repeats(x.ne[1], v.ne[1]) &&
            repeats(x.ne[3], v.ne[3])) {
            return ok();
        }
        return invalid(role, " ", describe(x), " does not go with v ", describe(v));
    }
};

}  // namespace heddle::ops
