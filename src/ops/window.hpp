#pragma once

#include "ggml/op_list.h"
#include "ops/count.hpp"
#include "ops/rules.hpp"

/// Attention over square windows of an image, with positions relative to each other.
namespace heddle::ops {

struct WinPart {
    static constexpr Op id = GGML_OP_WIN_PART;
    static constexpr std::string_view name = "WIN_PART";
    static constexpr std::string_view symbol = "win_part(x)";
    static constexpr std::string_view summary =
        "Cuts an image [C,W,H] into square windows, the last ones filled up with zeros.";
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t across, down;  ///< numbers of windows
        std::int32_t width;         ///< of a window, and its height
    };
    static constexpr std::array fields{ParamField{"npx", 0}, ParamField{"npy", 1},
                                       ParamField{"w", 2}};

    /// The parameters for windows of `width` over `x`. What cannot be is left for `infer` to
    /// refuse.
    static Params params(const Tensor* x, std::int32_t width) {
        if (x == nullptr || width < 1) return {0, 0, width};
        return {static_cast<std::int32_t>(count(x->ne[1], width)),
                static_cast<std::int32_t>(count(x->ne[2], width)), width};
    }

    /// f32 [C, width, width, windows].
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(need_extent("x", x, 3, 1));
        HEDDLE_TRY(need_type("x", x, GGML_TYPE_F32));
        HEDDLE_TRY(need_at_least("window width", params.width, 1));
        const std::int64_t across = count(x.ne[1], params.width);
        const std::int64_t down = count(x.ne[2], params.width);
        if (across != params.across || down != params.down) {
            return invalid(params.across, " by ", params.down, " windows of width ", params.width,
                           " for x ", describe(x), ", which has ", across, " by ", down);
        }
        return dense_result(GGML_TYPE_F32,
                            {x.ne[0], params.width, params.width, Count(across) * down});
    }

private:
    /// Windows that cover `extent`, the last one perhaps in part.
    static std::int64_t count(std::int64_t extent, std::int64_t width) {
        return extent / width + (extent % width != 0 ? 1 : 0);
    }
};

struct WinUnpart {
    static constexpr Op id = GGML_OP_WIN_UNPART;
    static constexpr std::string_view name = "WIN_UNPART";
    static constexpr std::string_view symbol = "win_unpart(x)";
    static constexpr std::string_view summary =
        "Puts windows together to an image [C,W,H] again; what was filled up is dropped.";
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t width;  ///< of a window
    };
    struct Args {
        Params params;
        std::int64_t image_width, image_height;
    };
    static constexpr std::array fields{ParamField{"w", 0}};

    static Args recover(const Tensor& node) {
        return {unpack<Params>(node), node.ne[1], node.ne[2]};
    }

    /// f32 [C, image_width, image_height].
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(need_type("x", x, GGML_TYPE_F32));
        HEDDLE_TRY(need_at_least("window width", args.params.width, 1));
        return TensorSpec::dense(GGML_TYPE_F32, {x.ne[0], args.image_width, args.image_height, 1});
    }
};

struct GetRelPos {
    static constexpr Op id = GGML_OP_GET_REL_POS;
    static constexpr std::string_view name = "GET_REL_POS";
    static constexpr std::string_view symbol = "get_rel_pos(x)";
    static constexpr std::string_view summary =
        "y[:,k,q] = x[:,n-1-k+q]: the embedding of the distance between a query and a key.";
    static constexpr std::array sources{"x"};
    using Params = NoParams;
    struct Args {
        Params params;
        std::int64_t queries, keys;
    };

    static Args recover(const Tensor& node) { return {{}, node.ne[2], node.ne[1]}; }

    /// f16 [C, keys, queries] from x [C, 2 * queries - 1].
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        if (args.queries != args.keys) {
            return invalid(args.queries, " queries and ", args.keys, " keys are not as many");
        }
        if (const Count distances = Count(2) * args.queries - 1; !distances.is(x.ne[1])) {
            return invalid("x ", describe(x), " does not have the 2 * ", args.queries,
                           " - 1 distances in dimension 1");
        }
        return TensorSpec::dense(GGML_TYPE_F16, {x.ne[0], args.keys, args.queries, 1});
    }
};

struct AddRelPos {
    static constexpr Op id = GGML_OP_ADD_REL_POS;
    static constexpr std::string_view name = "ADD_REL_POS";
    static constexpr std::string_view symbol = "add_rel_pos(x)";
    static constexpr std::string_view summary =
        "y[kh*n+kw,q] = x[kh*n+kw,q] + pw[kw,q] + ph[kh,q]: relative positions added to scores.";
    static constexpr std::array sources{"x", "pw", "ph"};
    struct Params {
        std::int32_t in_place;  ///< 1 if the result is a view of x
    };
    static constexpr std::array fields{ParamField{"inplace", 0}};
    static constexpr bool can_run_in_place = true;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor &x = src[0], &pw = src[1], &ph = src[2];
        HEDDLE_TRY(need_same_shape("ph", ph, "pw", pw));
        HEDDLE_TRY(need_contiguous("x", x));
        HEDDLE_TRY(need_contiguous("pw", pw));
        HEDDLE_TRY(need_contiguous("ph", ph));
        HEDDLE_TRY(need_type("pw", pw, GGML_TYPE_F32));
        HEDDLE_TRY(need_type("ph", ph, GGML_TYPE_F32));
        HEDDLE_TRY(need_extent("pw", pw, 3, x.ne[2]));
        if (!(Count(pw.ne[0]) * pw.ne[0]).is(x.ne[0]) ||
            !(Count(pw.ne[1]) * pw.ne[2]).is(x.ne[1])) {
            return invalid("pw ", describe(pw), " does not belong to the keys and queries of x ",
                           describe(x));
        }
        return TensorSpec::like(x);
    }

    static Cost cost(const Params&, Sources, const Tensor& out) {
        return cost_per_element(out, 2, out);
    }
};

}  // namespace heddle::ops
