// The scheduler's runs, what happens when they fail, its settings and what it answers.

#include <algorithm>

#include "core/last_error.hpp"
#include "core/log.hpp"
#include "core/root_buffer.hpp"
#include "heddle/backend/trace.h"
#include "runtime/buffer.hpp"
#include "runtime/device.hpp"
#include "runtime/transfer.hpp"
#include "sched/scheduler_state.hpp"

using namespace heddle;
using namespace heddle::sched;

// ---- runs --------------------------------------------------------------------------------------

/// The graph may have tensors that an allocator of the caller has placed, and that allocator may
/// have outgrown its memory since they were.
Result<> ggml_backend_sched::check_memory() {
    State& s = *state_;
    const std::uint64_t emptied = emptied_buffers();
    if (s.emptied == emptied) return ok();
    for (const Tensor* const tensor : s.index.tensors()) {
        const Buffer* const buffer = root_buffer(*tensor);
        if (buffer == nullptr || !has_lost_memory(*tensor, *buffer)) continue;
        return invalid("scheduler: ", describe(*tensor), kLostMemory);
    }
    s.emptied = emptied;
    return ok();
}

Result<> ggml_backend_sched::compute_async(Graph& graph) {
    State& s = *state_;
    if (s.stage != State::Stage::allocated) {
        HEDDLE_TRY(s.leafs_in_doubt ? allocate_keeping_leafs(graph) : allocate(graph));
    }
    if (auto checked = check_memory(); !checked) {
        static_cast<void>(synchronize());  // those before may be under way
        note_failure(checked.error());
        return checked;
    }
    const int slot = std::exchange(s.next_slot, (s.next_slot + 1) % options_.slots);
    s.timings.clear();
    const RunOptions run{.slot = slot,
                         .observer = s.observer,
                         .observer_data = s.observer_data,
                         .timings = s.tracing ? &s.timings : nullptr,
                         .synchronous = s.synchronous};
    ++s.counts.runs;
    s.under_way = true;
    if (auto done = s.submitter.run(s.index, s.splits, s.program, run); !done) {
        note_failure(done.error());
        return std::move(done).error();
    }
    readmit(false);
    return ok();
}

Result<> ggml_backend_sched::compute(Graph& graph) {
    HEDDLE_TRY(compute_async(graph));
    return synchronize();
}

Result<> ggml_backend_sched::synchronize() {
    State& s = *state_;
    s.next_slot = 0;
    s.under_way = false;
    auto done = s.submitter.synchronize();
    s.retired.clear();
    if (!done) note_failure(done.error());
    return done;
}

// ---- failures ----------------------------------------------------------------------------------

namespace {

/// While it lives devices are asked whether they work. What they say against it is for the log: the
/// caller's last sentence is about what the caller did.
class Questions {
public:
    Questions() = default;
    Questions(const Questions&) = delete;
    Questions& operator=(const Questions&) = delete;
    ~Questions() {
        if (!before_.heard()) return;
        if (sentence_.empty()) {
            forget_sentence();
        } else {
            keep_sentence(sentence_);
        }
    }

private:
    Listener before_;
    std::string sentence_ = last_sentence();
};

}  // namespace

/// Forgets the graph, and leaves a device out that failed.
void ggml_backend_sched::note_failure(const Error& error) {
    State& s = *state_;
    ++s.failed_runs;
    s.under_way = false;  // a run that fails is waited for
    s.retired.clear();
    s.next_slot = 0;
    s.leafs_in_doubt = s.leafs_in_doubt || s.stage == State::Stage::allocated;
    forget_graph();
    const RunnerId lost = s.submitter.failed();
    if (error.code == Errc::device && lost != kNoRunner) leave_out(lost, error);
}

/// Nothing runs on the device until it is let in again; what it kept counts as lost. The last
/// runner stays whatever happens, because no other could stand in for it.
bool ggml_backend_sched::leave_out(RunnerId runner, const Error& reason) {
    if (runner == team_.last() || !team_[runner].available) return false;
    State& s = *state_;
    team_.set_available(runner, false);
    s.fingerprint.clear();
    s.program = {};
    s.constants.clear(runner);
    Absence& absence = s.absences[static_cast<std::size_t>(runner)];
    constexpr std::uint32_t kMostDoublings = 10;
    absence.runs_to_wait = 1u << std::min(absence.failures++, kMostDoublings);
    log_line(GGML_LOG_LEVEL_WARN, "scheduler: going on without ", team_[runner].name, ": ",
             reason.message);
    return true;
}

/// A device that is gone has no memory to give, which looks like one that is full. Leaves out those
/// that do not answer although they say that they have room. Says whether there was one.
bool ggml_backend_sched::drop_unresponsive(const Error& error) {
    if (error.code != Errc::out_of_memory) return false;
    const Questions questions;
    constexpr std::size_t kEnoughToAnswer = std::size_t{64} << 10;
    bool any = false;
    for (std::size_t i = 0; i < team_.size(); ++i) {
        const auto runner = static_cast<RunnerId>(i);
        if (!team_[runner].available || team_[runner].on_host) continue;
        const DeviceMemory memory = heddle::memory_of(*team_[runner].device);
        const bool is_full = memory.total > 0 && memory.free < kEnoughToAnswer;
        if (is_full || state_->submitter.answers(runner)) continue;
        any |= leave_out(runner, error);
    }
    return any;
}

/// Lets devices in again that were left out and do what they are told. `now`: without waiting for
/// runs to succeed without them. Says whether there was one.
bool ggml_backend_sched::readmit(bool now) {
    State& s = *state_;
    const auto is_there = [](const Runner& runner) { return runner.available; };
    if (std::ranges::all_of(team_.runners(), is_there)) return false;
    const Questions questions;
    bool any = false;
    for (std::size_t i = 0; i < team_.size(); ++i) {
        const auto runner = static_cast<RunnerId>(i);
        Absence& absence = s.absences[i];
        if (team_[runner].available || (!now && --absence.runs_to_wait > 0)) continue;
        if (!s.submitter.answers(runner)) {
            absence.runs_to_wait = 1;
            continue;
        }
        team_.set_available(runner, true);
        s.fingerprint.clear();  // of a plan without it; a graph that is allocated keeps that
        any = true;
        log_line(GGML_LOG_LEVEL_INFO, "scheduler: ", team_[runner].name, " works again");
    }
    return any;
}

/// A caller whose run failed may try again with the graph it has filled. If the plan has changed
/// meanwhile, what it wrote moves along.
Result<> ggml_backend_sched::allocate_keeping_leafs(Graph& graph) {
    struct Kept {
        Tensor* leaf;
        const Buffer* buffer;
        const void* data;
        std::vector<std::byte> bytes;
    };
    std::vector<Kept> kept;
    const auto own = state_->memory->own_buffers();
    for (Tensor* const leaf : leafs_of(graph)) {
        if (leaf->view_src != nullptr || std::ranges::find(own, leaf->buffer) == own.end())
            continue;
        Kept copy{leaf, leaf->buffer, leaf->data, std::vector<std::byte>(byte_size(*leaf))};
        if (auto read = read_tensor(*leaf, copy.bytes.data(), 0, copy.bytes.size()); !read) {
            state_->leafs_in_doubt = false;  // once told, it is the caller's to write them again
            return std::move(read).error().within(
                text("scheduler: what was written to ", describe(*leaf), " is lost"));
        }
        kept.push_back(std::move(copy));
    }
    if (auto allocated = allocate(graph); !allocated) {
        state_->leafs_in_doubt = true;
        return std::move(allocated).error();
    }
    for (const Kept& copy : kept) {
        if (copy.leaf->buffer == copy.buffer && copy.leaf->data == copy.data) continue;
        HEDDLE_TRY(write_tensor(*copy.leaf, copy.bytes.data(), 0, copy.bytes.size()));
    }
    return ok();
}

// ---- settings ----------------------------------------------------------------------------------

Result<RunnerId> ggml_backend_sched::runner_of(const Stream* stream, std::string_view what) const {
    const RunnerId runner = team_.find(stream);
    if (runner == kNoRunner) return invalid("scheduler: ", what, ": the stream is none of its own");
    return runner;
}

Result<> ggml_backend_sched::pin(const Tensor& tensor, const Stream* stream) {
    HEDDLE_TRY_ASSIGN(const RunnerId runner, runner_of(stream, text("pin of ", describe(tensor))));
    state_->pins[&tensor] = runner;
    return ok();
}

void ggml_backend_sched::observe(Observer observer, void* data) {
    state_->observer = observer;
    state_->observer_data = data;
}

Result<> ggml_backend_sched::set_slots(int slots) {
    if (slots < 1 || slots > kMostSlots) {
        return invalid("scheduler: ", slots, " runs at a time asked for; 1 to ", kMostSlots,
                       " can be had");
    }
    HEDDLE_TRY(synchronize());
    reset();
    if (slots != options_.slots) state_->fingerprint.clear();
    options_.slots = slots;
    return ok();
}

ggml_backend_sched::Policy ggml_backend_sched::policy() const { return state_->policy; }

Result<> ggml_backend_sched::set_policy(Policy policy) {
    State& s = *state_;
    if (policy == Policy::cost && !s.model) HEDDLE_TRY(measure_model(options_.cost_file));
    if (policy != s.policy) s.fingerprint.clear();
    s.policy = policy;
    return ok();
}

Result<> ggml_backend_sched::measure_model(const std::string& cost_file) {
    HEDDLE_TRY(synchronize());
    HEDDLE_TRY_ASSIGN(CostModel model, measure_costs(team_, cost_file));
    state_->model = std::move(model);
    state_->fingerprint.clear();
    return ok();
}

Result<> ggml_backend_sched::set_cost_file(std::string path) {
    if (path == options_.cost_file) return ok();
    if (state_->policy == Policy::cost) {
        HEDDLE_TRY(measure_model(path));
    } else {
        state_->model.reset();
    }
    options_.cost_file = std::move(path);
    return ok();
}

Result<> ggml_backend_sched::set_budget(const Stream* stream, Budget budget) {
    HEDDLE_TRY_ASSIGN(const RunnerId runner, runner_of(stream, "budget"));
    State& s = *state_;
    Budgets budgets = s.constants.budgets();
    budgets[static_cast<std::size_t>(runner)] = budget;
    s.constants.set_budgets(std::move(budgets));
    s.fingerprint.clear();
    return ok();
}

void ggml_backend_sched::set_tracing(bool on) {
    state_->tracing = on;
    for (RunnerId i = 0; i <= team_.last(); ++i) {
        const auto& runner = team_[i];
        if (runner.device == nullptr || runner.device->reg == nullptr) continue;
        const auto trace = reinterpret_cast<heddle_stream_trace_t>(
            find_function(*runner.device->reg, HEDDLE_STREAM_TRACE));
        if (trace != nullptr) trace(runner.stream, on);
    }
}
void ggml_backend_sched::set_synchronous(bool on) { state_->synchronous = on; }

void ggml_backend_sched::set_check_hazards(bool on) {
    if (on && !options_.check_hazards) state_->fingerprint.clear();
    options_.check_hazards = on;
}

// ---- questions ---------------------------------------------------------------------------------

Stream* ggml_backend_sched::stream_of(const Tensor& tensor) const {
    const State& s = *state_;
    if (s.stage != State::Stage::none) {
        const TensorId id = s.index.find(&tensor);
        const RunnerId runner = id != kNoTensor ? s.placement[id].runner : kNoRunner;
        if (runner != kNoRunner) return team_[runner].stream;
    }
    const auto pin = s.pins.find(&tensor);
    return pin != s.pins.end() ? team_[pin->second].stream : nullptr;
}

std::size_t ggml_backend_sched::split_count() const { return state_->split_count; }

Result<std::size_t> ggml_backend_sched::memory_of(const Stream* stream) const {
    HEDDLE_TRY_ASSIGN(const RunnerId runner, runner_of(stream, "size of a compute buffer"));
    return state_->memory->buffer_size(runner);
}

ggml_backend_sched::Counts ggml_backend_sched::counts() const {
    Counts counts = state_->counts;
    counts.copies_made = state_->submitter.copies_made();
    counts.copies_skipped = state_->submitter.copies_skipped();
    return counts;
}

Result<ggml_backend_sched::View> ggml_backend_sched::view() {
    State& s = *state_;
    if (s.stage == State::Stage::none) {
        return failure(Errc::not_found, "scheduler: there is no schedule: no graph is split");
    }
    std::vector<Hazard> hazards;
    if (s.stage == State::Stage::allocated) {
        hazards = find_hazards(s.index, s.placement, s.splits, s.program, team_, options_.slots);
    }
    return View{.index = s.index,
                .placement = s.placement,
                .splits = s.splits,
                .program = s.program,
                .team = team_,
                .model = s.model ? &*s.model : nullptr,
                .timings = s.timings,
                .memory = *s.memory,
                .hazards = std::move(hazards),
                .by_cost = s.policy == Policy::cost};
}
