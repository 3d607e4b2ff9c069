#pragma once

#include <array>
#include <cstddef>
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
/// Never looks at data, nor at buffers.
Result<> check_node(const Tensor& node);

/// The same for the nodes of a graph, one after the other. Layers of a model are alike: a node that
/// differs in nothing that `check_node` looks at from one that was accepted is accepted as well,
/// which takes a third of the time. Nodes and operands must stay as they are meanwhile.
class GraphCheck {
public:
    Result<> check(const Tensor& node);

    static constexpr std::size_t kPlaces = 256;  ///< several times the nodes of a layer

private:
    [[gnu::noinline]] Result<> check_anew(const Tensor& node, const Tensor*& place);

    std::array<const Tensor*, kPlaces> accepted_{};  ///< by a hash; of several the latest stays
};

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
