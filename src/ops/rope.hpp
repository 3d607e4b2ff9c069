#pragma once

#include <cmath>
#include <numbers>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

/// What ROPE and its gradient share: everything but the direction of the rotation.
struct Rotation {
    static constexpr std::array sources{"x", "positions", "factors?"};

    struct Params {
        std::int32_t n_past = 0;  ///< unused, always 0
        std::int32_t n_dims = 0;  ///< elements of a row that are rotated
        std::int32_t mode = GGML_ROPE_TYPE_NORMAL;
        std::int32_t n_ctx = 0;  ///< unused, always 0
        std::int32_t n_ctx_orig = 0;
        float freq_base = 10000;
        float freq_scale = 1;
        float ext_factor = 0;
        float attn_factor = 1;
        float beta_fast = 0;
        float beta_slow = 0;
        std::array<std::int32_t, GGML_MROPE_SECTIONS>
            sections{};           ///< only of modes with four positions
        std::int32_t n_offs = 0;  ///< elements left of the rotated ones
    };
    static_assert(sizeof(Params) == GGML_MAX_OP_PARAMS);
    static constexpr auto f32 = ParamField::Kind::f32;
    static constexpr std::array fields{
        ParamField{"n_dims", 1},           ParamField{"mode", 2},
        ParamField{"n_ctx_orig", 4},       ParamField{"freq_base", 5, f32},
        ParamField{"freq_scale", 6, f32},  ParamField{"ext_factor", 7, f32},
        ParamField{"attn_factor", 8, f32}, ParamField{"beta_fast", 9, f32},
        ParamField{"beta_slow", 10, f32},  ParamField{"section0", 11},
        ParamField{"section1", 12},        ParamField{"section2", 13},
        ParamField{"section3", 14},        ParamField{"n_offs", 15}};
    static constexpr bool may_reuse_source = true;

    /// Whether tokens have four positions each (time, height, width, extra) instead of one.
    static bool has_four_positions(std::int32_t mode) { return (mode & GGML_ROPE_TYPE_MROPE) != 0; }

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        const Tensor& positions = src[1];
        if ((params.mode & 1) != 0) return invalid("mode ", params.mode, " is odd");
        if (params.n_dims < 0 || params.n_dims % 2 != 0) {
            return invalid("n_dims ", params.n_dims, " is not a number of pairs");
        }
        if (positions.type != GGML_TYPE_I32 || !is_vector(positions)) {
            return invalid("positions ", describe(positions), " are not a vector of I32");
        }
        const int each = has_four_positions(params.mode) ? 4 : 1;
        if (positions.ne[0] % each != 0 || positions.ne[0] / each != x.ne[2]) {
            return invalid("positions ", describe(positions), " are not ", each,
                           " for each of the ", x.ne[2], " tokens of ", describe(x));
        }
        if (src.has(2)) HEDDLE_TRY(check_factors(params, src[2]));
        return TensorSpec::like(x);
    }

    /// The angles depend on the token only, so each is computed once.
    static Cost cost(const Params& params, Sources src, const Tensor&) {
        const Tensor& x = src[0];
        const double pairs =
            params.mode == GGML_ROPE_TYPE_VISION ? params.n_dims : params.n_dims / 2;
        return {.flops = 6 * pairs * static_cast<double>(row_count(x)) +
                         2 * kTranscendental * pairs * static_cast<double>(x.ne[2]),
                .bytes = 2.0 * static_cast<double>(byte_size(x))};
    }

    /// Moves the rotated part of the rows of `node` to the right by `n_offs` elements.
    static Result<> set_offset(Tensor& node, std::int32_t n_offs) {
        if (node.op != GGML_OP_ROPE && node.op != GGML_OP_ROPE_BACK) {
            return invalid("rope offset: ", describe(node), " is neither a ROPE nor a ROPE_BACK");
        }
        if (n_offs < 0) return invalid("rope offset: ", n_offs, " is negative");
        auto params = unpack<Params>(node);
        if (params.mode == GGML_ROPE_TYPE_VISION) {
            return invalid("rope offset: ", describe(node),
                           " has mode VISION, which takes whole rows");
        }
        params.n_offs = n_offs;
        set_params(node, &params, sizeof params);
        return ok();
    }

private:
    static Result<> check_factors(const Params& params, const Tensor& factors) {
        if (factors.type != GGML_TYPE_F32)
            return invalid("factors ", describe(factors), " are not F32");
        if (factors.ne[0] < params.n_dims / 2) {
            return invalid("factors ", describe(factors), " are fewer than the ", params.n_dims / 2,
                           " pairs of ", params.n_dims, " elements");
        }
        return ok();
    }
};

struct Rope : Rotation {
    static constexpr Op id = GGML_OP_ROPE;
    static constexpr std::string_view name = "ROPE";
    static constexpr std::string_view symbol = "rope(x)";
    static constexpr std::string_view summary =
        "Rotates pairs of elements of each row by angles that depend on the token's position.";
    static constexpr bool can_run_in_place = true;

    /// Positions are whole numbers.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 1; }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct RopeBack : Rotation {
    static constexpr Op id = GGML_OP_ROPE_BACK;
    static constexpr std::string_view name = "ROPE_BACK";
    static constexpr std::string_view symbol = "rope_back(x)";
    static constexpr std::string_view summary = "ROPE turned the other way: gradient of ROPE.";
};

/// The pair indices between which YaRN goes over from extrapolated to interpolated angles: below
/// the first, a pair turns more than `beta_fast` times over the original context, above the second
/// fewer than `beta_slow` times.
inline std::array<float, 2> rope_yarn_corr_dims(std::int32_t n_dims, std::int32_t n_ctx_orig,
                                                float freq_base, float beta_fast, float beta_slow) {
    const auto dims = static_cast<float>(n_dims);
    const auto pair_that_turns = [&](float turns) {
        const float context = static_cast<float>(n_ctx_orig);
        return dims * std::log(context / (2 * std::numbers::pi_v<float> * turns)) /
               (2 * std::log(freq_base));
    };
    // fmin and fmax: an original context of 0 and betas of 0 must not let a NaN through.
    return {std::fmax(0.0f, std::floor(pair_that_turns(beta_fast))),
            std::fmin(dims - 1, std::ceil(pair_that_turns(beta_slow)))};
}

}  // namespace heddle::ops
