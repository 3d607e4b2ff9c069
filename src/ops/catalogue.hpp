#pragma once

#include <span>

#include "ops/descriptor.hpp"

namespace heddle {

/// Every op, in the order of its number: kOps of `all.hpp` for code that need not see the list.
std::span<const OpInfo> all_ops();

/// The row of `op`, or null for numbers that name no op.
const OpInfo* find_op(Op op);

/// Name of the op; for UNARY and GLU the name of the function, where the node has one there is.
std::string_view describe_op_of(const Tensor& node);

/// Name of a function of UNARY or GLU; empty for numbers that name none.
std::string_view name_of(ggml_unary_op op);
std::string_view name_of(ggml_glu_op op);

/// What computing `node` takes.
Cost cost_of(const Tensor& node);

/// The parameters of a node for people: "eps=1e-05 n_groups=4".
std::string describe_params(const Tensor& node);

}  // namespace heddle
