#pragma once

#include <cstdint>
#include <vector>

#include "sched/submit/queues.hpp"

namespace heddle::sched {

/// What is worth knowing about a program before it runs. Found out once for each program.
struct Prepared {
    std::uint64_t serial = 0;  ///< of the program; 0: none yet

    std::vector<Mark> marks;              ///< of each action
    std::vector<std::uint8_t> is_marked;  ///< whether something waits for the action

    /// Actions that use memory of the host that the caller may write when the call has returned;
    /// the last one of each queue.
    std::vector<std::int32_t> takers;

    /// The last copy of each queue out of the memory of `runner`.
    struct CopyOut {
        RunnerId runner;
        std::int32_t action;
    };
    std::vector<CopyOut> copies_out;

    /// How a copy of chosen experts learns which.
    struct Choosing {
        TensorId ids = kNoTensor;  ///< the numbers of the experts
        std::int32_t copy =
            -1;  ///< of `ids`, if it is made before; -1: they are read where they are
        std::int32_t producer = -1;  ///< the action they come from; -1: they were there before
    };
    std::vector<Choosing> choosing;  ///< of each copy; empty if none chooses

    /// What each queue touches; nothing if runs of the program cannot overlap others.
    std::vector<Footprint> footprints;
    std::uint64_t memory_serial = 0;  ///< of the program when it touched that

    std::vector<std::uint8_t> used;  ///< of each runner: whether anything is done with it
    bool can_use_threads = false;    ///< no stream is touched from both sides
};

/// Events of `old` are used again where they fit.
Prepared prepare(const GraphIndex& index, Splits& splits, const Program& program, const Team& team,
                 Prepared old);

}  // namespace heddle::sched
