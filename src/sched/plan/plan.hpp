#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/alloc/graph_allocator.hpp"
#include "sched/plan/budget.hpp"
#include "sched/plan/constant_cache.hpp"
#include "sched/split.hpp"

/// The third stage: what is done on which stream in which order, what waits for what, and memory
/// for all of it.
namespace heddle::sched {

/// The streams of a runner. Copies have their own where the device gives them, so that they run
/// beside what it computes.
enum class Queue : std::uint8_t {
    compute,   ///< the caller's stream
    upload,    ///< from the host into the runner's memory
    download,  ///< out of it
    exchange,  ///< from other devices into it: what the host gives must not wait for these
};
inline constexpr std::array<std::string_view, 4> kQueueNames{"compute", "upload", "download",
                                                             "exchange"};
inline constexpr std::size_t kQueues = kQueueNames.size();

/// Of all queues of a team.
inline std::size_t number_of(RunnerId runner, Queue queue) {
    return static_cast<std::size_t>(runner) * kQueues + static_cast<std::size_t>(queue);
}

/// " upload" and so on; nothing for the runner's own stream.
std::string suffix_of(Queue queue);

/// One thing to do. Actions of one queue happen in their order; those of others when all that they
/// wait for is done.
struct Action {
    enum class Kind : std::uint8_t {
        copy,     ///< `index` is a copy; on the queue of the side that can do it in the background
        compute,  ///< `index` is a split
        write_back,  ///< `index` is a detour
    };
    Kind kind = Kind::compute;
    Queue queue = Queue::compute;
    RunnerId runner = kNoRunner;  ///< whose queue
    std::int32_t index = 0;
    std::uint32_t first_wait = 0, last_wait = 0;  ///< [first, last) of `Program::waits`
    bool awaited = false;                         ///< an action of another queue waits for it
};

/// Where the memory of a tensor that was placed is.
struct Home {
    Buffer* buffer = nullptr;
    void* data = nullptr;
};

struct Program {
    std::vector<Action> actions;  ///< in the order of submission
    std::vector<std::int32_t>
        waits;                ///< numbers of earlier actions, each the last needed of its queue
    std::vector<Home> homes;  ///< of each tensor of the graph; empty ones are not ours
    std::vector<std::size_t> rooms;       ///< bytes at the homes of roots: tensors may grow so far
    std::vector<std::size_t> copy_rooms;  ///< of the stand-ins of each copy; 0: not of the plan
    std::vector<TensorId> looks;     ///< views of memory that is not ours, placed where that is
    std::vector<Buffer*> forgetful;  ///< buffers that have to be told when tensors come anew
    bool prepares = false;           ///< there are buffers that have to be told of each tensor
    std::vector<Tensor*> stand_ins;  ///< those that have memory of the plan; see list_stand_ins
    std::vector<std::int32_t> action_of_split;
    std::vector<std::int32_t> action_of_copy;
    /// Of each copy: its place in the cache, which may have its bytes already; null for the others.
    std::vector<ConstantCache::Entry*> cached;
    std::vector<std::size_t> bytes;  ///< memory for the graph on each runner; shared: at the first
    /// Whether a run may begin on the devices while the last one goes on: every copy has a stand-in
    /// for each slot, and no device reads another's memory in place.
    bool overlaps_runs = false;
    /// A runner that computes within the call holds up actions of other queues that do not wait for
    /// it: it pays to submit it from a thread of its own.
    bool wants_threads = false;
    std::uint64_t serial = next_graph_uid();  ///< no other program has it
    /// Another one when it touches other buffers, which it may while nothing is under way.
    std::uint64_t memory_serial = serial;
};

struct PlanRequest {
    int slots = 1;
    bool place = true;      ///< give the tensors their memory; otherwise only reserve it
    bool unplaced = false;  ///< tensors are without memory of the allocator already
};

/// Orders the actions, finds what must wait for what, reserves memory in `memory` (whose ids are
/// the runners) and gives all tensors theirs. The graph's sources are as before when it returns,
/// and if it fails, its tensors too. Runs may be under way only where the
/// scheduler knows that memory of the last plan stays (`must_wait_to_plan`).
Result<Program> plan(const GraphIndex& index, const Placement& placement, Splits& splits,
                     Team& team, GraphAllocator& memory, ConstantCache& constants,
                     const PlanRequest& request);

/// Bytes for each runner that `plan` would reserve, copies in the cache not counted. Changes
/// nothing.
Result<std::vector<std::size_t>> measure(const GraphIndex& index, const Placement& placement,
                                         Splits& splits, Team& team, const GraphAllocator& memory,
                                         ConstantCache& constants);

/// Gives the tensors of the same graph, at other addresses, the memory of the plan. If that fails
/// they are as they were.
Result<> place_again(const Program& program, const GraphIndex& index);

/// For people: one line per action with its queue and what it waits for.
std::string to_text(const Program& program, const Splits& splits, const GraphIndex& index,
                    const Team& team);

/// While it lives, the sources of the splits' nodes are their copies of `slot`: those of the
/// caller's own nodes, which no backend sees.
class Patched {
public:
    Patched(const GraphIndex& index, Splits& splits, std::uint32_t first_patch,
            std::uint32_t last_patch, int slot);
    ~Patched();
    Patched(const Patched&) = delete;
    Patched& operator=(const Patched&) = delete;

private:
    const GraphIndex& index_;
    Splits& splits_;
    std::uint32_t first_, last_;
};

/// While it lives, tensors of the lists that lie in the allocator's own buffers are without memory,
/// so that they can be placed anew. They get it back unless that has happened or it is gone.
class Unplaced {
public:
    Unplaced(const Graph& graph, const GraphAllocator& memory);
    ~Unplaced();
    Unplaced(const Unplaced&) = delete;
    Unplaced& operator=(const Unplaced&) = delete;

    void keep() { tensors_.clear(); }  ///< what they have now

private:
    struct Lost {
        Tensor* tensor;
        Home home;
    };

    const GraphAllocator& memory_;
    std::vector<Lost> tensors_;
};

/// The same, a few tensors at a time: while others are still being compared with those that were
/// planned. All of them get back what they had, unless `finish` succeeds.
class PlacedAgain {
public:
    explicit PlacedAgain(const Program& program);
    ~PlacedAgain();
    PlacedAgain(const PlacedAgain&) = delete;
    PlacedAgain& operator=(const PlacedAgain&) = delete;

    /// Places the tensors from number `first` on; all before it have had their turn, and are parts
    /// of the same list, which stays. Those that a backend has to be told of wait for `finish`.
    void place(TensorId first, std::span<Tensor* const> tensors);

    /// Places all others of `index`, which was rebound.
    Result<> finish(const GraphIndex& index);

private:
    /// What a tensor had.
    enum class Before : std::uint8_t {
        as_now,   ///< the same, or it is among `had_`
        nothing,  ///< neither buffer nor address
        address,  ///< its address, but no buffer
    };

    void give(std::size_t id, const Home& home);
    Result<> look(std::size_t id);
    Result<> tell_backends();

    const Program& program_;
    Tensor* const* list_ = nullptr;        ///< the tensors, by number
    std::size_t end_ = 0;                  ///< of those that have had their turn
    std::size_t next_look_ = 0;            ///< in `Program::looks`
    std::vector<std::size_t> looks_left_;  ///< those that wait, by number
    std::vector<Before> before_;           ///< of each tensor
    std::vector<std::pair<Tensor*, Home>> had_;
    bool is_kept_ = false;
};

/// Notes which of the stand-ins have memory of the plan.
void list_stand_ins(Program& program, Splits& splits);

/// The tensor that runs at `position` of the order: the node, or its stand-in.
Tensor& runs_at(const GraphIndex& index, Splits& splits, std::int32_t position);

}  // namespace heddle::sched
