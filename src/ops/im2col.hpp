#pragma once

#include <limits>

#include "ggml/op_list.h"
#include "ops/sliding.hpp"

/// Images as matrices of patches, and back: with them a convolution is a matrix product.
namespace heddle::ops {

/// What IM2COL and its gradient share.
struct Im2colRule {
    struct Params {
        Sliding<2> window;
        std::int32_t is_2d;  ///< 0: signals [L,C,N], and the second axis of `window` means nothing

        Result<> check_strides() const { return window.check_strides(is_2d != 0 ? 2 : 1); }
    };
    static constexpr auto fields = fields_followed_by(kSlidingFields2, "is_2d");
};

struct Im2col : Im2colRule {
    static constexpr Op id = GGML_OP_IM2COL;
    static constexpr std::string_view name = "IM2COL";
    static constexpr std::string_view symbol = "im2col(x)";
    static constexpr std::string_view summary =
        "The patches of x that a kernel would see, one row each; of the kernel only the shape "
        "counts.";
    static constexpr std::array sources{"kernel", "x"};
    static constexpr unsigned may_be_empty = 0b01;  ///< the kernel is not read
    struct Args {
        Params params;
        Type type;  ///< of the result
    };

    static Args recover(const Tensor& node) { return {unpack<Params>(node), node.type}; }

    /// [IC*KH*KW, OW, OH, N] from images, [IC*K, OW, N] from signals.
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        const Sliding<2>& window = args.params.window;
        const bool is_2d = args.params.is_2d != 0;
        const int channels = is_2d ? 2 : 1;  // the dimension of both operands
        HEDDLE_TRY(args.params.check_strides());
        HEDDLE_TRY(need_equal({"kernel", kernel, channels}, {"x", x, channels}));
        const Count width = window.positions(0, x.ne[0], kernel.ne[0]);
        HEDDLE_TRY(check_positions(width, "horizontal", kernel, x));
        if (!is_2d) {
            HEDDLE_TRY(need_extent("x", x, 3, 1));
            return dense_result(args.type, {Count(kernel.ne[1]) * kernel.ne[0], width, x.ne[2], 1});
        }
        const Count height = window.positions(1, x.ne[1], kernel.ne[1]);
        HEDDLE_TRY(check_positions(height, "vertical", kernel, x));
        return dense_result(
            args.type, {Count(kernel.ne[2]) * kernel.ne[1] * kernel.ne[0], width, height, x.ne[3]});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = 0, .bytes = bytes_beside_kernel(src[1], out)};
    }

    /// A kernel that fits nowhere is a mistake, not an empty result. Too many to count is left to
    /// the result's own check.
    static Result<> check_positions(Count positions, std::string_view direction,
                                    const Tensor& kernel, const Tensor& x) {
        if (!positions.counted() || positions.value() > 0) return ok();
        return invalid("kernel ", describe(kernel), " has no ", direction, " position in ",
                       describe(x));
    }

    /// Only the shape of the kernel counts.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 0; }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Im2colBack : Im2colRule {
    static constexpr Op id = GGML_OP_IM2COL_BACK;
    static constexpr std::string_view name = "IM2COL_BACK";
    static constexpr std::string_view symbol = "im2col_back(x)";
    static constexpr std::string_view summary =
        "Adds the gradients of patches up where the patches were taken from.";
    static constexpr std::array sources{"dy", "kernel"};
    struct Args {
        Params params;
        Extents extent;  ///< of the data that the patches were taken from
    };

    static Args recover(const Tensor& node) { return {unpack<Params>(node), extents_of(node)}; }

    static Result<TensorSpec> infer(const Args& args, Sources) {
        HEDDLE_TRY(args.params.check_strides());
        return TensorSpec::dense(GGML_TYPE_F32, args.extent);
    }

    /// Each element of the gradient is added once.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = count_of(src[0]), .bytes = bytes_beside_kernel(src[0], out)};
    }

    /// Only the shape of the kernel counts.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 1; }
};

struct Im2col3d {
    static constexpr Op id = GGML_OP_IM2COL_3D;
    static constexpr std::string_view name = "IM2COL_3D";
    static constexpr std::string_view symbol = "im2col_3d(x)";
    static constexpr std::string_view summary =
        "The blocks of volumes that a kernel would see, one row each; of the kernel only the shape "
        "counts.";
    static constexpr std::array sources{"kernel", "x"};
    struct Params {
        Sliding<3> window;
        std::int32_t channels;
    };
    struct Args {
        Params params;
        std::int64_t channels;  ///< as given; `params` holds its low 32 bits
        Type type;              ///< of the result
    };
    static constexpr auto fields = fields_followed_by(kSlidingFields3, "channels");

    static Args recover(const Tensor& node) {
        const auto params = unpack<Params>(node);
        return {params, params.channels, node.type};
    }

    /// [IC*KD*KH*KW, OW, OH, OD*N] with N = x.ne[3] / IC; volumes left over are ignored.
    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor &kernel = src[0], &x = src[1];
        const Sliding<3>& window = args.params.window;
        HEDDLE_TRY(window.check_strides());
        if (!Count(args.channels).within(1, std::numeric_limits<std::int32_t>::max())) {
            return invalid("channel count ", args.channels, " is not in 1 .. 2^31 - 1");
        }
        const std::array axes{"horizontal", "vertical", "depth"};
        std::array<Count, 3> positions{0, 0, 0};
        for (int axis = 0; axis < 3; ++axis) {
            const auto i = static_cast<std::size_t>(axis);
            positions[i] = window.positions(i, x.ne[axis], kernel.ne[axis]);
            HEDDLE_TRY(Im2col::check_positions(positions[i], axes[i], kernel, x));
        }
        const Count taps = Count(kernel.ne[2]) * kernel.ne[1] * kernel.ne[0];
        return dense_result(args.type, {taps * args.channels, positions[0], positions[1],
                                        positions[2] * (x.ne[3] / args.channels)});
    }

    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return {.flops = 0, .bytes = bytes_beside_kernel(src[1], out)};
    }
};

struct Col2im1d {
    static constexpr Op id = GGML_OP_COL2IM_1D;
    static constexpr std::string_view name = "COL2IM_1D";
    static constexpr std::string_view symbol = "col2im_1d(x)";
    static constexpr std::string_view summary =
        "Adds columns [K*OC,T] up into signals [(T-1)*stride+K-2*padding,OC].";
    static constexpr std::array sources{"x"};
    struct Params {
        std::int32_t stride, channels, padding;
    };
    static constexpr std::array fields{ParamField{"s0", 0}, ParamField{"oc", 1},
                                       ParamField{"p0", 2}};

    /// Of x's type, which is a plain float.
    static Result<TensorSpec> infer(const Params& params, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(need_matrix("x", x));
        HEDDLE_TRY(need_contiguous("x", x));
        if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16 && x.type != GGML_TYPE_BF16) {
            return invalid("x ", describe(x), " is not f32, f16 or bf16");
        }
        HEDDLE_TRY(need_at_least("stride", params.stride, 1));
        HEDDLE_TRY(need_at_least("channel count", params.channels, 1));
        HEDDLE_TRY(need_at_least("padding", params.padding, 0));
        const std::int64_t taps = x.ne[0] / params.channels;
        if (taps < 1 || taps * params.channels != x.ne[0]) {
            return invalid("columns of x ", describe(x), " do not divide into ", params.channels,
                           " channels");
        }
        const Count length =
            (Count(x.ne[1]) - 1) * params.stride + taps - Count(2) * params.padding;
        if (length.counted() && length.value() < 1) {
            return invalid("padding ", params.padding, " leaves nothing of x ", describe(x));
        }
        return dense_result(x.type, {length, params.channels, 1, 1});
    }

    /// Each element of the columns is added once.
    static Cost cost(const Params&, Sources src, const Tensor& out) {
        return cost_per_element(src[0], 1, out);
    }
};

}  // namespace heddle::ops
