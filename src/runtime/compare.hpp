#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/objects.hpp"

namespace heddle {

/// The same node on two streams, computed by both.
struct NodePair {
    int index;  ///< in the graph
    Tensor* first;
    Tensor* second;
};

/// Sees a pair; false to stop.
using PairVisitor = std::function<bool(const NodePair&)>;

/// Computes `graph`, which has memory for `first`, there and as a copy on `second`.
///
/// Node by node, showing each pair but those of nodes that only describe data; each stream goes on
/// from its own results. With `watched` nodes the graph is computed whole, and then only these are
/// shown, all of them. A stream that fails to compute ends it with an error.
Result<> compare_streams(Stream& first, Stream& second, Graph& graph,
                         std::span<const Tensor* const> watched, const PairVisitor& visit);

/// How far the results of a node are apart, over its values as floats.
struct NodeDifference {
    NodePair pair;
    double nmse = 0;              ///< sum of squared differences over the sum of squares of `first`
    double max_abs = 0;           ///< largest absolute difference
    double max_rel = 0;           ///< largest difference relative to the larger value
    std::int64_t worst = 0;       ///< logical number of the element with the largest difference
    std::int64_t mismatches = 0;  ///< elements where only one is NaN, or infinities differ
    bool identical = true;        ///< bit for bit
};

/// Sees how far a node is apart; false to stop.
using DifferenceVisitor = std::function<bool(const NodeDifference&)>;

/// `compare_streams`, measured.
Result<> measure_streams(Stream& first, Stream& second, Graph& graph,
                         std::span<const Tensor* const> watched, const DifferenceVisitor& visit);

/// How far two tensors of the same type and extents are apart, wherever they are.
Result<NodeDifference> measure(const NodePair& pair);

}  // namespace heddle
