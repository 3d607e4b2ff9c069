#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.hpp"

/// Nodes in parts: tensors that describe some rows of a node, and of its operands.
namespace heddle::cpu {

/// How a tensor is cut when its node is computed in parts.
struct Cut {
    enum class Kind : std::uint8_t {
        absent,     ///< there is no such operand
        whole,      ///< each part sees all of it
        rows,       ///< equally spaced rows, counted through all dimensions
        dimension,  ///< along one dimension
    };
    Kind kind = Kind::absent;
    int dimension = 0;
    std::size_t pitch = 0;  ///< bytes from one unit to the next
};

/// Operands that can be cut. Those behind are used whole.
inline constexpr int kCutSources = 2;

/// How a node is computed in parts that do not depend on each other.
struct NodeCut {
    std::int64_t units = 0;  ///< 0: the node cannot be cut
    Cut result;
    Cut source[kCutSources];
};

/// Ops of rows: norms, activations, sums and products with broadcasting. Cut into rows; ROPE and
/// SET_ROWS into tokens.
bool may_be_cut(Op op);
NodeCut cut_of(const Tensor& node);

/// Bytes from the first to past the last element of one unit of a tensor, which has so many bytes.
std::size_t unit_span(const Tensor& tensor, const Cut& cut, std::size_t bytes);

/// A part of a node: a node of its own, whose operands are parts.
class Part {
public:
    Part(const Tensor& node, const NodeCut& cut);
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    std::int64_t units() const { return cut_.units; }  ///< of the whole node
    const Tensor& at(Range units);                     ///< now describes these

private:
    const Tensor& whole_;
    const NodeCut cut_;
    Tensor node_;
    Tensor source_[kCutSources];
};

}  // namespace heddle::cpu
