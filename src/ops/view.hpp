#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

/// What ops share that only look at a tensor's memory in another way.
struct MetadataOnly {
    static constexpr std::array sources{"x"};
    static constexpr bool is_view = true;
    static Cost cost(const auto&, Sources, const Tensor&) { return {}; }
};

struct Reshape : MetadataOnly {
    static constexpr Op id = GGML_OP_RESHAPE;
    static constexpr std::string_view name = "RESHAPE";
    static constexpr std::string_view symbol = "reshape(x)";
    static constexpr std::string_view summary =
        "The elements of a contiguous x in the same order, with other extents.";
    using Params = NoParams;
    struct Args {
        Params params;
        Extents extent;
    };

    static Args recover(const Tensor& node) { return {{}, extents_of(node)}; }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        if (!is_contiguous(x)) return invalid(describe(x), " is not contiguous");
        HEDDLE_TRY(check_extents(x.type, args.extent));
        TensorSpec y = TensorSpec::dense(x.type, args.extent);
        const auto [n0, n1, n2, n3] = args.extent;
        if (n0 * n1 * n2 * n3 != element_count(x)) {
            return invalid(describe(x), " has ", element_count(x), " elements, extents ",
                           describe(args.extent), " have ", n0 * n1 * n2 * n3);
        }
        y.view_of = 0;
        return y;
    }

    static void name_result(Tensor& y, Sources src) { name_after(y, src[0], " (reshaped)"); }

    static Result<> gradient(Backward& backward, Tensor& node);
};

/// The caller chooses extents, strides and start within the memory of x's root. Elements are always
/// adjacent in dimension 0, even where those of x are not.
struct View : MetadataOnly {
    static constexpr Op id = GGML_OP_VIEW;
    static constexpr std::string_view name = "VIEW";
    static constexpr std::string_view symbol = "view(x)";
    static constexpr std::string_view summary =
        "A part of x's memory with its own extents and strides, from a byte offset on.";
    struct Params {
        std::size_t offset;  ///< bytes from the start of x
    };
    static constexpr std::array fields{ParamField{"offset", 0, ParamField::Kind::size}};
    struct Args {
        Params params;
        Extents extent;
        std::span<const std::size_t>
            stride;  ///< of dimensions 1 and up; those not given are packed
    };

    static Args recover(const Tensor& node) {
        return {unpack<Params>(node), extents_of(node), std::span(node.nb).subspan(1)};
    }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(check_extents(x.type, args.extent));
        TensorSpec y = TensorSpec::dense(x.type, args.extent);
        for (std::size_t d = 1; d < kMaxDims; ++d) {
            if (d <= args.stride.size()) {
                y.stride[d] = args.stride[d - 1];
            } else if (d > 1) {
                y.stride[d] = y.stride[d - 1] * static_cast<std::size_t>(args.extent[d - 1]);
            }
        }
        y.view_of = 0;
        y.view_offset = args.params.offset;
        return y;
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Permute : MetadataOnly {
    static constexpr Op id = GGML_OP_PERMUTE;
    static constexpr std::string_view name = "PERMUTE";
    static constexpr std::string_view symbol = "permute(x)";
    static constexpr std::string_view summary =
        "Dimension i of x becomes dimension axis_i of the result.";
    struct Params {
        std::array<std::int32_t, kMaxDims> axis;
    };
    static constexpr std::array fields{ParamField{"axis0", 0}, ParamField{"axis1", 1},
                                       ParamField{"axis2", 2}, ParamField{"axis3", 3}};

    static Result<TensorSpec> infer(const Params& params, Sources src) {
        std::array<bool, kMaxDims> taken{};
        for (const std::int32_t axis : params.axis) {
            if (axis < 0 || axis >= kMaxDims) {
                return invalid("axis ", axis, " is not one of 0 to ", kMaxDims - 1);
            }
            const auto place = static_cast<std::size_t>(axis);
            if (taken[place]) return invalid("axis ", axis, " is named twice");
            taken[place] = true;
        }
        const Tensor& x = src[0];
        if (params.axis[0] != 0 && block_size(x.type) > 1) {
            return invalid("dimension 0 of ", describe(x), " is in blocks of ", block_size(x.type),
                           " and cannot become dimension ", params.axis[0]);
        }
        TensorSpec y = TensorSpec::view(x, 0);
        for (std::size_t d = 0; d < kMaxDims; ++d) {
            const auto place = static_cast<std::size_t>(params.axis[d]);
            y.extent[place] = x.ne[d];
            y.stride[place] = x.nb[d];
        }
        return y;
    }

    static void name_result(Tensor& y, Sources src) { name_after(y, src[0], " (permuted)"); }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Transpose : MetadataOnly {
    static constexpr Op id = GGML_OP_TRANSPOSE;
    static constexpr std::string_view name = "TRANSPOSE";
    static constexpr std::string_view symbol = "transpose(x)";
    static constexpr std::string_view summary = "x with its first two dimensions exchanged.";
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        return Permute::infer({.axis = {1, 0, 2, 3}}, src);
    }

    static void name_result(Tensor& y, Sources src) { name_after(y, src[0], " (transposed)"); }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
