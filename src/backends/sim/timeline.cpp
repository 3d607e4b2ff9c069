#include "backends/sim/timeline.hpp"

#include <algorithm>
#include <cstring>

#include "ops/catalogue.hpp"

namespace heddle::sim {

Timeline::Timeline(std::shared_ptr<HostClock> clock, const Parameters& parameters,
                   std::string device, int host)
    : clock_(std::move(clock)), parameters_(parameters), device_(std::move(device)), host_(host) {
    set_faults(parameters.faults);
}

// ---- how long things take, and when they can begin ---------------------------------------------

double Timeline::over_link(std::size_t bytes) const {
    return parameters_.latency + static_cast<double>(bytes) / parameters_.link_bandwidth;
}

double Timeline::over_network(std::size_t bytes) const {
    return parameters_.hop + static_cast<double>(bytes) / parameters_.net_bandwidth;
}

const Engine& Timeline::network_out(int from, int to) const {
    static const Engine kNone;
    return from == to ? kNone : clock_->networks[from].out;
}
const Engine& Timeline::network_in(int from, int to) const {
    static const Engine kNone;
    return from == to ? kNone : clock_->networks[to].in;
}

void Timeline::occupy_network(int from, int to, Span span) {
    if (from == to) return;
    for (Engine* engine : {&clock_->networks[from].out, &clock_->networks[to].in}) {
        engine->forget_before(clock_->now);
        engine->occupy(span);
    }
}

double Timeline::in_memory(std::size_t bytes) const {
    return parameters_.latency + static_cast<double>(bytes) / parameters_.memory_bandwidth;
}

double Timeline::idle_from(const Lane* lane) const {
    return lane == nullptr ? clock_->now : std::max(clock_->now, lane->ready);
}

void Timeline::note(const Work& work, const Lane* lane, Span span) {
    if (!parameters_.trace) return;
    heddle_sim_item item{.kind = work.kind,
                         .stream = lane == nullptr ? 0 : lane->number,
                         .start = span.start,
                         .end = span.end,
                         .bytes = work.bytes,
                         .name = {}};
    std::memcpy(item.name, work.name.data(), std::min(work.name.size(), sizeof item.name - 1));
    trace_.push_back(item);
}

Span Timeline::occupy(Engine& engine, Lane* lane, const Work& work, Span span) {
    engine.forget_before(clock_->now);
    engine.occupy(span);
    (lane == nullptr ? clock_->now : lane->ready) = span.end;
    note(work, lane, span);
    return span;
}

Result<Span> Timeline::compute(Lane& lane, const Tensor& node, double far_bytes) {
    const Cost cost = cost_of(node);
    const double near_bytes = std::max(0.0, cost.bytes - far_bytes);
    const double duration =
        parameters_.latency +
        std::max({cost.flops / parameters_.flops, near_bytes / parameters_.memory_bandwidth,
                  far_bytes / parameters_.link_bandwidth});
    const std::lock_guard guard(clock_->lock);
    const double start = computing_.free_from(idle_from(&lane), duration);
    const Span span{start, start + duration};
    if (nodes_.strikes()) {
        return failure(Errc::device, "node ", describe(node), ", ", describe_op_of(node),
                       ", fails as it was told to");
    }
    HEDDLE_TRY(check_alive(span.end, "compute node", name_of(node)));
    return occupy(computing_, &lane, {HEDDLE_SIM_NODE, name_of(node), 0}, span);
}

Result<Span> Timeline::transfer(Lane* lane, Direction direction, std::size_t bytes,
                                std::string_view name) {
    const std::lock_guard guard(clock_->lock);
    const bool is_in = direction == Direction::in;
    Engine& engine = is_in ? copying_in_ : copying_out_;
    const int from = is_in ? 0 : host_, to = is_in ? host_ : 0;  // the program is on host 0
    const double duration =
        from == to ? over_link(bytes) : std::max(over_link(bytes), over_network(bytes));
    const double start = free_from({&engine, &network_out(from, to), &network_in(from, to)},
                                   idle_from(lane), duration);
    const Span span{start, start + duration};
    HEDDLE_TRY(check_copy(span.end, name));
    occupy_network(from, to, span);
    return occupy(engine, lane, {is_in ? HEDDLE_SIM_WRITE : HEDDLE_SIM_READ, name, bytes}, span);
}

Result<Span> Timeline::copy(Timeline& from, Lane* from_lane, Timeline& to, Lane* to_lane,
                            std::size_t bytes, std::string_view name) {
    const std::lock_guard guard(to.clock_->lock);
    const bool is_within = &from == &to;
    Engine& source = is_within ? from.computing_ : from.copying_out_;
    Engine& target = is_within ? to.computing_ : to.copying_in_;
    // The slowest of the links on the way; within a device every byte is read and written.
    double duration =
        is_within ? to.in_memory(2 * bytes) : std::max(from.over_link(bytes), to.over_link(bytes));
    if (from.host_ != to.host_) duration = std::max(duration, to.over_network(bytes));
    const double start =
        free_from({&source, &target, &to.network_out(from.host_, to.host_),
                   &to.network_in(from.host_, to.host_)},
                  std::max(from.idle_from(from_lane), to.idle_from(to_lane)), duration);
    const Span span{start, start + duration};
    if (!is_within) HEDDLE_TRY(to.remembered(from.check_alive(span.end, "copy", name)));
    HEDDLE_TRY(to.check_copy(span.end, name));
    source.forget_before(to.clock_->now);
    source.occupy(span);
    to.occupy_network(from.host_, to.host_, span);
    if (from_lane != nullptr) from_lane->ready = span.end;
    return to.occupy(target, to_lane, {HEDDLE_SIM_COPY, name, bytes}, span);
}

Result<Span> Timeline::fill(std::size_t bytes, std::string_view name) {
    const std::lock_guard guard(clock_->lock);
    const double duration = in_memory(bytes);
    const double start = computing_.free_from(idle_from(nullptr), duration);
    HEDDLE_TRY(remembered(check_alive(start + duration, "fill", name)));
    return occupy(computing_, nullptr, {HEDDLE_SIM_FILL, name, bytes}, {start, start + duration});
}

// ---- faults ------------------------------------------------------------------------------------

Result<> Timeline::check_alive(double end, std::string_view what, std::string_view name) const {
    if (lost_ < 0 || end <= lost_) return ok();
    return failure(Errc::device, device_, " was lost at ", lost_, " s: cannot ", what, " '", name,
                   "', which would end at ", end, " s");
}

Result<> Timeline::check_copy(double end, std::string_view name) {
    Result<> alive = check_alive(end, "copy", name);
    if (alive && copies_.strikes()) {
        alive = failure(Errc::device, "copy of '", name, "' fails as it was told to");
    }
    return remembered(std::move(alive));
}

/// Keeps a failure for the next graph, because a copy returns no status.
Result<> Timeline::remembered(Result<> outcome) {
    if (!outcome && !failure_) failure_ = outcome.error();
    return outcome;
}

Result<> Timeline::present() const {
    const std::lock_guard guard(clock_->lock);
    if (lost_ < 0 || clock_->now < lost_) return ok();
    return failure(Errc::device, device_, " was lost at ", lost_, " s");
}

Result<> Timeline::allocation(std::size_t bytes) {
    HEDDLE_TRY(present());
    const std::lock_guard guard(clock_->lock);
    if (allocations_.strikes()) {
        return failure(Errc::out_of_memory, "allocation of ", bytes,
                       " bytes fails as it was told to");
    }
    return ok();
}

void Timeline::set_faults(const FaultPlan& plan) {
    const std::lock_guard guard(clock_->lock);
    allocations_ = {plan.allocation};
    copies_ = {plan.copy};
    nodes_ = {plan.node};
    lost_ = plan.lost;
    failure_.reset();
}

std::optional<Error> Timeline::take_failure() {
    const std::lock_guard guard(clock_->lock);
    return std::exchange(failure_, std::nullopt);
}

// ---- clocks ------------------------------------------------------------------------------------

double Timeline::stands_at(const Lane& lane) const {
    const std::lock_guard guard(clock_->lock);
    return lane.ready;
}

void Timeline::wait_in(Lane& lane, double time) {
    const std::lock_guard guard(clock_->lock);
    lane.ready = std::max(lane.ready, time);
}

void Timeline::wait_on_host(double time) {
    const std::lock_guard guard(clock_->lock);
    clock_->now = std::max(clock_->now, time);
}

double Timeline::now() const {
    const std::lock_guard guard(clock_->lock);
    return std::max({computing_.end(), copying_in_.end(), copying_out_.end()});
}

double Timeline::host_now() const {
    const std::lock_guard guard(clock_->lock);
    return clock_->now;
}

double Timeline::advance_host(double seconds) {
    const std::lock_guard guard(clock_->lock);
    return clock_->now += std::max(seconds, 0.0);
}

std::vector<heddle_sim_item> Timeline::trace() const {
    const std::lock_guard guard(clock_->lock);
    return trace_;
}

void Timeline::clear_trace() {
    const std::lock_guard guard(clock_->lock);
    trace_.clear();
}

}  // namespace heddle::sim
