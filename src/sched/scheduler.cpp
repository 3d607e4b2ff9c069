#include "sched/scheduler.hpp"

#include <algorithm>
#include <optional>

#include "core/log.hpp"
#include "sched/check.hpp"
#include "sched/reorder.hpp"
#include "sched/scheduler_state.hpp"

using namespace heddle;
using namespace heddle::sched;

namespace {

/// A graph whose tensors get back what they had, when it goes: a graph is only reserved.
class AsBefore {
public:
    explicit AsBefore(const Graph& graph) {
        for (const auto tensors : {leafs_of(graph), nodes_of(graph)}) {
            for (Tensor* const each : tensors) {
                if (each != nullptr)
                    before_.push_back({each, each->buffer, each->data, each->extra});
            }
        }
    }
    ~AsBefore() {
        for (const Before& each : before_) {
            each.tensor->buffer = each.buffer;
            each.tensor->data = each.data;
            each.tensor->extra = each.extra;
        }
    }
    AsBefore(const AsBefore&) = delete;
    AsBefore& operator=(const AsBefore&) = delete;

private:
    struct Before {
        Tensor* tensor;
        Buffer* buffer;
        void *data, *extra;
    };
    std::vector<Before> before_;
};

/// Not while there are views of tensors outside of the graph that have no memory yet.
bool can_be_placed(const GraphIndex& index) {
    for (TensorId id = 0; static_cast<std::size_t>(id) < index.size(); ++id) {
        const TensorId root = index.root(id);
        if (root != id && !index.is_listed(root) && !index.had_memory(root)) return false;
    }
    return true;
}

}  // namespace

ggml_backend_sched::ggml_backend_sched(Team team, const Options& options)
    : team_(std::move(team)), options_(options) {}

ggml_backend_sched::~ggml_backend_sched() = default;

Result<std::unique_ptr<Scheduler>> ggml_backend_sched::make(std::span<Stream* const> streams,
                                                            std::span<BufferType* const> types,
                                                            const Options& options) {
    if (options.slots < 1 || options.slots > kMostSlots) {
        return invalid("scheduler: ", options.slots, " runs at a time asked for; 1 to ", kMostSlots,
                       " can be had");
    }
    HEDDLE_TRY_ASSIGN(Team team, Team::make(streams, types, options.offload));
    std::vector<BufferType*> memory_types;
    for (const Runner& runner : team.runners()) memory_types.push_back(runner.type);
    HEDDLE_TRY_ASSIGN(auto memory, GraphAllocator::make(memory_types));
    std::unique_ptr<Scheduler> made(new Scheduler(std::move(team), options));
    made->state_ = std::make_unique<State>(made->team_, std::move(memory));
    made->state_->constants.set_budgets(Budgets(made->team_.size()));
    return made;
}

// ---- stages ------------------------------------------------------------------------------------

/// Results of the last graph keep their memory, and its plan is good for a graph of the same kind.
void ggml_backend_sched::forget_graph() { state_->stage = State::Stage::none; }

void ggml_backend_sched::reset() {
    forget_graph();
    state_->pins.clear();
    state_->leafs_in_doubt = false;
}

/// Streams may have threads that have not read yet what they were given.
Result<> ggml_backend_sched::retire_splits() {
    State& s = *state_;
    constexpr std::size_t kMostRetired = 32;  // for callers that never wait
    if (s.under_way && s.retired.size() >= kMostRetired) HEDDLE_TRY(synchronize());
    if (s.under_way) s.retired.push_back(std::move(s.splits));
    s.splits = {};
    return ok();
}

/// The same splits for the next graph, while streams still read those of the last one.
Result<> ggml_backend_sched::renew_splits() {
    State& s = *state_;
    Splits copy = unwired(s.splits);
    HEDDLE_TRY(retire_splits());
    s.splits = std::move(copy);
    list_stand_ins(s.program, s.splits);
    return ok();
}

Result<> ggml_backend_sched::place_and_split(Graph& graph) {
    State& s = *state_;
    s.fingerprint.clear();
    s.program = {};
    HEDDLE_TRY(retire_splits());
    HEDDLE_TRY(s.index.read(graph));
    HEDDLE_TRY(check_graph(s.index));
    Abilities abilities(s.index, team_);
    if (s.policy == Policy::cost) {
        tell_model_of_constants();
        HEDDLE_TRY_ASSIGN(s.placement,
                          place_by_cost(abilities, s.pins, *s.model, s.constants.budgets()));
    } else {
        HEDDLE_TRY_ASSIGN(s.placement, place(abilities, s.pins));
    }
    HEDDLE_TRY_ASSIGN(s.splits, sched::split(abilities, s.placement, options_.slots));
    s.split_count = s.splits.splits.size();
    if (options_.debug > 0) {
        log_line(GGML_LOG_LEVEL_DEBUG, to_text(s.splits, s.index, team_));
    }
    if (options_.debug > 1) {
        log_line(GGML_LOG_LEVEL_DEBUG, to_text(s.placement, s.index, team_));
    }
    return ok();
}

/// Copies of constants that will be kept cost nothing.
void ggml_backend_sched::tell_model_of_constants() {
    State& s = *state_;
    for (std::size_t i = 0; i < team_.size(); ++i) {
        const auto id = static_cast<RunnerId>(i);
        const Runner& runner = team_[id];
        if (runner.on_host) continue;
        const std::size_t taken = s.constants.bytes_on(id);
        const Budget budget = s.constants.budget_of(id);
        s.model->set_kept_constants(id,
                                    budget.limit(heddle::memory_of(*runner.device), taken) + taken);
    }
}

Result<std::vector<std::size_t>> ggml_backend_sched::measure(Graph& graph) {
    forget_graph();
    State& s = *state_;
    const Unplaced unplaced(graph, *s.memory);
    HEDDLE_TRY(place_and_split(graph));
    return sched::measure(s.index, s.placement, s.splits, team_, *s.memory, s.constants);
}

Result<> ggml_backend_sched::reserve(Graph& graph) {
    forget_graph();
    HEDDLE_TRY(synchronize());
    HEDDLE_TRY(plan_on_available(graph, false));
    reset();
    return ok();
}

Result<> ggml_backend_sched::split(Graph& graph) {
    forget_graph();
    const Unplaced unplaced(graph, *state_->memory);
    HEDDLE_TRY(place_and_split(graph));
    state_->stage = State::Stage::split;
    return ok();
}

Result<> ggml_backend_sched::allocate(Graph& graph) {
    State& s = *state_;
    if (s.stage == State::Stage::allocated) {
        return invalid("scheduler: a graph of ", s.index.nodes().size(),
                       " nodes is allocated already; reset the scheduler before the next one");
    }
    forget_graph();
    s.leafs_in_doubt = false;
    HEDDLE_TRY_ASSIGN(const bool is_reused, reuse(graph));
    if (!is_reused) HEDDLE_TRY(plan_on_available(graph, true));
    // Leafs in memory of the host may be written when a run has been submitted; on devices only the
    // end of the run tells that their memory is not needed any more.
    if (s.leafs_on_devices && s.under_way) HEDDLE_TRY(synchronize());
    ++(is_reused ? s.counts.reused : s.counts.placed);
    s.stage = State::Stage::allocated;
    return ok();
}

/// A failure may come from a device that is gone, or from the lack of one that was left out.
Result<> ggml_backend_sched::plan_on_available(Graph& graph, bool place) {
    const std::uint64_t failed_runs = state_->failed_runs;
    auto planned = plan_anew(graph, place);
    // What failed may have been a run that this one waited for: another plan does not mend that.
    if (planned || state_->failed_runs != failed_runs) return planned;
    const bool is_back = readmit(true);
    const bool is_gone = drop_unresponsive(planned.error());
    return is_back || is_gone ? plan_anew(graph, place) : std::move(planned);
}

/// All stages. Without `place` the graph's tensors stay as they are, and the plan is for others
/// like it.
Result<> ggml_backend_sched::plan_anew(Graph& graph, bool place) {
    Unplaced unplaced(graph, *state_->memory);
    std::optional<AsBefore> as_before;
    if (!place) as_before.emplace(graph);
    HEDDLE_TRY(place_and_split(graph));
    HEDDLE_TRY(plan_memory(place || can_be_placed(state_->index)));
    if (place) unplaced.keep();
    return ok();
}

/// Whether a run that is under way might lose memory to the next plan: the buffers are too small,
/// or copies of constants have to make room.
bool ggml_backend_sched::must_wait_to_plan() {
    State& s = *state_;
    if (!s.under_way) return false;
    const auto limited = [](const Budget& budget) { return budget.kind == Budget::Kind::bytes; };
    const bool has_limit = std::ranges::any_of(s.constants.budgets(), limited);
    const auto needs_room = [&](const Copy& copy) {
        return copy.kind == Copy::Kind::constant &&
               (has_limit || !s.constants.has(s.index[copy.tensor], copy.to));
    };
    if (std::ranges::any_of(s.splits.copies, needs_room)) return true;
    const auto sizes =
        sched::measure(s.index, s.placement, s.splits, team_, *s.memory, s.constants);
    if (!sizes) return true;
    for (std::size_t id = 0; id < sizes->size(); ++id) {
        if ((*sizes)[id] == 0) continue;
        const auto chunks = s.memory->chunks(static_cast<int>(id));
        if (chunks.size() != 1 || chunks[0]->size < (*sizes)[id]) return true;
    }
    return false;
}

Result<> ggml_backend_sched::plan_memory(bool place) {
    State& s = *state_;
    if (must_wait_to_plan()) HEDDLE_TRY(synchronize());
    const PlanRequest request{.slots = options_.slots, .place = place, .unplaced = true};
    HEDDLE_TRY_ASSIGN(s.program, sched::plan(s.index, s.placement, s.splits, team_, *s.memory,
                                             s.constants, request));
    HEDDLE_TRY(reserve_scratch(s.splits, team_));
    warn_of_growth();
    if (!place) return ok();
    HEDDLE_TRY(check_hazards());
    s.leafs_on_devices = std::ranges::any_of(s.index.leafs(), [&](TensorId leaf) {
        Buffer* const buffer = s.program.homes[static_cast<std::size_t>(leaf)].buffer;
        return buffer != nullptr && !is_host(*buffer);
    });
    HEDDLE_TRY(wire(s.index, s.splits, s.next_slot));
    remember_pins();
    s.fingerprint.take(s.index, s.memory->own_buffers());
    return ok();
}

/// Refuses a plan that has any, if that is asked for.
Result<> ggml_backend_sched::check_hazards() {
    if (!options_.check_hazards) return ok();
    State& s = *state_;
    const std::vector<Hazard> hazards =
        find_hazards(s.index, s.placement, s.splits, s.program, team_, options_.slots);
    if (hazards.empty()) return ok();
    return failure(Errc::unsupported, "scheduler: the plan is not safe: ", hazards.front().text,
                   " (the first of ", hazards.size(), " hazards)");
}

void ggml_backend_sched::warn_of_growth() {
    if (options_.warn_realloc < 1) return;
    State& s = *state_;
    const std::size_t nodes = s.index.nodes().size(), leafs = s.index.leafs().size();
    const bool same_size = nodes == s.last_nodes && leafs == s.last_leafs;
    for (std::size_t id = 0; id < team_.size(); ++id) {
        const auto runner = static_cast<RunnerId>(id);
        const std::size_t bytes = s.memory->buffer_size(runner).value_or(0);
        if (bytes > s.last_sizes[id] && (same_size || options_.warn_realloc > 1)) {
            log_line(GGML_LOG_LEVEL_WARN, "scheduler: memory on ", team_[runner].name,
                     " had to grow from ", s.last_sizes[id], " to ", bytes,
                     " bytes for a graph of ", nodes, " nodes and ", leafs, " leafs");
        }
        s.last_sizes[id] = bytes;
    }
    s.last_nodes = nodes;
    s.last_leafs = leafs;
}
