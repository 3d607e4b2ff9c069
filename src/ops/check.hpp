#pragma once

#include <string>
#include <string_view>

#include "ops/descriptor.hpp"

/// Nodes whose fields anybody may have written to: hand-made, changed after they were built, from a
/// file, over a network.
namespace heddle {

/// Whether `node` is one its op could have built, as it is now: the op exists, operands are there
/// and are not the node itself, every tensor can be walked and ends where its memory ends, type,
/// extents and strides are as inferred, and nothing is read from an operand without elements.
///
/// Never looks at data, nor at buffers. It takes a few nanoseconds where there is nothing to say,
/// so that plans can ask it of every node.
Result<> check_node(const Tensor& node);

/// What devices say against nodes that `check_node` refuses; it has the particulars.
inline constexpr std::string_view kUnsoundNode = "it is not such a node as its op builds";

/// Whether the operand in `slot` may be the node itself: casts write there, FILL reads nothing.
bool may_be_itself(Op op, std::size_t slot);

/// Whether an operand may be absent.
bool is_optional(const OpInfo& op, std::size_t slot);

/// The refusal for one that may not.
Error missing_operand(const OpInfo& op, std::size_t slot);

/// "soft_max": how messages call an op.
std::string lower_name(const OpInfo& op);

}  // namespace heddle
