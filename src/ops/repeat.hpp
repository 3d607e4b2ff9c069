#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"
#include "ops/tiling.hpp"

namespace heddle::ops {

/// What tiling and its reverse share: the result's extents are given, not stored.
struct TilingRule {
    static constexpr std::array sources{"x"};
    using Params = NoParams;
    struct Args {
        Params params;
        Extents extent;
    };

    static Args recover(const Tensor& node) { return {{}, extents_of(node)}; }
};

struct Repeat : TilingRule {
    static constexpr Op id = GGML_OP_REPEAT;
    static constexpr std::string_view name = "REPEAT";
    static constexpr std::string_view symbol = "repeat(x)";
    static constexpr std::string_view summary = "x side by side as often as it fits the extents.";

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(check_extents(x.type, args.extent));
        if (!is_empty(x) && !tiles(extents_of(x), args.extent)) {
            return invalid("tiles of ", describe(x), " do not fill ", describe(args.extent));
        }
        return TensorSpec::dense(x.type, args.extent);
    }

    /// Every byte of the result is read once and written once.
    static Cost cost(const Params&, Sources, const Tensor& y) {
        return {.flops = 0, .bytes = 2.0 * static_cast<double>(byte_size(y))};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

struct RepeatBack : TilingRule {
    static constexpr Op id = GGML_OP_REPEAT_BACK;
    static constexpr std::string_view name = "REPEAT_BACK";
    static constexpr std::string_view symbol = "repeat_back(x)";
    static constexpr std::string_view summary = "The sum of the tiles of x: gradient of REPEAT.";
    static constexpr unsigned may_be_empty = ~0u;

    static Result<TensorSpec> infer(const Args& args, Sources src) {
        const Tensor& x = src[0];
        HEDDLE_TRY(check_extents(x.type, args.extent));
        if (!tiles(args.extent, extents_of(x))) {
            return invalid("tiles of ", describe(args.extent), " do not fill ", describe(x));
        }
        return TensorSpec::dense(x.type, args.extent);
    }

    static Cost cost(const Params&, Sources src, const Tensor& y) {
        return {.flops = static_cast<double>(element_count(src[0])),
                .bytes = static_cast<double>(byte_size(src[0]) + byte_size(y))};
    }

    static Result<> gradient(Backward& backward, Tensor& node);
};

}  // namespace heddle::ops
