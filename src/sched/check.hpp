#pragma once

#include "sched/graph_index.hpp"

namespace heddle::sched {

/// Whether the graph makes sense, before anybody plans it: every node is one its op could have
/// built, and none reads what is computed only later, or never. Callers put nodes into lists as
/// they please, and may have changed them since they were built.
///
/// Sources in neither list are not looked at here, and a node that is listed again is computed
/// again.
Result<> check_graph(const GraphIndex& index);

}  // namespace heddle::sched
