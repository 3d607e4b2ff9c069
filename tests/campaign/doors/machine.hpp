#pragma once

#include "ggml-backend.h"
#include "tests/sched/fuzz/world.hpp"

namespace heddle::campaign {

/// A processor, a simulated device, and a scheduler over both; made once and used by all cases.
class Machine {
public:
    static Machine& shared();

    Machine();

    ggml_backend_t cpu() const { return cpu_.get(); }
    ggml_backend_t sim() const { return sim_.get(); }
    ggml_backend_sched_t scheduler() const { return scheduler_.get(); }

    /// Runs a graph that is as it should be. Empty, or what is wrong: whatever came before, a
    /// scheduler must be able to go on.
    std::string check_scheduler() const;

private:
    fuzz::OwnedStream cpu_, sim_;
    fuzz::OwnedScheduler scheduler_;
};

}  // namespace heddle::campaign
