// What rank 0 puts into streams of workers, and how far they have come.
#include "backends/mpi/client/cluster.hpp"

namespace heddle::mpi {

std::uint32_t Cluster::add_stream(int rank) {
    const std::uint32_t number = next_number();
    const Guard guard(lock_);
    streams_[number].rank = rank;
    return number;
}

void Cluster::remove_stream(std::uint32_t stream) {
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
    HEDDLE_TRY(wait_for_room(guard, state.rank, command.size()));
    return send_in(state, std::move(command));
}

Result<> Cluster::issue_read(std::uint32_t stream, Bytes command, std::uint32_t request,
                             const Landing& landing) {
    Guard guard(lock_);
    StreamState& state = streams_.at(stream);
    HEDDLE_TRY(wait_for_room(guard, state.rank, command.size()));
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
    const auto nap = state.waits.nap();
    if (nap.count() > 0) {
        sleep_precisely();
        changed_.wait_for(guard, nap, is_done);
    }
    const auto begins =
        nap.count() > 0 ? Backoff::Begins::with_short_sleeps : Backoff::Begins::looking;
    auto outcome = wait_until(guard, state.rank, is_done, Backoff(begins));
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
    if (place == streams_.at(stream).issued) return wait_until(guard, rank, is_done);
    guard.unlock();
    const std::uint32_t request = next_number();
    ByteWriter out = begin({.kind = Kind::watch, .stream = stream, .place = place});
    out.put(request);
    HEDDLE_TRY(ask(rank, request, seal(std::move(out))));
    return ok();
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
