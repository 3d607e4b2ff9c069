#pragma once

#include "ggml/op_list.h"
#include "ops/sliding.hpp"

/// Convolutions computed directly. None flips its kernel; outside the image everything is zero.
namespace heddle::ops {

struct Conv2d {
    static constexpr Op id = GGML_OP_CONV_2D;
    static constexpr std::string_view name = "CONV_2D";
    static constexpr std::string_view symbol = "conv_2d(x)";
    static constexpr std::string_view summary =
        "Slides each kernel [KW,KH,IC,OC] over the images [W,H,IC,N].";
    static constexpr std::array sources{"kernel", "x"};
    using Params = Sliding<2>;
    static constexpr auto fields = kSlidingFields2;

    /// [OW, OH, OC, N] of x's type.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        HEDDLE_TRY(params.check_strides());
        HEDDLE_TRY(need_equal({"kernel", kernel, 2}, {"x", x, 2}));
        return dense_result(x.type,
                            {params.positions(0, x.ne[0], kernel.ne[0]),
                             params.positions(1, x.ne[1], kernel.ne[1]), kernel.ne[3], x.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& kernel = src[0];
        const double taps = static_cast<double>(kernel.ne[0] * kernel.ne[1] * kernel.ne[2]);
        return cost_per_element(out, 2 * taps - 1, out);
    }
};

struct Conv3d {
    static constexpr Op id = GGML_OP_CONV_3D;
    static constexpr std::string_view name = "CONV_3D";
    static constexpr std::string_view symbol = "conv_3d(x)";
    static constexpr std::string_view summary =
        "Slides each kernel [KW,KH,KD,IC*OC] over the volumes [W,H,D,IC*N].";
    static constexpr std::array sources{"kernel", "x"};
    struct Params {
        Sliding<3> window;
        std::int32_t channels, batches, out_channels;
    };
    static constexpr auto fields =
        fields_followed_by(kSlidingFields3, "channels", "batches", "out_channels");

    /// f32 [OW, OH, OD, OC*N].
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        const std::int64_t channels = params.channels;
        HEDDLE_TRY(params.window.check_strides());
        HEDDLE_TRY(need_at_least("channel count", channels, 0));
        HEDDLE_TRY(need_at_least("batch count", params.batches, 0));
        HEDDLE_TRY(need_at_least("output channel count", params.out_channels, 0));
        HEDDLE_TRY(need_extent("kernel", kernel, 3, channels * params.out_channels));
        HEDDLE_TRY(need_extent("x", x, 3, channels * params.batches));
        return dense_result(GGML_TYPE_F32, {params.window.positions(0, x.ne[0], kernel.ne[0]),
                                            params.window.positions(1, x.ne[1], kernel.ne[1]),
                                            params.window.positions(2, x.ne[2], kernel.ne[2]),
                                            Count(params.out_channels) * params.batches});
    }

    static Cost cost(const Params& params, Sources src, const Tensor& out) {
        const Tensor& kernel = src[0];
        const double taps = static_cast<double>(kernel.ne[0] * kernel.ne[1] * kernel.ne[2]);
        return cost_per_element(out, 2 * taps * params.channels - 1, out);
    }
};

struct Conv2dDw {
    static constexpr Op id = GGML_OP_CONV_2D_DW;
    static constexpr std::string_view name = "CONV_2D_DW";
    static constexpr std::string_view symbol = "conv_2d_dw(x)";
    static constexpr std::string_view summary =
        "Slides one kernel per channel [KW,KH,1,C] over the images [W,H,C,N].";
    static constexpr std::array sources{"kernel", "x"};
    using Params = Sliding<2>;
    static constexpr auto fields = kSlidingFields2;

    /// [OW, OH, C, N] of x's type, in x's memory order: channels vary fastest in y where they do in
    /// x.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        HEDDLE_TRY(params.check_strides());
        HEDDLE_TRY(need_extent("kernel", kernel, 2, 1));
        HEDDLE_TRY(need_equal({"kernel", kernel, 3}, {"x", x, 2}));
        HEDDLE_TRY_ASSIGN(
            TensorSpec y,
            dense_result(x.type, {params.positions(0, x.ne[0], kernel.ne[0]),
                                  params.positions(1, x.ne[1], kernel.ne[1]), x.ne[2], x.ne[3]}));
        if (has_dense_channels(x)) {
            y.stride[2] = size_of(y.type);
            y.stride[0] = y.stride[2] * static_cast<std::size_t>(y.extent[2]);
            y.stride[1] = y.stride[0] * static_cast<std::size_t>(y.extent[0]);
        }
        return y;
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& kernel = src[0];
        const double taps = static_cast<double>(kernel.ne[0] * kernel.ne[1]);
        return cost_per_element(out, 2 * taps, out);
    }
};

/// What the transposed convolutions share: every element of x adds a scaled copy of the kernel.
struct TransposedConvolution {
    static constexpr std::array sources{"kernel", "x"};

    static Count extent(std::int64_t positions, std::int64_t taps, std::int32_t stride) {
        return (Count(positions) - 1) * stride + taps;
    }

    /// One multiplication and one addition for each tap of all kernels at each pixel of x.
    static Cost cost_of(Sources src, const Tensor& out, std::int64_t pixels) {
        return cost_per_element(src[0], 2 * static_cast<double>(pixels), out);
    }
};

struct ConvTranspose1d : TransposedConvolution {
    static constexpr Op id = GGML_OP_CONV_TRANSPOSE_1D;
    static constexpr std::string_view name = "CONV_TRANSPOSE_1D";
    static constexpr std::string_view symbol = "conv_transpose_1d(x)";
    static constexpr std::string_view summary =
        "Adds kernels [K,OC,IC], scaled by the elements of x [L,IC], stride by stride.";
    using Params = Sliding<1>;
    static constexpr auto fields = kSlidingFields1;

    /// f32 [(L - 1) * stride + K, OC]. There is no padding and no dilation.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        HEDDLE_TRY(params.check_strides());
        if (params.padding[0] != 0) return invalid("padding ", params.padding[0], " is not 0");
        if (params.dilation[0] != 1) return invalid("dilation ", params.dilation[0], " is not 1");
        HEDDLE_TRY(need_matrix("x", x));
        HEDDLE_TRY(need_equal({"kernel", kernel, 2}, {"x", x, 1}));
        HEDDLE_TRY(need_extent("kernel", kernel, 3, 1));
        return dense_result(GGML_TYPE_F32, {extent(x.ne[0], kernel.ne[0], params.stride[0]),
                                            kernel.ne[1], x.ne[2], 1});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_of(src, out, src[1].ne[0]);
    }
};

struct ConvTranspose2d : TransposedConvolution {
    static constexpr Op id = GGML_OP_CONV_TRANSPOSE_2D;
    static constexpr std::string_view name = "CONV_TRANSPOSE_2D";
    static constexpr std::string_view symbol = "conv_transpose_2d(x)";
    static constexpr std::string_view summary =
        "Adds kernels [KW,KH,OC,IC], scaled by the elements of x [W,H,IC,N], stride by stride.";
    struct Params {
        std::int32_t stride;
    };
    static constexpr std::array fields{ParamField{"stride", 0}};

    /// f32 [(W - 1) * stride + KW, (H - 1) * stride + KH, OC, N].
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        HEDDLE_TRY(need_at_least("stride", params.stride, 1));
        HEDDLE_TRY(need_equal({"kernel", kernel, 3}, {"x", x, 2}));
        return dense_result(GGML_TYPE_F32,
                            {extent(x.ne[0], kernel.ne[0], params.stride),
                             extent(x.ne[1], kernel.ne[1], params.stride), kernel.ne[2], x.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        const Tensor& x = src[1];
        return cost_of(src, out, x.ne[0] * x.ne[1] * x.ne[3]);
    }
};

}  // namespace heddle::ops
