// What rank 0 puts into streams of workers, and how far they have come.
#include <algorithm>

#include "backends/mpi/client/cluster.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

/// Between two questions whether a stream is to stop.
constexpr std::chrono::milliseconds kAskEvery{10};

/// Whether there is work that is not done: to go on after a failure is none.
bool can_be_stopped(const StreamState& state) {
    return state.issued > std::max({state.done, state.abort.stopped, state.resumed});
}

}  // namespace

std::uint32_t Cluster::add_stream(int rank) {
    const std::uint32_t number = next_number();
    const Guard guard(lock_);
    streams_[number].rank = rank;
    return number;
}

void Cluster::remove_stream(std::uint32_t stream) {
    set_abort(stream, nullptr, nullptr);
    Guard guard(lock_);
    std::erase_if(arrivals_, [&](const auto& entry) { return entry.second.stream == stream; });
    const StreamState& state = streams_.at(stream);
    Bytes message = seal(begin({.kind = Kind::free_stream, .stream = stream}));
    if (state.is_there && wait_for_room(guard, state.rank, message.size())) {
        send(state.rank, std::move(message));
    }
    streams_.erase(stream);
}

std::uint64_t Cluster::send_in(StreamState& state, Bytes command) {
    if (state.done == state.issued) state.moved = Clock::now();
    set_place(command, ++state.issued);
    send(state.rank, std::move(command));
    return state.issued;
}

Result<std::uint64_t> Cluster::issue(std::uint32_t stream, Bytes command) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    HEDDLE_TRY(wait_for_room(guard, state.rank, command.size(), stream));
    return send_in(state, std::move(command));
}

Result<> Cluster::issue_to_all(std::span<const std::uint32_t> streams,
                               const std::function<Bytes(std::size_t)>& command) {
    Guard guard(lock_);
    Result<> outcome = ok();
    // They are small: the window may be passed by them.
    for (const std::uint32_t stream : streams) {
        auto has_room = wait_for_room(guard, streams_.at(stream).rank, kSmallMessage, stream);
        if (!has_room && outcome) outcome = std::move(has_room);
    }
    // All are there before one is sent: those that have theirs would wait for the others.
    std::vector<Bytes> messages(streams.size());
    for (std::size_t i = 0; i < streams.size(); ++i) messages[i] = command(i);
    for (std::size_t i = 0; i < streams.size(); ++i) {
        StreamState& state = streams_.at(streams[i]);
        if (!peer(state.rank).lost) send_in(state, std::move(messages[i]));
    }
    // Each has its part in what the others do.
    for (const std::uint32_t one : streams) {
        for (const std::uint32_t other : streams) {
            if (one != other) note_wait(streams_.at(one), other, streams_.at(other).issued);
        }
    }
    return outcome;
}

Result<> Cluster::issue_read(std::uint32_t stream, Bytes command, std::uint32_t request,
                             const Landing& landing) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    HEDDLE_TRY(wait_for_room(guard, state.rank, command.size(), stream));
    arrivals_[request] = {stream, send_in(state, std::move(command)), landing};
    return ok();
}

Result<> Cluster::drain(std::uint32_t stream) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    const auto is_done = [&] { return state.done >= state.issued; };
    if (is_done()) return ok();
    flush_all();
    const auto began = Clock::now();
    auto nap = state.waits.nap();
    if (state.abort.callback != nullptr) nap = std::min<Clock::duration>(nap, kAskEvery);
    if (nap.count() > 0) {
        sleep_precisely();
        changed_.wait_for(guard, nap, is_done);
    }
    const auto begins =
        nap.count() > 0 ? Backoff::Begins::with_short_sleeps : Backoff::Begins::looking;
    auto outcome = wait_until(guard, state.rank, is_done, stream, Backoff(begins));
    state.waits.note(Clock::now() - began);
    return outcome;
}

Result<> Cluster::wait_for(std::uint32_t stream, std::uint64_t place) {
    Guard guard(lock_);
    const auto is_done = [&] {
        const auto found = streams_.find(stream);
        return found == streams_.end() || found->second.done >= place;
    };
    if (is_done()) return ok();
    const int rank = streams_.at(stream).rank;
    // The worker says unasked when it has done all.
    if (place == streams_.at(stream).issued) return wait_until(guard, rank, is_done, stream);
    guard.unlock();
    const std::uint32_t request = next_number();
    ByteWriter out = begin({.kind = Kind::watch, .stream = stream, .place = place});
    out.put(request);
    HEDDLE_TRY(ask(rank, request, seal(std::move(out)), nullptr, stream));
    return ok();
}

// ---- stopping ----------------------------------------------------------------------------------

void Cluster::set_abort(std::uint32_t stream, ggml_abort_callback callback, void* data) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    const auto self = std::this_thread::get_id();
    changed_.wait(
        guard, [&] { return state.abort.asks == std::thread::id() || state.abort.asks == self; });
    abort_checks_ -= state.abort.callback != nullptr ? 1 : 0;
    abort_checks_ += callback != nullptr ? 1 : 0;
    state.abort.callback = callback;
    state.abort.data = data;
}

bool Cluster::is_to_ask(const StreamState& state) {
    const AbortCheck& check = state.abort;
    if (check.callback == nullptr || check.asks != std::thread::id()) return false;
    return can_be_stopped(state) && Clock::now() - check.asked >= kAskEvery;
}

std::uint32_t Cluster::stream_to_ask(std::uint32_t stream, Clock::time_point& next_look) const {
    if (stream == 0 || abort_checks_ == 0 || Clock::now() < next_look) return 0;
    next_look = Clock::now() + std::chrono::milliseconds(1);
    std::vector<std::uint32_t> waited_for{stream};
    for (std::size_t i = 0; i < waited_for.size(); ++i) {
        const auto found = streams_.find(waited_for[i]);
        if (found == streams_.end()) continue;
        if (is_to_ask(found->second)) return waited_for[i];
        for (const auto& [other, place] : found->second.behind) {
            if (std::ranges::count(waited_for, other) == 0) waited_for.push_back(other);
        }
    }
    return 0;
}

void Cluster::note_wait(std::uint32_t stream, std::uint32_t other, std::uint64_t place) {
    const Guard guard(lock_);
    note_wait(streams_.at(stream), other, place);
}

void Cluster::note_wait(StreamState& state, std::uint32_t other, std::uint64_t place) {
    std::erase_if(state.behind, [&](const auto& wait) {
        const auto found = streams_.find(wait.first);
        return found == streams_.end() || found->second.done >= wait.second;
    });
    std::uint64_t& last = state.behind[other];
    last = std::max(last, place);
}

void Cluster::ask_whether_to_stop(Guard& guard, std::uint32_t stream) {
    StreamState& state = streams_.at(stream);  // which is there until it is asked no more
    state.abort.asks = std::this_thread::get_id();
    const auto callback = state.abort.callback;
    void* const data = state.abort.data;
    guard.unlock();
    const bool stops = plugin::ask<bool>(false, [&] { return callback(data); });
    guard.lock();
    state.abort.asks = {};
    state.abort.asked = Clock::now();
    changed_.notify_all();
    if (!stops) return;
    stop(stream, state);
    // Others that would get the same answer: what this one waits for may be theirs.
    for (auto& [number, other] : streams_) {
        if (other.abort.callback == callback && other.abort.data == data) stop(number, other);
    }
}

void Cluster::stop(std::uint32_t stream, StreamState& state) {
    AbortCheck& check = state.abort;
    if (peer(state.rank).lost || !can_be_stopped(state)) return;
    check.stopped = state.issued;
    send(state.rank, seal(begin({.kind = Kind::abort, .stream = stream, .place = state.issued})));
    if (state.failure) return;
    state.failure = failure(Errc::aborted, "the abort callback asked to stop");
    state.is_told = false;
}

std::uint64_t Cluster::issued(std::uint32_t stream) const {
    const Guard guard(lock_);
    return streams_.at(stream).issued;
}

bool Cluster::is_done(std::uint32_t stream, std::uint64_t place) const {
    const Guard guard(lock_);
    const auto found = streams_.find(stream);
    return found == streams_.end() || (found->second.done >= place && !found->second.failure);
}

void Cluster::set_tracing(bool on) {
    const Guard guard(lock_);
    traces_ = on;
    for (auto& [number, state] : streams_) {
        if (state.is_there && (on || state.is_traced)) trace(number, state);
    }
}

void Cluster::trace(std::uint32_t stream, StreamState& state) {
    state.is_traced = traces_;
    if (peer(state.rank).lost) return;
    ByteWriter out = begin({.kind = Kind::trace, .stream = stream});
    out.put(static_cast<std::uint8_t>(traces_ ? 1 : 0));
    send(state.rank, seal(std::move(out)));
}

void Cluster::begin_stream(std::uint32_t stream) {
    const Guard guard(lock_);
    streams_.at(stream).is_there = true;
    if (traces_) trace(stream, streams_.at(stream));
}

std::vector<Cluster::TracedStream> Cluster::traced_streams() const {
    const Guard guard(lock_);
    std::vector<TracedStream> traced;
    for (const auto& [number, state] : streams_) {
        if (state.is_traced) traced.push_back({state.rank, number});
    }
    return traced;
}

std::optional<Error> Cluster::take_failure(std::uint32_t stream) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    if (peer(state.rank).lost) return peer(state.rank).lost;
    if (!state.failure) return std::nullopt;
    // Until then the worker has skipped what came behind the command that failed.
    Bytes resume = seal(begin({.kind = Kind::resume, .stream = stream}));
    if (wait_for_room(guard, state.rank, resume.size())) {
        state.resumed = send_in(state, std::move(resume));
    }
    return std::exchange(state.failure, std::nullopt);
}

std::optional<Error> Cluster::untold_failure(std::uint32_t stream) {
    const Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    if (!state.failure || std::exchange(state.is_told, true)) return std::nullopt;
    return state.failure;
}

}  // namespace heddle::mpi
