#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "core/graph.hpp"

namespace heddle {

/// Every tensor that a graph stands on: its nodes and leafs, their sources, and the tensors they
/// are views of, all the way down. Each occurs once, after everything it depends on.
struct Closure {
    std::vector<Tensor*> tensors;
    std::unordered_map<const Tensor*, std::size_t> index_of;  ///< into `tensors`
};

/// Fails if a node or leaf is null.
Result<Closure> closure_of(const Graph& graph);

}  // namespace heddle
