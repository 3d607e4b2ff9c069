#pragma once

#include <list>
#include <optional>

#include "sched/scheduler.hpp"

/// What a scheduler keeps between calls; only its own source files look at it.
namespace heddle::sched {

/// A pin on a tensor of one of the graph's lists.
struct PinnedPlace {
    std::size_t place;  ///< of the nodes, leafs go on after them
    RunnerId runner;
};

/// How a device that failed comes back: after runs without it, the more the more often it failed.
struct Absence {
    std::uint32_t failures = 0;
    std::uint32_t runs_to_wait = 0;
};

}  // namespace heddle::sched

struct ggml_backend_sched::State {
    enum class Stage { none, split, allocated };

    State(heddle::sched::Team& team, std::unique_ptr<heddle::GraphAllocator> allocator)
        : memory(std::move(allocator)),
          constants(team),
          absences(team.size()),
          last_sizes(team.size()),
          submitter(team) {}

    Stage stage = Stage::none;

    // What the stages made. Kept when the graph is forgotten: the next one may be the same.
    heddle::sched::GraphIndex index;
    heddle::sched::Placement placement;
    heddle::sched::Splits splits;
    heddle::sched::Program program;
    heddle::sched::Fingerprint fingerprint;
    std::vector<heddle::sched::PinnedPlace> pinned_places;
    std::size_t pins_placed = 0;    ///< all that there were, also on tensors the graph lacks
    bool leafs_on_devices = false;  ///< leafs get memory that the host cannot address

    /// Of graphs before, with the nodes that streams may still read: until they are waited for.
    std::list<heddle::sched::Splits> retired;

    heddle::sched::Pins pins;
    Policy policy = Policy::rules;
    std::optional<heddle::sched::CostModel> model;
    Observer observer = nullptr;
    void* observer_data = nullptr;
    bool tracing = false, synchronous = false;

    std::unique_ptr<heddle::GraphAllocator> memory;
    heddle::sched::ConstantCache constants;
    std::vector<heddle::sched::Absence> absences;
    bool leafs_in_doubt = false;  ///< a run failed: the caller may go on with what it has written
    bool under_way = false;       ///< a run was begun and not waited for
    std::uint64_t failed_runs = 0;
    std::uint64_t emptied = 0;  ///< buffers of the process when memory was last looked at
    int next_slot = 0;
    std::vector<std::size_t> last_sizes;  ///< of the compute buffers, for warnings of growth
    std::size_t last_nodes = 0, last_leafs = 0;
    std::size_t split_count = 0;
    std::vector<heddle::sched::Timing> timings;
    Counts counts;

    heddle::sched::Submitter submitter;  ///< the last member: what is under way uses all the others
};
