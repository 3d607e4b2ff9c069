#pragma once

#include <vector>

#include "backends/cpu/topology.hpp"
#include "ggml-cpu.h"

/// How threads spread over the memory nodes of a large machine.
namespace heddle::cpu {

using NumaStrategy = ::ggml_numa_strategy;

/// A strategy, and what it needs to know of the machine at the time it was chosen.
struct NumaPolicy {
    NumaStrategy strategy = GGML_NUMA_STRATEGY_DISABLED;
    std::vector<NumaNode> nodes;
    CpuList cpus_at_start;  ///< those of the thread that chose
    int cpu_at_start = 0;   ///< the one it was on

    bool is_numa() const { return nodes.size() > 1; }

    /// Where thread number `index` of a pool belongs; empty: anywhere.
    CpuList cpus_for(int index) const;
};

/// Chooses for the process; the first call counts, and later ones fail.
Result<> choose_numa(NumaStrategy strategy);

/// Whether the kernel moves memory between nodes by itself, which works against every strategy.
bool kernel_balances_nodes();

/// What was chosen; a policy without nodes before that.
const NumaPolicy& numa_policy();

/// Keeps the calling thread where thread 0 of a pool belongs, for as long as this lives.
class NumaGuard {
public:
    NumaGuard();
    ~NumaGuard();
    NumaGuard(const NumaGuard&) = delete;
    NumaGuard& operator=(const NumaGuard&) = delete;

private:
    CpuList before_;  ///< empty: nothing to restore
};

}  // namespace heddle::cpu
