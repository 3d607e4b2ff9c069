#pragma once

#include <unordered_set>
#include <vector>

#include "core/graph.hpp"
#include "runtime/meta/states.hpp"

namespace heddle::meta {

/// Nodes whose result is a sum of what the devices have, from the one that makes it to the one
/// after which it is put together: what is linear may be done before that, with less to move.
struct Sum {
    std::size_t first = 0;    ///< position of the node that makes it
    std::size_t last = 0;     ///< position of the node that is put together
    bool has_addend = false;  ///< a tensor that is an addend on each device goes into it
};

struct Sums {
    std::vector<Sum> all;                       ///< in the order of the nodes
    std::unordered_set<const Tensor*> pending;  ///< in a sum, and never put together themselves
};

/// Finds where the nodes of `graph` are cut to put sums together. Fails where an addend would be
/// needed after that.
Result<Sums> find_sums(const Graph& graph, States& states);

}  // namespace heddle::meta
