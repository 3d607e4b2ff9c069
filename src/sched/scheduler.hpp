#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/in_use.hpp"
#include "sched/cost/cost.hpp"
#include "sched/fingerprint.hpp"
#include "sched/plan/hazard.hpp"
#include "sched/submit/submit.hpp"

namespace heddle::sched {
class Resize;
}

/// Runs one graph over several streams. One thread at a time, one graph at a time.
///
/// place -> split -> plan happen when a graph is allocated, unless it is the last one again; submit
/// happens when it is computed. The caller's graph keeps its sources, flags and order; its tensors
/// get memory. Backends are given clones of its nodes, wired to the copies that they read when the
/// graph is allocated (`WiredGraph`): they may read those until they are synchronised, whatever the
/// caller does with its own.
///
/// A scheduler has no graph, one that is split, or one that is allocated. Whatever fails leaves it
/// without one and usable: pins, settings and memory stay, and the same graph finds the same
/// memory if nothing else was allocated in between.
struct ggml_backend_sched {
    struct Options {
        int slots = 1;  ///< runs that may be under way at a time
        bool offload = false;
        bool check_hazards = false;
        int debug = 0;          ///< 1: splits are logged, 2: also who runs each node and why
        int warn_realloc = 0;   ///< 1: if memory grows for a graph of the same size, 2: always
        std::string cost_file;  ///< where measured costs are kept; empty: nowhere
    };
    enum class Policy { rules, cost };
    using Observer = bool (*)(heddle::Tensor* node, bool ask, void* data);

    static constexpr int kMostSlots = 64;

    static heddle::Result<std::unique_ptr<ggml_backend_sched>> make(
        std::span<heddle::Stream* const> streams, std::span<heddle::BufferType* const> types,
        const Options& options);
    ~ggml_backend_sched();  ///< waits for what is under way

    // ---- the life of a graph -------------------------------------------------------------------

    /// Bytes that `reserve` would need on each runner, counted where it is shared at the first.
    heddle::Result<std::vector<std::size_t>> measure(heddle::Graph& graph);
    /// Memory for the graph. Its plan is kept for graphs like it, of the same sizes or, in some of
    /// their tensors, smaller ones. Forgets pins if it succeeds.
    heddle::Result<> reserve(heddle::Graph& graph);
    heddle::Result<> split(heddle::Graph& graph);  ///< only places and splits
    heddle::Result<> allocate(heddle::Graph& graph);

    /// Begins a run of the allocated graph, whichever is given; of `graph` if none is allocated.
    heddle::Result<> compute_async(heddle::Graph& graph);
    heddle::Result<> compute(heddle::Graph& graph);
    heddle::Result<> synchronize();
    void reset();  ///< forgets graph and pins; memory and what is in it stay

    // ---- settings ------------------------------------------------------------------------------
    heddle::Result<> pin(const heddle::Tensor& tensor, const heddle::Stream* stream);
    void observe(Observer observer, void* data);
    heddle::Result<> set_slots(int slots);       ///< resets
    heddle::Result<> set_policy(Policy policy);  ///< the first use of costs measures them
    heddle::Result<> set_cost_file(std::string path);
    heddle::Result<> set_budget(const heddle::Stream* stream, heddle::sched::Budget budget);
    void set_tracing(bool on);
    void set_synchronous(bool on);
    void set_check_hazards(bool on);

    // ---- questions -----------------------------------------------------------------------------
    const heddle::sched::Team& team() const { return team_; }
    heddle::Stream* stream_of(const heddle::Tensor& tensor) const;  ///< null if not decided
    std::size_t split_count() const;  ///< of the last graph that was split, for whatever purpose
    int slots() const { return options_.slots; }
    Policy policy() const;

    /// Bytes of the compute buffers; 0 if a runner before it shares them. Kept copies of constants
    /// are not among them.
    heddle::Result<std::size_t> memory_of(const heddle::Stream* stream) const;

    /// How often stages ran and were left out, since the scheduler was made.
    struct Counts {
        std::uint64_t placed = 0, reused = 0, runs = 0, copies_made = 0, copies_skipped = 0;
    };
    Counts counts() const;

    /// What the last split or allocated graph looks like, for `explain`.
    struct View {
        const heddle::sched::GraphIndex& index;
        const heddle::sched::Placement& placement;
        heddle::sched::Splits& splits;
        const heddle::sched::Program& program;  ///< empty if it is only split
        heddle::sched::Team& team;
        const heddle::sched::CostModel* model;  ///< null under the rules, until asked for
        const std::vector<heddle::sched::Timing>& timings;  ///< of the last run, if tracing
        const heddle::GraphAllocator& memory;
        std::vector<heddle::sched::Hazard> hazards;
        bool by_cost = false;  ///< the policy
    };
    heddle::Result<View> view();  ///< fails if no graph is split

    /// Who uses it: the C API marks that, and refuses a second thread.
    heddle::InUse in_use;

    /// A text that a C caller was given, kept up to the next one.
    std::string kept_text;

private:
    struct State;

    ggml_backend_sched(heddle::sched::Team team, const Options& options);

    heddle::Result<heddle::sched::RunnerId> runner_of(const heddle::Stream* stream,
                                                      std::string_view what) const;
    heddle::Result<> place_and_split(heddle::Graph& graph);
    heddle::Result<> retire_splits();
    heddle::Result<> renew_splits();
    void tell_model_of_constants();
    heddle::Result<> plan_memory(bool place);
    heddle::Result<> plan_on_available(heddle::Graph& graph, bool place);
    heddle::Result<> plan_anew(heddle::Graph& graph, bool place);
    heddle::Result<> measure_model(const std::string& cost_file);
    heddle::Result<bool> reuse(heddle::Graph& graph);
    heddle::Result<> allocate_keeping_leafs(heddle::Graph& graph);
    bool must_wait_to_plan();
    heddle::Result<> check_hazards();
    heddle::Result<> check_memory();
    void warn_of_growth();
    bool same_pins(const heddle::Graph& graph) const;
    bool same_constants() const;
    heddle::sched::WiredGraph* wired_before() const;
    std::size_t most_resized() const;
    heddle::Result<bool> accept(const std::optional<heddle::sched::Resize>& resize,
                                heddle::sched::WiredGraph& wired);
    void remember_pins();
    void forget_graph();
    void note_failure(const heddle::Error& error);
    bool leave_out(heddle::sched::RunnerId runner, const heddle::Error& reason);
    bool drop_unresponsive(const heddle::Error& error);
    bool readmit(bool now);

    heddle::sched::Team team_;
    Options options_;
    std::unique_ptr<State> state_;
};

namespace heddle {

using Scheduler = ::ggml_backend_sched;

}  // namespace heddle
