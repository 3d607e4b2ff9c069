#pragma once

#include <algorithm>
#include <cmath>

#include "ggml/op_list.h"
#include "ggml/ops_nn.h"
#include "ops/count.hpp"
#include "ops/rules.hpp"

/// Maximum or mean over windows of an image.
namespace heddle::ops {

/// Windows of `taps` elements, `stride` apart, over `extent` elements with `padding` around them.
///
/// The size is defined in single precision, so that a fraction of padding can decide on one more
/// window. Fails where there is none.
inline Result<std::int64_t> count_windows(std::int64_t extent, std::int32_t taps,
                                          std::int32_t stride, float padding) {
    HEDDLE_TRY(need_at_least("stride", stride, 1));
    const float count = (static_cast<float>(extent) + 2 * padding - static_cast<float>(taps)) /
                            static_cast<float>(stride) +
                        1;
    constexpr float limit = 0x1p62F;  // far above what a tensor can have, and safe to convert
    if (!(count >= 1)) {
        return invalid("no window of ", taps, " fits into ", extent, " elements with padding ",
                       padding);
    }
    if (count > limit) return invalid("padding ", padding, " makes too many windows");
    return static_cast<std::int64_t>(count);
}

struct Pool1d {
    static constexpr Op id = GGML_OP_POOL_1D;
    static constexpr std::string_view name = "POOL_1D";
    static constexpr std::string_view symbol = "pool_1d(x)";
    static constexpr std::string_view summary =
        "Maximum, or mean of the elements inside, of windows along dimension 0.";
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t op;  ///< ggml_op_pool
        std::int32_t taps, stride, padding;
    };
    static constexpr std::array fields{ParamField{"op", 0}, ParamField{"k0", 1},
                                       ParamField{"s0", 2}, ParamField{"p0", 3}};

    /// f32 [windows, ...].
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY_ASSIGN(
            const std::int64_t windows,
            count_windows(x.ne[0], params.taps, params.stride, static_cast<float>(params.padding)));
        return TensorSpec::dense(GGML_TYPE_F32, {windows, x.ne[1], x.ne[2], x.ne[3]});
    }

    static Cost cost(const Params& params, Sources, const Tensor& out) {
        return cost_per_element(out, static_cast<double>(params.taps), out);
    }
};

/// What POOL_2D and its gradient share.
struct Pool2dRule {
    struct Params {
        std::int32_t op;  ///< ggml_op_pool
        std::array<std::int32_t, 2> taps, stride;
        std::array<std::int32_t, 2> padding;  ///< without its fraction
    };
    struct Args {
        Params params;
        std::array<float, 2> padding;  ///< as given: the fraction counts for the result's size
    };
    static constexpr std::array fields{
        ParamField{"op", 0}, ParamField{"k0", 1}, ParamField{"k1", 2}, ParamField{"s0", 3},
        ParamField{"s1", 4}, ParamField{"p0", 5}, ParamField{"p1", 6}};

    /// The builder's arguments with `padding` as it is stored.
    static Args args(ggml_op_pool op, std::array<std::int32_t, 2> taps,
                     std::array<std::int32_t, 2> stride, std::array<float, 2> padding) {
        const auto whole = [](float p) {
            return fits(p) ? static_cast<std::int32_t>(p) : std::int32_t{0};
        };
        return {
            {static_cast<std::int32_t>(op), taps, stride, {whole(padding[0]), whole(padding[1])}},
            padding};
    }

    static bool fits(float padding) { return std::abs(padding) < 0x1p31F; }

    static Result<> check_padding(const Args& args) {
        for (const float padding : args.padding) {
            if (!fits(padding)) return invalid("padding ", padding, " is not a count of elements");
        }
        return ok();
    }

    static double tap_count(const Params& params) {
        return static_cast<double>(params.taps[0]) * static_cast<double>(params.taps[1]);
    }
};

struct Pool2d : Pool2dRule {
    static constexpr Op id = GGML_OP_POOL_2D;
    static constexpr std::string_view name = "POOL_2D";
    static constexpr std::string_view symbol = "pool_2d(x)";
    static constexpr std::string_view summary =
        "Maximum, or mean with zeros for the padding, of windows along dimensions 0 and 1.";
    static constexpr std::array sources{"x"};

    /// A fraction of padding is not stored. What is found here makes a node of these extents.
    static Args recover(const Tensor& node) {
        Args args{unpack<Params>(node), {}};
        for (std::size_t d = 0; d < 2; ++d) {
            const auto whole = static_cast<float>(args.params.padding[d]);
            const std::int64_t extent = node.src[0]->ne[d];
            const float fitting =
                (static_cast<float>(node.ne[d] - 1) * static_cast<float>(args.params.stride[d]) +
                 static_cast<float>(args.params.taps[d]) - static_cast<float>(extent)) /
                2;
            const float low = whole > 0 ? whole : std::nextafter(whole - 1, whole);
            const float high = whole < 0 ? whole : std::nextafter(whole + 1, whole);
            const auto windows =
                count_windows(extent, args.params.taps[d], args.params.stride[d], whole);
            const bool is_whole = windows && *windows == node.ne[d];
            args.padding[d] = is_whole ? whole : std::clamp(fitting, low, high);
        }
        return args;
    }

    /// f32 [windows, windows, ...].
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(check_padding(args));
        const auto windows = [&](std::size_t d) {
            return count_windows(x.ne[d], args.params.taps[d], args.params.stride[d],
                                 args.padding[d]);
        };
        HEDDLE_TRY_ASSIGN(const std::int64_t width, windows(0));
        HEDDLE_TRY_ASSIGN(const std::int64_t height, windows(1));
        return TensorSpec::dense(GGML_TYPE_F32, {width, height, x.ne[2], x.ne[3]});
    }

    static Cost cost(const Params& params, Sources, const Tensor& out) {
        return cost_per_element(out, tap_count(params), out);
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Pool2dBack : Pool2dRule {
    static constexpr Op id = GGML_OP_POOL_2D_BACK;
    static constexpr std::string_view name = "POOL_2D_BACK";
    static constexpr std::string_view symbol = "pool_2d_back(x)";
    static constexpr std::string_view summary =
        "Gives the gradient of each window to the element it took, or to all of its elements.";
    static constexpr std::array sources{"dy", "x"};

    static Args recover(const Tensor& node) {
        const auto params = unpack<Params>(node);
        return {params,
                {static_cast<float>(params.padding[0]), static_cast<float>(params.padding[1])}};
    }

    /// f32 with the extents of x.
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        HEDDLE_TRY(check_padding(args));
        return TensorSpec::dense(GGML_TYPE_F32, extents_of(src[1]));
    }

    static Cost cost(const Params& params, Sources src, const Tensor& out) {
        return cost_per_element(src[0], tap_count(params), out);
    }
};

}  // namespace heddle::ops
