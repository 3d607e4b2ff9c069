#include "backends/cpu/numa.hpp"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <new>

namespace heddle::cpu {
namespace {

/// Written once, under the lock; read without it once `chosen` is set.
struct Choice {
    std::mutex lock;
    std::atomic<bool> chosen{false};
    NumaPolicy policy;
};

Choice& choice() {
    static Choice one;
    return one;
}

}  // namespace

CpuList NumaPolicy::cpus_for(int index) const {
    if (!is_numa()) return {};
    if (strategy == GGML_NUMA_STRATEGY_DISTRIBUTE) {
        return nodes[static_cast<std::size_t>(index) % nodes.size()].cpus;
    }
    if (strategy == GGML_NUMA_STRATEGY_ISOLATE) {
        for (const NumaNode& node : nodes) {
            if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu_at_start))
                return node.cpus;
        }
    }
    if (strategy == GGML_NUMA_STRATEGY_NUMACTL) return cpus_at_start;
    return {};
}

Result<> choose_numa(NumaStrategy strategy) {
    if (strategy < GGML_NUMA_STRATEGY_DISABLED || strategy >= GGML_NUMA_STRATEGY_COUNT) {
        return invalid("NUMA strategy ", static_cast<int>(strategy), " is not one of the ",
                       static_cast<int>(GGML_NUMA_STRATEGY_COUNT), " there are");
    }
    Choice& our = choice();
    const std::lock_guard guard(our.lock);
    if (our.chosen.load(std::memory_order_relaxed)) {
        return invalid("NUMA strategy ", static_cast<int>(our.policy.strategy),
                       " was chosen before and stays");
    }
    our.policy = {strategy, read_numa_nodes(), thread_cpus(), current_cpu()};
    our.chosen.store(true, std::memory_order_release);
    return ok();
}

bool kernel_balances_nodes() {
    std::ifstream file("/proc/sys/kernel/numa_balancing");
    int mode = 0;
    return (file >> mode) && mode != 0;
}

const NumaPolicy& numa_policy() {
    static const NumaPolicy none;
    const Choice& our = choice();
    return our.chosen.load(std::memory_order_acquire) ? our.policy : none;
}

NumaGuard::NumaGuard() {
    const NumaPolicy& policy = numa_policy();
    if (!policy.is_numa()) return;
    const CpuList cpus = policy.cpus_for(0);
    if (cpus.empty()) return;
    before_ = thread_cpus();
    if (!pin_thread(cpus)) before_.clear();  // works all the same, only slower
}

NumaGuard::~NumaGuard() {
    try {
        if (!before_.empty()) static_cast<void>(pin_thread(before_).has_value());
    } catch (const std::bad_alloc&) {
        // The thread stays where it is: slower perhaps, but nothing else.
    }
}

}  // namespace heddle::cpu
