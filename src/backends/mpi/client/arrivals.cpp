// What workers say, as rank 0 takes it in. They may be broken: every number is checked.
#include <algorithm>

#include "backends/mpi/client/cluster.hpp"
#include "heddle/backend/guard.hpp"

namespace heddle::mpi {
namespace {

Error nonsense(std::string_view what) { return failure(Errc::corrupt, "it sent ", what); }

/// Puts a part of what was asked for where it belongs.
Result<> land(Landing& landing, std::uint64_t offset, ByteView bytes) {
    if (offset != landing.arrived || bytes.size() > landing.total - landing.arrived) {
        return nonsense("more than it was asked for");
    }
    landing.arrived += bytes.size();
    while (!bytes.empty()) {
        const std::size_t piece = offset / landing.piece, within = offset % landing.piece;
        const std::size_t size = std::min(bytes.size(), landing.piece - within);
        std::memcpy(landing.data + piece * landing.stride + within, bytes.data(), size);
        bytes = bytes.subspan(size);
        offset += size;
    }
    return ok();
}

}  // namespace

bool Cluster::take_in() {
    const auto taken = plugin::attempt([&] { return take_one(); });
    return taken && *taken;
}

bool Cluster::take_one() {
    std::optional<Message> message = fabric_.receive();
    if (!message) return false;
    const int rank = message->source;
    if (rank <= 0 || rank >= size() || peer(rank).lost) return true;
    auto handled = plugin::attempt([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const Opened opened, open(*message));
        return handle(rank, opened);
    });
    if (!handled) lose(rank, handled.error().message);
    return true;
}

Result<> Cluster::handle(int rank, const Opened& message) {
    Peer& from = peer(rank);
    from.heard = Clock::now();
    if (message.header.credit > from.in_flight) return nonsense("a receipt for more than it got");
    from.in_flight -= message.header.credit;
    ByteReader in(message.body);
    if (!from.takes_part && message.header.kind != Kind::hello) {
        return nonsense("something before it said who it is");
    }
    switch (message.header.kind) {
        case Kind::hello:
            return handle_hello(rank, in);
        case Kind::beat:
            return handle_beat(rank, in);
        case Kind::answer:
            return handle_answer(rank, in);
        case Kind::data:
            return handle_data(rank, in);
        case Kind::done:
            return handle_done(rank, message.header, in);
        case Kind::reject:
            return failure(Errc::corrupt, "it cannot go on: ", in.text());
        case Kind::given_up:
            return handle_given_up(rank, in);
        default:
            return nonsense("a message that workers do not send");
    }
}

Result<> Cluster::handle_hello(int rank, ByteReader& in) {
    Peer& from = peer(rank);
    if (from.takes_part) return nonsense("who it is, twice");
    HEDDLE_TRY_ASSIGN(from.facts, get_facts(in));
    const std::string reason = refusal(from.facts, own_);
    ByteWriter out = begin({.kind = reason.empty() ? Kind::welcome : Kind::refused});
    if (reason.empty()) {
        out.put(static_cast<std::uint32_t>(settings_.timeout.count()));
        out.put(settings_.polling.microseconds);
    } else {
        out.text(reason);
    }
    send(rank, seal(std::move(out)));
    if (!reason.empty()) {
        from.lost = failure(Errc::unsupported, "MPI", rank, ": refused: ", reason);
        untold_losses_.push_back(from.lost->message);
        return ok();
    }
    for (const DeviceFacts& device : from.facts.devices) {
        from.memory.push_back({device.free, device.total});
    }
    from.takes_part = true;
    return ok();
}

Result<> Cluster::handle_beat(int rank, ByteReader& in) {
    for (plugin::MemoryAmount& amount : peer(rank).memory) {
        amount.free = in.get<std::uint64_t>();
        amount.total = in.get<std::uint64_t>();
        amount.free = std::min(amount.free, amount.total);
    }
    return in.finished() ? ok() : Result<>(nonsense("a report of memory that breaks off"));
}

Result<> Cluster::handle_answer(int rank, ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    const ByteView body = in.rest();
    const auto found = requests_.find(number);
    // The thread that asked may have stopped waiting because it had no memory left.
    if (found == requests_.end() && number < next_number_) return ok();
    if (found == requests_.end() || found->second.rank != rank || found->second.answer) {
        return nonsense("an answer to what it was not asked");
    }
    found->second.answer.emplace(body.begin(), body.end());
    return ok();
}

Result<> Cluster::handle_data(int rank, ByteReader& in) {
    const auto number = in.get<std::uint32_t>();
    const auto offset = in.get<std::uint64_t>();
    const ByteView bytes = in.rest();
    if (!in.ok()) return nonsense("data that break off");
    if (const auto asked = requests_.find(number);
        asked != requests_.end() && asked->second.rank == rank && asked->second.landing) {
        return land(*asked->second.landing, offset, bytes);
    }
    const auto expected = arrivals_.find(number);
    if (expected == arrivals_.end()) {
        return ok();  // the stream is gone, and with it the wish for them
    }
    const auto stream = streams_.find(expected->second.stream);
    if (stream == streams_.end() || stream->second.rank != rank) {
        return nonsense("data that another rank was asked for");
    }
    return land(expected->second.landing, offset, bytes);
}

/// The other one may wait for what does not come any more.
Result<> Cluster::handle_given_up(int rank, ByteReader& in) {
    const auto other = get_other_worker(in, rank, size());
    if (!other || !in.finished()) return nonsense("that it gives up what is no other worker");
    if (settings_.sums == SumsBy::mpi) {  // the rest of a group would wait for the two inside MPI
        return failure(Errc::device, "it has nothing more to do with rank ", *other,
                       ", with which it may have to add up");
    }
    cancel(*other, rank);
    return ok();
}

Result<> Cluster::handle_done(int rank, const Header& header, ByteReader& in) {
    const auto found = streams_.find(header.stream);
    if (found == streams_.end()) return ok();  // freed meanwhile
    StreamState& state = found->second;
    if (state.rank != rank || header.place > state.issued || header.place < state.done) {
        return nonsense("that a stream has come further than it was told to");
    }
    state.done = header.place;
    state.moved = Clock::now();
    auto outcome = get_outcome(in);
    if (!outcome && !in.ok()) return outcome;
    bool is_short = false;
    std::erase_if(arrivals_, [&](const auto& entry) {
        const Arrival& arrival = entry.second;
        if (arrival.stream != header.stream || arrival.place > header.place) return false;
        // What came behind a failure was skipped, until the worker was told to go on.
        const bool may_lack = arrival.place < state.resumed;
        is_short = is_short || (!may_lack && arrival.landing.arrived < arrival.landing.total);
        return true;
    });
    if (outcome && is_short && !state.failure) return nonsense("less than it was asked for");
    if (!outcome && !state.failure && header.place >= state.resumed) {
        state.failure = std::move(outcome).error();
        state.is_told = false;
    }
    return ok();
}

}  // namespace heddle::mpi
