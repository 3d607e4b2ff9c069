#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "backends/cpu/execute.hpp"
#include "backends/cpu/plan.hpp"
#include "core/graph_plan.hpp"

namespace heddle::cpu {

/// How a stream computes.
struct Settings {
    int threads = GGML_DEFAULT_N_THREADS;
    ThreadPool* pool = nullptr;  ///< the caller's
    AbortCheck abort{};
    bool plain = false;  ///< reference mode
    Fusion fusion = Fusion::on;

    Fusion planned_fusion() const { return plain ? Fusion::off : fusion; }
};

/// Threads to plan for: as many as asked for and the pool has; without a number, all of the pool.
int planned_threads(int asked, const ThreadPool* pool);

/// For each node of `graph`, the number of the first of those that it is computed with.
Result<> find_fused(const Graph& graph, const Settings& settings, int* with);

/// A graph of its own, made ready: the nodes, what runs them, the memory that takes.
struct PreparedGraph {
    std::unique_ptr<GraphPlan> graph;
    Settings settings;  ///< of the stream when it was made
    Plan plan;
    Scratch scratch;
};

/// Plans of graphs that come again, which their uid tells.
class KeptPlans {
public:
    /// A plan for `graph`, kept if the graph has a uid. Good until the next call.
    Result<const Plan*> plan_for(const Graph& graph, const Settings& settings);

    std::uint64_t made() const { return made_; }  ///< how often something had to be planned

    /// So many steps are kept; plans that were not used for longest go first.
    static constexpr std::size_t kMostSteps = std::size_t{1} << 17;

private:
    /// All that a plan depends on beside the graph, and what a graph of the same uid has in common.
    struct Circumstances {
        Tensor* const* nodes;
        int count, threads;
        Fusion fusion;
        std::uint64_t isa;
        bool operator==(const Circumstances&) const = default;
    };
    struct Kept {
        Circumstances made_in{};
        Plan plan;
        std::uint64_t last_use = 0;
    };

    void make_room();

    std::unordered_map<std::uint64_t, Kept> kept_;  ///< by uid
    std::size_t steps_ = 0;                         ///< of all that are kept
    std::uint64_t uses_ = 0, made_ = 0;
    Plan plan_;  ///< of a graph without uid; its memory is used again
};

/// Computes on the CPU; every call has done its work when it returns.
class CpuStream {
public:
    static inline ggml_guid guid = {0xb5, 0xed, 0xad, 0x7d, 0x1e, 0xe2, 0xfa, 0x54,
                                    0x58, 0x07, 0xf3, 0x59, 0x11, 0x27, 0x46, 0x09};

    Settings settings;

    const char* name() const { return "CPU"; }
    Result<> compute(Graph& graph);

    Result<std::unique_ptr<PreparedGraph>> plan(const Graph& graph);
    Result<> compute_plan(PreparedGraph& prepared);
    Result<> update_plan(PreparedGraph& prepared, const Graph& graph);

    const KeptPlans& plans() const { return plans_; }

private:
    KeptPlans plans_;
    Scratch scratch_;  ///< grows, never shrinks
};

}  // namespace heddle::cpu
