#pragma once

#include "ggml/op_list.h"
#include "ops/descriptor.hpp"

namespace heddle::ops {

struct None {
    static constexpr Op id = GGML_OP_NONE;
    static constexpr std::string_view name = "NONE";
    static constexpr std::string_view symbol = "none";
    static constexpr std::string_view summary = "A plain tensor: a weight, an input, a constant.";
    static constexpr std::array<const char*, 0> sources{};
    using Params = NoParams;
    struct Args {
        Params params;
        Type type;
        Extents extent;
    };
    static constexpr bool is_view = true;
    static constexpr bool has_free_strides = true;

    static Args recover(const Tensor& node) { return {{}, node.type, extents_of(node)}; }

    static Result<TensorSpec> infer(const Args& args, Sources) {
        return TensorSpec::dense(args.type, args.extent);
    }

    static Cost cost(const Params&, Sources, const Tensor&) { return {}; }
};

}  // namespace heddle::ops
