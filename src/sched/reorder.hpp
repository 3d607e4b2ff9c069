#pragma once

#include "sched/split.hpp"

namespace heddle::sched {

/// Lets backends put the nodes of their splits into the order they like best. The last node of a
/// split stays last: an order that moves it, or that is no permutation, is not taken.
void reorder(Splits& splits, const GraphIndex& index, const Team& team);

/// Lets streams take what their splits need besides the memory of tensors, so that the graph will
/// run.
Result<> reserve_scratch(Splits& splits, const Team& team);

}  // namespace heddle::sched
