#pragma once

#include "ggml/op_list.h"
#include "ops/snapshots.hpp"

/// State-space models (Mamba).
namespace heddle::ops {

struct SsmConv {
    static constexpr Op id = GGML_OP_SSM_CONV;
    static constexpr std::string_view name = "SSM_CONV";
    static constexpr std::string_view symbol = "ssm_conv(x)";
    static constexpr std::string_view summary =
        "y[i,t,s] = sum over k of x[t+k,i,s] * kernel[k,i]: a causal convolution of each channel.";
    static constexpr std::array sources{"x", "kernel"};
    using Params = NoParams;

    /// f32 [channels, tokens, sequences] from x [taps - 1 + tokens, channels, sequences].
    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &x = src[0], &kernel = src[1];
        HEDDLE_TRY(need_extent("x", x, 3, 1));
        HEDDLE_TRY(need_matrix("kernel", kernel));
        HEDDLE_TRY(need_equal({"kernel", kernel, 1}, {"x", x, 1}));
        const std::int64_t tokens = x.ne[0] - kernel.ne[0] + 1;
        if (tokens < 0) {
            return invalid("x ", describe(x), " is shorter than kernel ", describe(kernel));
        }
        return TensorSpec::dense(GGML_TYPE_F32, {x.ne[1], tokens, x.ne[2], 1});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const double taps = static_cast<double>(src[1].ne[0]);
        return cost_per_element(out, 2 * taps, out);
    }
};

struct SsmScan : SnapshotRule {
    static constexpr Op id = GGML_OP_SSM_SCAN;
    static constexpr std::string_view name = "SSM_SCAN";
    static constexpr std::string_view symbol = "ssm_scan(x)";
    static constexpr std::string_view summary =
        "Selective scan: the outputs [head_dim,heads,tokens,sequences], then K snapshots of the "
        "states [d_state,head_dim,heads,sequences], in one vector.";
    static constexpr std::array sources{"s", "x", "dt", "A", "B", "C", "ids"};

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor &s = src[0], &x = src[1];
        HEDDLE_TRY(check_snapshots(args));
        HEDDLE_TRY(check_state(s, x));
        HEDDLE_TRY(check_inputs(s.ne[0], src));
        HEDDLE_TRY(check_decay(args, s.ne[0], x.ne[1], src[3]));
        const Count outputs = Count(x.ne[0]) * x.ne[1] * x.ne[2] * x.ne[3];
        const Count state = Count(s.ne[0]) * x.ne[0] * x.ne[1] * x.ne[3];
        return dense_result(GGML_TYPE_F32, {outputs + state * args.snapshots, 1, 1, 1});
    }

    /// Five operations for each element of the state at each token; where every element has a decay
    /// of its own, an exponential more.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor &s = src[0], &x = src[1], &decay = src[3];
        const double each = 5 + (decay.ne[0] == 1 ? 0 : kTranscendental);
        return cost_per_element(x, each * static_cast<double>(s.ne[0]), out);
    }

private:
    /// Dimensions 0 and 1 follow each other; the pitch of tokens and sequences is free, for
    /// operands that are pieces of one projection.
    static Result<> need_packed_heads(std::string_view role, const Tensor& x) {
        const std::size_t element = size_of(x.type);
        if (x.nb[0] == element && x.nb[1] == element * static_cast<std::size_t>(x.ne[0]))
            return ok();
        return invalid(role, " ", describe(x), " is not packed in dimensions 0 and 1");
    }

    static Result<> check_state(const Tensor& s, const Tensor& x) {
        HEDDLE_TRY(need_contiguous("s", s));
        HEDDLE_TRY(need_extent("s", s, 1, x.ne[0]));
        return need_extent("s", s, 2, x.ne[1]);
    }

    static Result<> check_inputs(std::int64_t state, Sources src) {
        const Tensor &x = src[1], &dt = src[2], &b = src[4], &c = src[5], &ids = src[6];
        HEDDLE_TRY(need_packed_heads("x", x));
        HEDDLE_TRY(need_contiguous("dt", dt));
        HEDDLE_TRY(need_extents("dt", dt, {x.ne[1], x.ne[2], x.ne[3], 1}));
        HEDDLE_TRY(need_extents("B", b, {state, b.ne[1], x.ne[2], x.ne[3]}));
        HEDDLE_TRY(need_same_shape("C", c, "B", b));
        HEDDLE_TRY(need_packed_heads("B", b));
        HEDDLE_TRY(need_packed_heads("C", c));
        HEDDLE_TRY(need_type("ids", ids, GGML_TYPE_I32));
        return need_extents("ids", ids, {x.ne[3], 1, 1, 1});
    }

    /// One decay for each head, or one for each element of its state; the latter keep one snapshot.
    static Result<> check_decay(const Args& args, std::int64_t state, std::int64_t heads,
                                const Tensor& a) {
        HEDDLE_TRY(need_contiguous("A", a));
        HEDDLE_TRY(need_extents("A", a, {a.ne[0] == 1 ? 1 : state, heads, 1, 1}));
        if (a.ne[0] != 1 && args.snapshots != 1) {
            return invalid(args.snapshots, " snapshots of a scan whose A ", describe(a),
                           " has a decay for each element of the state; it keeps 1");
        }
        return ok();
    }
};

}  // namespace heddle::ops
