#include "backends/mpi/client/cluster.hpp"

#include <algorithm>
#include <cmath>

#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

constexpr std::chrono::seconds kGoodbye{2};  ///< for the last messages to get away

/// To a tenth.
double seconds(Clock::duration time) {
    return std::round(std::chrono::duration<double>(time).count() * 10) / 10;
}

}  // namespace

ByteWriter question(Kind kind, std::uint32_t request, std::size_t expected) {
    ByteWriter out = begin({.kind = kind}, expected);
    out.put(request);
    return out;
}

// ---- beginning and end -------------------------------------------------------------------------

Cluster::Cluster(std::unique_ptr<Fabric> fabric, const Settings& settings)
    : owned_(std::move(fabric)),
      settings_(settings),
      peers_(static_cast<std::size_t>(owned_->size())) {}

Result<std::unique_ptr<Cluster>> Cluster::start(std::unique_ptr<Fabric> fabric,
                                                const Settings& settings) {
    std::unique_ptr<Cluster> made(new Cluster(std::move(fabric), settings));
    HEDDLE_TRY(made->gather());
    made->begin_thread();
    return made;
}

Result<> Cluster::gather() {
    const auto until = Clock::now() + settings_.start_timeout;
    const auto is_known = [](const Peer& peer) { return peer.takes_part || peer.lost.has_value(); };
    Backoff backoff;
    Guard guard(lock_);
    while (!std::all_of(peers_.begin() + 1, peers_.end(), is_known) && Clock::now() < until) {
        if (!take_in()) backoff.pause();
    }
    for (int rank = 1; rank < size(); ++rank) {
        Peer& each = peer(rank);
        each.heard = Clock::now();
        if (!is_known(each)) {
            lose(rank, text("no worker is there after ", seconds(settings_.start_timeout), " s"));
        }
    }
    tell_losses(guard);
    const auto takes_part = [](const Peer& peer) { return peer.takes_part && !peer.lost; };
    if (std::any_of(peers_.begin(), peers_.end(), takes_part)) return ok();
    if (size() > 1) return *peer(1).lost;
    return failure(Errc::not_found, "MPI: there is no other rank");
}

void Cluster::begin_thread() {
    thread_ = std::thread([this] { watch_over(); });
}

Cluster::~Cluster() { leave(); }

void Cluster::leave() {
    {
        const Guard guard(lock_);
        stops_ = true;
        if (std::exchange(has_left_, true)) return;
    }
    if (thread_.joinable()) thread_.join();
    Guard guard(lock_);
    bool is_whole = true;
    for (int rank = 1; rank < size(); ++rank) {
        if (peer(rank).lost || !peer(rank).takes_part) {
            is_whole = false;
        } else {
            send(rank, seal(begin({.kind = Kind::goodbye})));
        }
    }
    const auto until = Clock::now() + kGoodbye;
    const auto is_sent = [&](int rank) { return peer(rank).lost || fabric_.unsent(rank) == 0; };
    Backoff backoff;
    for (int rank = 1; rank < size(); ++rank) {
        while (!is_sent(rank) && Clock::now() < until) {
            if (!take_in()) backoff.pause();
        }
        is_whole = is_whole && is_sent(rank);
    }
    if (is_whole) fabric_.finish();
    for (int rank = 1; rank < size(); ++rank) {
        if (!peer(rank).lost) peer(rank).lost = failure(Errc::device, "MPI", rank, ": was left");
    }
    tell_losses(guard);
}

/// Takes in what arrives while no other thread waits for anything, and looks who is silent.
void Cluster::watch_over() {
    const NoPipeSignal guard_of_thread;
    Guard guard(lock_);
    while (!stops_) {
        std::chrono::microseconds pause{1000};
        // What is thrown here would end the program. Where there was no memory there may be later.
        static_cast<void>(plugin::attempt([&] { pause = look_after_workers(); }));
        tell_losses(guard);
        guard.unlock();
        std::this_thread::sleep_for(pause);
        guard.lock();
    }
}

/// Gives the time until this is to be done again.
std::chrono::microseconds Cluster::look_after_workers() {
    constexpr std::chrono::microseconds kMoving{20}, kBusy{100}, kIdle{1000};
    if (!is_driven_) {
        bool any = false;
        while (take_in()) any = true;
        look_for_silence();
        if (any) changed_.notify_all();
    }
    if (Clock::now() - pinged_ > settings_.timeout / 4) ping();
    flush_all();
    if (is_driven_) return kIdle;
    if (fabric_.is_moving()) return kMoving;
    return requests_.empty() && arrivals_.empty() ? kIdle : kBusy;
}

/// Workers leave when they hear nothing of rank 0.
void Cluster::ping() {
    pinged_ = Clock::now();
    for (int rank = 1; rank < size(); ++rank) {
        const Peer& each = peer(rank);
        if (each.takes_part && !each.lost) send(rank, seal(begin({.kind = Kind::ping})));
    }
}

void Cluster::look_for_silence() {
    look_for_standstill();
    const auto now = Clock::now();
    for (int rank = 1; rank < size(); ++rank) {
        const Peer& each = peer(rank);
        if (!each.takes_part || each.lost || now - each.heard < settings_.timeout) continue;
        // The silence may have been this process's own.
        if (take_in()) return;
        lose(rank, text("nothing was heard of rank ", rank, " on ", each.facts.host, " for ",
                        seconds(now - each.heard), " s"));
    }
}

/// A worker may live, and one of its streams compute for ever.
void Cluster::look_for_standstill() {
    if (settings_.graph_timeout.count() == 0) return;
    const auto now = Clock::now();
    for (const auto& [number, stream] : streams_) {
        if (stream.done >= stream.issued || now - stream.moved < settings_.graph_timeout) continue;
        lose(stream.rank, text("a graph, with what it waits for, takes longer than the ",
                               seconds(settings_.graph_timeout), " s of HEDDLE_MPI_GRAPH_TIMEOUT"));
    }
}

void Cluster::lose(int rank, std::string_view why) {
    Peer& gone = peer(rank);
    if (gone.lost) return;
    gone.lost = failure(Errc::device, "MPI", rank, ": lost: ", why);
    untold_losses_.push_back(gone.lost->message);
    std::erase_if(arrivals_, [&](const auto& entry) {
        const auto stream = streams_.find(entry.second.stream);
        return stream == streams_.end() || stream->second.rank == rank;
    });
    if (gone.takes_part) {  // if it still hears anything, it need not wait for more
        ByteWriter out = begin({.kind = Kind::refused});
        out.text(why.substr(0, kLongestSentence));
        fabric_.send(rank, seal(std::move(out)));
    }
    fabric_.forget(rank);
    for (int other = 1; other < size(); ++other) {
        if (other != rank) cancel(other, rank);
    }
    changed_.notify_all();
}

void Cluster::tell_losses(Guard& guard) {
    const auto sentences = std::exchange(untold_losses_, {});
    if (sentences.empty()) return;
    guard.unlock();
    for (const std::string& sentence : sentences) plugin::log(GGML_LOG_LEVEL_WARN, sentence);
    guard.lock();
}

void Cluster::cancel(int rank, int gone) {
    if (!peer(rank).takes_part || peer(rank).lost) return;
    ByteWriter out = begin({.kind = Kind::cancel});
    out.put(static_cast<std::uint32_t>(gone));
    send(rank, seal(std::move(out)));
}

std::optional<Error> Cluster::loss(int rank) const {
    const Guard guard(lock_);
    return peer(rank).lost;
}

plugin::MemoryAmount Cluster::memory(int rank, std::size_t device) const {
    const Guard guard(lock_);
    const Peer& owner = peer(rank);
    return owner.lost || device >= owner.memory.size() ? plugin::MemoryAmount{}
                                                       : owner.memory[device];
}

void Cluster::note_memory(int rank, std::size_t device, plugin::MemoryAmount amount) {
    const Guard guard(lock_);
    peer(rank).memory[device] = {std::min(amount.free, amount.total), amount.total};
}

// ---- sending and waiting -----------------------------------------------------------------------

Result<> Cluster::wait_for_room(Guard& guard, int rank, std::size_t bytes, std::uint32_t stream) {
    const Peer& to = peer(rank);
    const auto has_room = [&] {
        const bool is_taken = to.in_flight == 0 || to.in_flight + bytes <= kWindow;
        return is_taken && fabric_.unsent(rank) <= SharedFabric::kMostUnsent;
    };
    HEDDLE_TRY(wait_until(guard, rank, has_room, stream));
    if (to.lost) return *to.lost;
    return ok();
}

void Cluster::send(int rank, Bytes message) {
    Peer& to = peer(rank);
    if (message.size() > kSmallMessage) {
        flush(rank);
        to.in_flight += message.size();
        to.sent += message.size();
        fabric_.send(rank, std::move(message));
        return;
    }
    const Kind kind = kind_of(message);
    to.batch.insert(to.batch.end(), message.begin(), message.end());
    ++to.batched;
    if (!can_wait(kind) || to.batch.size() > kLongestBatch) flush(rank);
}

void Cluster::flush(int rank) {
    Peer& to = peer(rank);
    if (to.batched > 1) {
        ByteWriter out = begin({.kind = Kind::batch}, to.batch.size());
        out.raw(to.batch);
        to.batch = seal(std::move(out));
    }
    to.batched = 0;
    if (to.batch.empty()) return;
    to.in_flight += to.batch.size();
    to.sent += to.batch.size();
    fabric_.send(rank, std::exchange(to.batch, {}));
}

void Cluster::flush_all() {
    for (int rank = 1; rank < size(); ++rank) flush(rank);
}

Result<> Cluster::post(int rank, Bytes message) {
    Guard guard(lock_);
    HEDDLE_TRY(wait_for_room(guard, rank, message.size()));
    send(rank, std::move(message));
    return ok();
}

Result<Bytes> Cluster::ask(int rank, std::uint32_t request, Bytes question, Landing* landing,
                           std::uint32_t stream) {
    Guard guard(lock_);
    Request& open = requests_[request];
    open.rank = rank;
    open.landing = landing;
    // Also what is thrown is a failure here: nothing may arrive in `landing` after this call.
    auto answered = plugin::attempt([&]() -> Result<> {
        HEDDLE_TRY(wait_for_room(guard, rank, question.size()));
        send(rank, std::move(question));
        const auto is_answered = [&] { return open.answer.has_value(); };
        return wait_until(guard, rank, is_answered, stream);
    });
    const std::optional<Bytes> answer = std::move(open.answer);
    requests_.erase(request);
    if (!answer) return std::move(answered).error();
    ByteReader in(*answer);
    HEDDLE_TRY(get_outcome(in));
    const ByteView rest = in.rest();
    return Bytes(rest.begin(), rest.end());
}

Result<double> Cluster::ping_pong(int from, int to, std::size_t bytes, int rounds) {
    if (bytes < 1 || bytes > kChunk || rounds < 1 || rounds > static_cast<int>(kMostRounds) ||
        from == to) {
        return invalid(rounds, " messages of ", bytes, " bytes from rank ", from, " to ", to);
    }
    const auto tell = [&](int rank, int other, std::uint32_t request) {
        ByteWriter out = question(Kind::measure, request);
        out.put(static_cast<std::uint32_t>(other));
        out.put(static_cast<std::uint8_t>(rank == from ? 1 : 0));
        out.put(static_cast<std::uint32_t>(bytes));
        out.put(static_cast<std::uint32_t>(rounds));
        return seal(std::move(out));
    };
    const std::uint32_t there = next_number(), here = next_number();
    Guard guard(lock_);
    for (const int rank : {from, to}) {
        if (peer(rank).lost) return *peer(rank).lost;
    }
    requests_[there].rank = to;
    send(to, tell(to, from, there));
    double seconds = 0;  // there was none
    if (from == 0) {
        seconds = fabric_.ping_pong({to, true, bytes, rounds}, Clock::now() + settings_.timeout / 2)
                      .value_or(0);
    } else {
        requests_[here].rank = from;
        send(from, tell(from, to, here));
        auto answered = wait_until(guard, from, [&] { return requests_[here].answer.has_value(); });
        if (const auto& answer = requests_[here].answer) {
            ByteReader in(*answer);
            if (get_outcome(in)) seconds = in.get<double>();
        }
        requests_.erase(here);
        if (!answered) seconds = 0;
    }
    auto answered = wait_until(guard, to, [&] { return requests_[there].answer.has_value(); });
    requests_.erase(there);
    HEDDLE_TRY(std::move(answered));
    if (seconds > 0) return seconds;
    return failure(Errc::unsupported, "MPI: no ping-pong between rank ", from, " and ", to);
}

void Cluster::measure_links() {
    constexpr std::size_t kSmall = 64;
    for (int rank = 1; rank < size(); ++rank) {
        if (!takes_part(rank)) continue;
        const auto few = ping_pong(0, rank, kSmall, 20), many = ping_pong(0, rank, kChunk, 3);
        if (few && many) peer(rank).link = {2 * static_cast<double>(kChunk) / *many, *few / 2};
    }
}

std::size_t Cluster::sent(int rank) const {
    const Guard guard(lock_);
    return peer(rank).sent;
}

}  // namespace heddle::mpi
