#pragma once

#include <string>
#include <vector>

#include "sched/plan/plan.hpp"

namespace heddle::sched {

/// Something wrong with a program:
///
/// - two actions that touch the same bytes, at least one writing, with nothing that puts them in
///   order;
/// - a read of bytes that are not what is to be read: nothing wrote them, or something else is
///   there by then;
/// - a caller who fills inputs for the next run where the last one still works.
struct Hazard {
    static constexpr std::int32_t kNoAction = -1;

    std::int32_t first = 0;       ///< the earlier action; kNoAction for a read of wrong bytes
    std::int32_t second = 0;      ///< the later action; kNoAction for the caller
    TensorId tensor = kNoTensor;  ///< what the second one touches
    std::string text;             ///< for people
};

/// Follows the program's waits and looks for hazards, by construction: nothing is run. Also across
/// runs of the program in a row. The graph's tensors are placed. Gives up after a few dozen.
///
/// It goes by addresses alone and knows nothing of how the plan was made.
std::vector<Hazard> find_hazards(const GraphIndex& index, const Placement& placement,
                                 Splits& splits, const Program& program, const Team& team,
                                 int slots);

}  // namespace heddle::sched
