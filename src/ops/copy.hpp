#pragma once

#include <optional>

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

/// What the copying ops share: element number e of x, in logical order, becomes element number e of
/// the result. Only the number of elements must agree.
struct CopyInOrder {
    using Params = NoParams;

    static Result<> check_counts(const Tensor& x, std::int64_t elements, const Extents& extent) {
        if (elements == element_count(x)) return ok();
        return invalid(describe(x), " has ", element_count(x), " elements, the destination ",
                       describe(extent), " has ", elements);
    }

    /// A copy into memory of its own.
    struct Args {
        Params params;
        std::optional<Extents> extent = {};  ///< those of x, unless given
        std::optional<Type> type = {};       ///< that of x, unless given
    };

    static Args recover(const Tensor& node) { return {{}, extents_of(node), node.type}; }

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        const Extents extent = args.extent.value_or(extents_of(x));
        const Type type = args.type.value_or(x.type);
        HEDDLE_TRY(check_extents(type, extent));
        HEDDLE_TRY(check_counts(x, extent[0] * extent[1] * extent[2] * extent[3], extent));
        return TensorSpec::dense(type, extent);
    }

    static Cost cost(const Params&, Sources src, const Tensor& y) {
        return {.flops = 0, .bytes = static_cast<double>(byte_size(src[0]) + byte_size(y))};
    }
};

struct Dup : CopyInOrder {
    static constexpr Op id = GGML_OP_DUP;
    static constexpr std::string_view name = "DUP";
    static constexpr std::string_view symbol = "x";
    static constexpr std::string_view summary = "A copy of x.";
    static constexpr std::array sources{"x"};
    static constexpr bool can_run_in_place = true;
    static constexpr bool has_free_strides = true;  ///< hand-made ones are views of other shapes

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct Cont : CopyInOrder {
    static constexpr Op id = GGML_OP_CONT;
    static constexpr std::string_view name = "CONT";
    static constexpr std::string_view symbol = "cont(x)";
    static constexpr std::string_view summary =
        "A contiguous copy of x, with other extents where they are given.";
    static constexpr std::array sources{"x"};

    static void name_result(Tensor& y, Sources src) { name_after(y, src[0], " (cont)"); }

    static Result<> gradient(Backward& backward, Tensor& node);
};

/// The result is y seen again: computing the node writes y. A cast is the same node with a y that
/// is the result itself (`cast` in copy_builders.hpp).
struct Cpy {
    static constexpr Op id = GGML_OP_CPY;
    static constexpr std::string_view name = "CPY";
    static constexpr std::string_view symbol = "x-\\>y";
    static constexpr std::string_view summary =
        "Copies x into y, converting to y's type; the result is a view of y.";
    static constexpr std::array sources{"x", "y"};
    static constexpr unsigned may_be_itself = 0b10;  ///< y of a cast
    using Params = NoParams;

    static Result<TensorSpec> infer(const Params&, Sources src) {
        const Tensor& y = src[1];
        HEDDLE_TRY(CopyInOrder::check_counts(src[0], element_count(y), extents_of(y)));
        return TensorSpec::view(y, 1);
    }

    static Cost cost(const Params& params, Sources src, const Tensor& y) {
        return CopyInOrder::cost(params, src, y);
    }

    static void name_result(Tensor& out, Sources src) {
        const std::string x(name_of(src[0]));
        if (name_of(src[1]).empty()) {
            name_after(out, src[0], " (copy)");
        } else {
            name_after(out, src[1], " (copy of " + x + ")");
        }
    }

    /// What y held before is lost.
    static bool carries_gradient(const Tensor&, std::size_t slot) { return slot != 1; }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
