#include "backends/mpi/fabric_mpi.hpp"

#include <algorithm>
#include <atomic>
#include <deque>

#include "backends/mpi/mpi_groups.hpp"
#include "backends/mpi/protocol.hpp"

namespace heddle::mpi {
namespace {

constexpr int kTag = 1, kMeasureTag = 2;
constexpr int kWorldTag = 1;  ///< of the group of all, apart from those of messages
constexpr std::chrono::seconds kFinalize{5};
/// Under way from one rank, messages and bytes; more are not begun. Memory that is used again soon
/// is still in a cache.
constexpr std::size_t kMostReceives = 16, kMostReceived = std::size_t{4} << 20;
/// Begun at a time: in shared memory MPI copies at once, and what is there could be used meanwhile.
constexpr std::size_t kMostAtATime = std::size_t{1} << 20;

/// Messages under way: MPI owns their bytes until the request is done.
struct Pending {
    MPI_Request request = MPI_REQUEST_NULL;
    Bytes bytes;
    std::size_t refused = 0;  ///< see Message; then nothing is under way
    bool is_done = false;
    bool has_failed = false;  ///< it never gets done, nor what is behind it; MPI keeps its bytes
};

class MpiFabric final : public Fabric {
public:
    /// `between` connects spawned ranks with the one that spawned them, if that is how they began.
    MpiFabric(MPI_Comm ranks, MPI_Comm between) : ranks_(ranks), between_(between), groups_(ranks) {
        MPI_Comm_rank(ranks_, &rank_);
        MPI_Comm_size(ranks_, &size_);
        peers_.resize(static_cast<std::size_t>(size_));
    }

    /// What MPI still has is never given back: it may write there at any time.
    ~MpiFabric() override {
        for (Peer& each : peers_) {
            if (each.sends.empty() && each.receives.empty()) continue;
            auto* const kept = new Peer(std::move(each));
            (void)kept;
        }
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void send(int to, Bytes message) override {
        Peer& target = peer(to);
        if (target.is_gone || target.takes_no_more || groups_.are_stuck()) return;
        const NoPipeSignal guard;
        target.takes_no_more = true;  // unless this is on its way: nothing goes past it
        Pending& pending = target.sends.emplace_back();
        pending.bytes = std::move(message);
        target.unsent += pending.bytes.size();
        moving_ += pending.bytes.size();
        pending.has_failed = MPI_Isend(pending.bytes.data(), static_cast<int>(pending.bytes.size()),
                                       MPI_BYTE, to, kTag, ranks_, &pending.request) != MPI_SUCCESS;
        target.takes_no_more = pending.has_failed;
        move_sends(target);
    }

    std::optional<Message> receive() override {
        if (auto ready = take_ready()) return ready;
        move();
        return take_ready();
    }

    bool move() override {
        if (groups_.are_stuck()) return false;
        const NoPipeSignal guard;
        const std::size_t before = moving_;
        for (Peer& each : peers_) {
            if (!each.sends.empty() && !each.is_gone) move_sends(each);
        }
        const bool any = take_in();
        for (Peer& each : peers_) {
            if (!each.receives.empty() && !each.is_gone) move_receives(each);
        }
        return any || moving_ != before;
    }

    std::size_t moving() const override { return moving_; }

    std::size_t unsent(int to) const override {
        return groups_.are_stuck() ? 0 : peers_[static_cast<std::size_t>(to)].unsent;
    }

    void forget(int rank) override {
        Peer& gone = peer(rank);
        if (gone.is_gone) return;
        if (!is_full(gone)) ++full_;
        gone.is_gone = true;
        gone.unsent = 0;
        for (const std::deque<Pending>* list : {&gone.sends, &gone.receives}) {
            for (const Pending& each : *list) moving_ -= each.is_done ? 0 : each.bytes.size();
        }
    }

    void hold_back(int rank, bool is_held) override { peer(rank).is_held = is_held; }

    std::optional<double> ping_pong(const PingPong& wanted, Clock::time_point until) override;

    Result<> make_group(const GroupRequest& request) override { return groups_.make(request); }
    Result<> begin_sum(std::uint32_t group, std::vector<float> addends) override {
        return groups_.begin_sum(group, std::move(addends));
    }
    Result<std::optional<std::vector<float>>> take_sum(std::uint32_t group) override {
        return groups_.take_sum(group);
    }
    void abandon_group(std::uint32_t group) override { groups_.abandon(group); }

    void finish() override {
        if (groups_.are_stuck() || has_ended()) return;
        within(kFinalize, [between = between_] {
            // Else Open MPI prints that a pipe is broken where one leaves later than another.
            MPI_Comm connection = between;
            if (connection != MPI_COMM_NULL) MPI_Comm_disconnect(&connection);
            if (is_ours()) MPI_Finalize();
        });
    }

private:
    struct Peer {
        std::deque<Pending> sends, receives;   ///< in order
        std::size_t unsent = 0, received = 0;  ///< bytes of the two
        bool is_gone = false, is_held = false;
        bool takes_no_more = false;  ///< a send has failed
        bool is_told = false;        ///< that it has, or a receive: nothing more comes from it
    };
    Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

    static bool is_full(const Peer& source) {
        return source.is_gone || source.receives.size() >= kMostReceives ||
               source.received >= kMostReceived;
    }

    /// Whether MPI is done with it.
    bool is_done(Pending& pending) {
        if (pending.is_done || pending.has_failed) return pending.is_done;
        int done = 0;
        // MPI lets go of a request that failed, and would then say that it is done.
        pending.has_failed = MPI_Test(&pending.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
        if (pending.has_failed || done == 0) return false;
        moving_ -= pending.bytes.size();
        return pending.is_done = true;
    }

    void move_sends(Peer& target) {
        while (!target.sends.empty() && is_done(target.sends.front())) {
            target.unsent -= target.sends.front().bytes.size();
            target.sends.pop_front();
        }
        if (!target.sends.empty() && target.sends.front().has_failed) target.takes_no_more = true;
    }

    void move_receives(Peer& source) {
        for (Pending& each : source.receives) {
            if (!is_done(each)) return;
        }
    }

    /// Whether a send to this rank has failed, or the receive that comes next.
    static bool is_cut_off(const Peer& other) {
        return other.takes_no_more ||
               (!other.receives.empty() && other.receives.front().has_failed);
    }

    /// The next message that is here, of the ranks in turn.
    std::optional<Message> take_ready() {
        for (int i = 0; i < size_; ++i) {
            const int from = (next_ + i) % size_;
            Peer& source = peer(from);
            if (source.is_gone || source.is_held || source.is_told) continue;
            if (source.receives.empty() || !source.receives.front().is_done) {
                if (!is_cut_off(source)) continue;
                source.is_told = true;
                return Message{from, {}, 0, true};
            }
            Pending& first = source.receives.front();
            const bool was_full = is_full(source);
            Message message{from, std::move(first.bytes), first.refused};
            source.received -= message.bytes.size();
            source.receives.pop_front();
            if (was_full && !is_full(source)) --full_;
            next_ = from + 1;
            return message;
        }
        return std::nullopt;
    }

    /// Begins to receive what has been announced; false if that was nothing. A rank with much under
    /// way waits, and no other has to wait with it.
    bool take_in() {
        std::size_t taken = 0;
        const auto take = [&](int from) {
            const std::size_t size = taken < kMostAtATime ? take_one(from) : 0;
            taken += size;
            return size > 0;
        };
        while (full_ == 0 && take(MPI_ANY_SOURCE)) continue;
        if (full_ == 0) return taken > 0;
        for (int i = 0; i < size_; ++i) {
            const int from = (next_ + i) % size_;
            while (!is_full(peer(from)) && take(from)) continue;
        }
        return taken > 0;
    }

    /// Gives its size; zero if nothing has been announced.
    std::size_t take_one(int from) {
        int found = 0, announced = 0;
        MPI_Message message{};
        MPI_Status status{};
        if (MPI_Improbe(from, kTag, ranks_, &found, &message, &status) != MPI_SUCCESS ||
            found == 0) {
            return 0;
        }
        MPI_Get_count(&status, MPI_BYTE, &announced);
        Peer& source = peer(status.MPI_SOURCE);
        Pending& pending = source.receives.emplace_back();
        const std::size_t size = static_cast<std::size_t>(std::max(announced, 0));
        if (announced < 0 || size > kLongestMessage) {
            pending.refused = announced < 0 ? SIZE_MAX : size;
            pending.is_done = true;
        } else {
            pending.has_failed = true;  // unless there is memory for it, and MPI begins
            pending.bytes.resize(size);
            source.received += size;
            moving_ += size;
            pending.has_failed = MPI_Imrecv(pending.bytes.data(), announced, MPI_BYTE, &message,
                                            &pending.request) != MPI_SUCCESS;
        }
        if (is_full(source)) ++full_;
        return std::max<std::size_t>(size, 1);
    }

    MPI_Comm ranks_, between_;
    MpiGroups groups_;
    int rank_ = 0, size_ = 1;
    std::vector<Peer> peers_;
    std::size_t moving_ = 0;
    int full_ = 0;  ///< ranks of which nothing more is taken in for now
    int next_ = 0;
};

std::optional<double> MpiFabric::ping_pong(const PingPong& wanted, Clock::time_point until) {
    if (groups_.are_stuck()) return std::nullopt;
    const NoPipeSignal guard;
    // Kept if the other rank does not play: MPI may write there at any time.
    auto bytes = std::make_unique<Bytes>(wanted.size, std::byte{1});
    const int size = static_cast<int>(wanted.size);
    const auto moves = [&](bool sends) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (sends) {
            MPI_Isend(bytes->data(), size, MPI_BYTE, wanted.rank, kMeasureTag, ranks_, &request);
        } else {
            MPI_Irecv(bytes->data(), size, MPI_BYTE, wanted.rank, kMeasureTag, ranks_, &request);
        }
        for (unsigned turns = 0;; ++turns) {
            int done = 0;
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            if (done != 0) return true;
            if (turns % 64 == 63 && Clock::now() > until) break;
        }
        (void)bytes.release();
        return false;
    };
    // On busy cores a round may take milliseconds: the rank that begins says which one is the last.
    constexpr std::chrono::milliseconds kLongEnough{300};
    constexpr std::byte kMore{1}, kLast{0};
    const auto began = Clock::now();
    double best = 1e9;
    for (int round = 1;; ++round) {
        const auto begin = Clock::now();
        const bool is_last = round >= wanted.rounds || begin - began > kLongEnough;
        if (wanted.begins) bytes->front() = is_last ? kLast : kMore;
        if (!moves(wanted.begins)) return std::nullopt;
        const std::byte word = bytes->front();
        if (!moves(!wanted.begins)) return std::nullopt;
        best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
        if (word == kLast) return best;
    }
}

/// Spawned processes and those that spawned them, as one group; rank 0 is the latter.
Result<std::unique_ptr<Fabric>> merged(MPI_Comm between, bool is_spawned) {
    MPI_Comm all = MPI_COMM_NULL;
    HEDDLE_TRY(
        check(MPI_Intercomm_merge(between, is_spawned ? 1 : 0, &all), "ranks cannot be joined"));
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return std::unique_ptr<Fabric>(new MpiFabric(all, between));
}

/// The process that spawned this one may have been killed before it came so far.
Result<std::unique_ptr<Fabric>> join_parent(MPI_Comm parent, std::chrono::milliseconds timeout) {
    // Left to the thread if that does not come back.
    const auto outcome = std::make_shared<Result<std::unique_ptr<Fabric>>>(Error{});
    if (within(timeout, [parent, outcome] { *outcome = merged(parent, true); })) {
        return std::move(*outcome);
    }
    return failure(Errc::not_found,
                   "MPI: the program that started this worker does not go on after ",
                   static_cast<double>(timeout.count()) / 1000, " s");
}

Result<std::unique_ptr<Fabric>> spawn_now(const SpawnRequest& request) {
    HEDDLE_TRY(initialize());
    std::string hosts;
    for (const std::string& host : request.hosts) hosts += (hosts.empty() ? "" : ",") + host;
    MPI_Info where = MPI_INFO_NULL;
    MPI_Info_create(&where);
    MPI_Info_set(where, "host", hosts.c_str());
    std::vector<std::string> words(request.command.begin() + 1, request.command.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const ReturnsCodes guard_of_self(MPI_COMM_SELF);
    MPI_Comm between = MPI_COMM_NULL;
    const int code = MPI_Comm_spawn(request.command.front().c_str(), arguments.data(),
                                    static_cast<int>(request.hosts.size()), where, 0, MPI_COMM_SELF,
                                    &between, MPI_ERRCODES_IGNORE);
    MPI_Info_free(&where);
    HEDDLE_TRY(check(code, "workers do not start"));
    return merged(between, false);
}

}  // namespace

Result<std::unique_ptr<Fabric>> spawn_workers(const SpawnRequest& request) {
    // A thread that did not come back from MPI is still inside it.
    static std::atomic<bool> is_written_off{false};
    if (request.hosts.empty() || request.command.empty()) {
        return invalid("MPI: there is no host, or no command to start there");
    }
    if (is_written_off) {
        return failure(Errc::device,
                       "MPI: an earlier start of workers did not end; it cannot be "
                       "used in this process any more");
    }
    // Left to the thread if that does not come back.
    const auto outcome = std::make_shared<Result<std::unique_ptr<Fabric>>>(Error{});
    if (within(request.timeout, [request, outcome] { *outcome = spawn_now(request); })) {
        return std::move(*outcome);
    }
    is_written_off = true;
    std::string hosts;
    for (const std::string& host : request.hosts) hosts += (hosts.empty() ? "" : ", ") + host;
    return failure(Errc::not_found, "MPI: no worker on ", hosts, " after ",
                   static_cast<double>(request.timeout.count()) / 1000, " s (try: ssh ",
                   request.hosts.front(), " ", request.command.front(), " worker --describe)");
}

Result<std::unique_ptr<Fabric>> join_job(std::chrono::milliseconds timeout) {
    const NoPipeSignal guard;
    HEDDLE_TRY(initialize());
    if (is_ours()) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm parent = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return join_parent(parent, timeout);
    HEDDLE_TRY_ASSIGN(const MPI_Comm ranks,
                      make_communicator({MPI_COMM_WORLD, {}, kWorldTag, timeout}));
    if (ranks != MPI_COMM_NULL) {
        return std::unique_ptr<Fabric>(new MpiFabric(ranks, MPI_COMM_NULL));
    }
    return failure(Errc::not_found, "MPI: not all ranks of this job are Heddle's after ",
                   static_cast<double>(timeout.count()) / 1000, " s");
}

void call_before_end(void (*leave)()) {
    if (is_ours()) return;
    // What belongs to this communicator goes first of all when MPI ends.
    const auto at_end = [](MPI_Comm, int, void*, void* call) {
        reinterpret_cast<void (*)()>(call)();
        return MPI_SUCCESS;
    };
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, reinterpret_cast<void*>(leave));
    MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

}  // namespace heddle::mpi
