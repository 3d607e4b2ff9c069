#pragma once

#include <vector>

#include "sched/plan/plan.hpp"

/// Which memory a queue touches in a run. Runs of one program know exactly what waits for what;
/// those of different programs have other tensors at the same addresses, so what touches the same
/// buffer waits.
namespace heddle::sched {

struct Touch {
    const Buffer* buffer = nullptr;  ///< null: memory of the caller that is in none
    bool writes = false;
};

/// Sorted by buffer, each of which is there once.
using Footprint = std::vector<Touch>;

void add(Footprint& footprint, const Buffer* buffer, bool writes);
void merge(Footprint& footprint, const Footprint& more);

/// Whether one of them writes what the other touches.
bool conflict(const Footprint& a, const Footprint& b);

/// Of all queues, by `number_of`. The program has no detours; `wired` is its graph for one of
/// the slots.
std::vector<Footprint> footprints_of(const GraphIndex& index, Splits& splits,
                                     const Program& program, const Team& team,
                                     const WiredGraph& wired);

}  // namespace heddle::sched
