#pragma once

#include <span>

#include "sched/plan/plan.hpp"

/// Parts of `plan`: order and waits.
namespace heddle::sched {

/// Constants that are copied for each run may take the memory of so many splits, counted as the one
/// that needs most of them. With few the next weights come while one split computes, but the link
/// stands still while a split computes for long, as attention does. Many make up for that, and more
/// hardly help: they are taken where there is memory for them.
inline constexpr std::size_t kManyStreamedSplits = 4, kFewStreamedSplits = 2;

/// A split graph, and what is known of memory before there is any.
struct PlanInput {
    const GraphIndex& index;
    const Placement& placement;
    Splits& splits;
    const Team& team;
    std::span<const std::uint8_t>
        planned;  ///< of each tensor: whether its root gets memory from us
    int slots = 1;
    std::size_t streamed_splits = kManyStreamedSplits;
};

/// Whether nothing is computed: a look at memory, or a parameter in the list of nodes.
inline bool is_idle(const GraphIndex& index, TensorId id) {
    if (index.is_view(id)) return true;
    return index.sources(id).empty() && index.facts(id).op == kNoOp;
}

/// Where the nodes of a split write besides their own memory: the one op that changes sources.
bool writes_source(const GraphIndex& index, TensorId node, std::uint8_t slot);

/// What the copy's expert choice is read from; kNoTensor if it is copied whole.
TensorId chosen_by(const GraphIndex& index, const Copy& copy);

/// Fills in the actions. Needs `cached`: constants that stay take no part of the graph's memory.
void order_actions(const PlanInput& input, Program& program);

/// Fills in the waits and what follows from them.
void find_waits(const PlanInput& input, Program& program);

}  // namespace heddle::sched
