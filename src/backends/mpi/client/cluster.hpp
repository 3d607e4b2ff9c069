#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/mpi/file_comparison.hpp"
#include "backends/mpi/protocol.hpp"
#include "backends/mpi/shared_fabric.hpp"
#include "heddle/backend/device.hpp"

namespace heddle::mpi {

/// Whether workers are asked for weights that are in no mapped file.
enum class Offering : std::uint8_t { automatic, always, never };

/// How workers add up: in the order of devices, by messages; or as MPI likes to.
enum class SumsBy : std::uint8_t { order, mpi };

struct Settings {
    std::chrono::milliseconds timeout{10'000};        ///< silence after which a rank is lost
    std::chrono::milliseconds start_timeout{30'000};  ///< for all of them to be there
    std::chrono::milliseconds graph_timeout{0};  ///< for a stream to get on; 0: as long as it takes
    Verify verify = Verify::sample;              ///< of files that workers are to read
    std::vector<std::pair<std::string, std::string>> folders{};  ///< here, and where that is there
    Polling polling{};
    SumsBy sums = SumsBy::order;
    Offering offering = Offering::automatic;
    std::shared_ptr<DigestStore> digests = std::make_shared<DigestStore>();
};

/// Where bytes that were asked for go: pieces of host memory.
struct Landing {
    std::byte* data = nullptr;
    std::size_t piece = 0, stride = 0, total = 0;
    std::size_t arrived = 0;
};

/// Whom the program wants to be asked whether a stream is to stop.
struct AbortCheck {
    ggml_abort_callback callback = nullptr;
    void* data = nullptr;
    std::thread::id asks{};     ///< the thread that is asking
    Clock::time_point asked{};  ///< when that was over the last time
    std::uint64_t stopped = 0;  ///< where the worker was told to stop up to
};

/// How far a stream of a worker has come, as rank 0 knows it.
struct StreamState {
    int rank = 0;
    std::uint64_t issued = 0, done = 0;
    std::optional<Error> failure;  ///< since when the worker skips what the stream is told
    bool is_told = false;
    bool is_traced = false;
    bool is_there = false;      ///< the worker has it
    Clock::time_point moved{};  ///< when it last got on, or was given work
    std::uint64_t resumed = 0;  ///< where the worker was told to go on after a failure
    Habit waits{};              ///< for all that was issued
    AbortCheck abort{};
    /// Streams, and places in them, that it was told to wait for.
    std::map<std::uint32_t, std::uint64_t> behind{};
};

/// The workers, as rank 0 sees them. Any thread calls it. A thread that waits for an answer takes
/// in what has arrived, for others too; a thread of its own does so where none waits.
///
/// A worker that has been silent for too long, or says what cannot be, is lost for good: whatever
/// waits for it ends, and every later call fails with the same sentence.
class Cluster {
public:
    /// Waits for workers to say who they are. Those that may not take part are left out.
    static Result<std::unique_ptr<Cluster>> start(std::unique_ptr<Fabric> fabric,
                                                  const Settings& settings);
    ~Cluster();
    Cluster(const Cluster&) = delete;
    Cluster& operator=(const Cluster&) = delete;

    /// Says goodbye to workers. Every later call fails.
    void leave();

    int size() const { return static_cast<int>(peers_.size()); }
    bool takes_part(int rank) const { return peer(rank).takes_part; }
    const WorkerFacts& facts(int rank) const { return peer(rank).facts; }

    /// Why a worker is lost; nothing if it is not.
    std::optional<Error> loss(int rank) const;

    /// Memory of a device as last reported; zeros if its worker is lost.
    plugin::MemoryAmount memory(int rank, std::size_t device) const;

    void note_memory(int rank, std::size_t device, plugin::MemoryAmount amount);

    /// A number for a request, a buffer, a transfer: never given twice.
    std::uint32_t next_number() { return next_number_.fetch_add(1, std::memory_order_relaxed); }

    /// Sends a command. Waits only if the worker is far behind with what it was sent.
    Result<> post(int rank, Bytes message);

    /// Sends a question, whose body begins with `request`, and waits for the answer: what is behind
    /// its outcome. What is read meanwhile goes to `landing`. `stream`, if the answer comes when
    /// that one has done its work: it may be stopped meanwhile.
    Result<Bytes> ask(int rank, std::uint32_t request, Bytes question, Landing* landing = nullptr,
                      std::uint32_t stream = 0);

    /// Seconds of a round trip by MPI alone; see Fabric::ping_pong. `from` is rank 0 or a worker.
    Result<double> ping_pong(int from, int to, std::size_t bytes, int rounds);

    /// Of the way to a worker, by MPI alone; zeros where that was not measured.
    struct Link {
        double bytes_per_second = 0, seconds = 0;  ///< half a round trip of few bytes
    };
    void measure_links();
    const Link& link(int rank) const { return peer(rank).link; }

    /// Bytes that a worker was sent so far.
    std::size_t sent(int rank) const;

    const Settings& settings() const { return settings_; }

    // ---- sums by MPI ---------------------------------------------------------------------------

    /// Workers that add up by MPI, in an order that rank 0 decides.
    struct RankGroup {
        std::uint32_t number = 0;
        std::uint64_t turns = 0;  ///< sums so far; guarded by being within `issue_to_all`
    };

    /// The group of these workers, made if there is none yet. It lives as long as this object.
    Result<RankGroup*> group_of(const std::vector<int>& ranks);

    // ---- streams -------------------------------------------------------------------------------

    std::uint32_t add_stream(int rank);
    /// The worker has it now.
    void begin_stream(std::uint32_t stream);
    void remove_stream(std::uint32_t stream);

    /// Puts a command at the end of a stream; gives its place there.
    Result<std::uint64_t> issue(std::uint32_t stream, Bytes command);

    /// Puts a command at the end of each of several streams, all at once: commands of other threads
    /// come before or behind all of them. Of lost workers' streams the first is told about.
    Result<> issue_to_all(std::span<const std::uint32_t> streams,
                          const std::function<Bytes(std::size_t)>& command);

    /// The same for a command that reads. What it reads is there once the stream has come so far.
    Result<> issue_read(std::uint32_t stream, Bytes command, std::uint32_t request,
                        const Landing& landing);

    /// Until all that was issued is done.
    Result<> drain(std::uint32_t stream);

    /// Until the stream has come so far. Other work may be queued behind it.
    Result<> wait_for(std::uint32_t stream, std::uint64_t place);

    std::uint64_t issued(std::uint32_t stream) const;
    /// Without a failure: what comes after that must not go on as if nothing were.
    bool is_done(std::uint32_t stream, std::uint64_t place) const;

    /// Whether workers keep spans of what streams do, of all there are and will be: schedulers have
    /// more of them than they tell of. What was kept before is forgotten.
    void set_tracing(bool on);

    struct TracedStream {
        int rank = 0;
        std::uint32_t number = 0;
    };
    std::vector<TracedStream> traced_streams() const;

    /// From now on the stream waits for that place of another one. This is about `set_abort` only:
    /// the worker is told in other ways.
    void note_wait(std::uint32_t stream, std::uint32_t other, std::uint64_t place);

    /// A thread that waits for work of the stream, or of one that waits for it, asks `callback`
    /// about every 10 ms, without any lock; when that says true, the worker stops what was issued
    /// so far, and the stream has failed with Errc::aborted. So have other streams with the same
    /// callback and data. After this call returns the one from before is asked no more.
    void set_abort(std::uint32_t stream, ggml_abort_callback callback, void* data);

    /// The failure of a stream since this was last asked; it then goes on.
    std::optional<Error> take_failure(std::uint32_t stream);
    /// The same failure, which stays; the first time only.
    std::optional<Error> untold_failure(std::uint32_t stream);

private:
    struct Peer {
        WorkerFacts facts;
        std::vector<plugin::MemoryAmount> memory;
        bool takes_part = false;
        Link link;
        std::optional<Error> lost;
        Clock::time_point heard;
        std::size_t in_flight = 0;  ///< bytes it was sent and has not dealt with
        std::size_t sent = 0;       ///< bytes, so far
        Bytes batch;                ///< small messages that are kept back for a moment
        int batched = 0;
    };
    struct Request {
        int rank = 0;
        std::optional<Bytes> answer;
        Landing* landing = nullptr;
    };
    struct Arrival {
        std::uint32_t stream = 0;
        std::uint64_t place = 0;
        Landing landing;
    };
    using Guard = std::unique_lock<std::mutex>;

    Cluster(std::unique_ptr<Fabric> fabric, const Settings& settings);
    Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
    const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

    Result<std::uint32_t> make_group(const std::vector<int>& ranks);
    Result<> join_group(std::uint32_t number, const std::vector<int>& ranks, bool joins);
    Result<> gather();
    void begin_thread();
    void watch_over();
    std::chrono::microseconds look_after_workers();
    void look_for_silence();
    void look_for_standstill();
    void lose(int rank, std::string_view why);
    /// Logs who was lost, without the lock: the program's callback may call this object.
    void tell_losses(Guard& guard);
    /// Tells a worker that nothing more comes from another one.
    void cancel(int rank, int gone);

    /// Until the worker has room for so much more. `stream` as for `ask`.
    Result<> wait_for_room(Guard& guard, int rank, std::size_t bytes, std::uint32_t stream = 0);
    void send(int rank, Bytes message);
    /// Sends what was kept back.
    void flush(int rank);
    void flush_all();
    std::uint64_t send_in(StreamState& state, Bytes command);
    void trace(std::uint32_t stream, StreamState& state);
    void ping();
    /// Whether it is time to ask if the stream is to stop; not while another thread does.
    static bool is_to_ask(const StreamState& state);
    /// That stream, or one that it waits for; 0: none. Looked for now and then only.
    std::uint32_t stream_to_ask(std::uint32_t stream, Clock::time_point& next_look) const;
    void note_wait(StreamState& state, std::uint32_t other, std::uint64_t place);
    void ask_whether_to_stop(Guard& guard, std::uint32_t stream);
    void stop(std::uint32_t stream, StreamState& state);

    /// A thread that takes in messages, while it does: other threads wait for it.
    class Driving {
    public:
        Driving(Cluster& cluster, Guard& guard) : cluster_(cluster), guard_(guard) {}
        ~Driving() {
            if (drives_ && !guard_.owns_lock()) guard_.lock();
            end();
        }
        Driving(const Driving&) = delete;
        Driving& operator=(const Driving&) = delete;

        /// False while another thread does. Under the lock, as the next one.
        bool begin() {
            if (!drives_ && cluster_.is_driven_) return false;
            return cluster_.is_driven_ = drives_ = true;
        }
        void end() {
            if (!std::exchange(drives_, false)) return;
            cluster_.is_driven_ = false;
            cluster_.changed_.notify_all();
        }

    private:
        Cluster& cluster_;
        Guard& guard_;
        bool drives_ = false;
    };

    /// Takes in messages until `done()`, or until the worker is lost. `stream` as for `ask`.
    template <class Done>
    Result<> wait_until(Guard& guard, int rank, const Done& done, std::uint32_t stream = 0,
                        Backoff backoff = Backoff());
    /// Takes in one message; false if there is none. Does not throw: without memory there is none.
    bool take_in();
    bool take_one();
    Result<> handle(int rank, const Opened& message);
    Result<> handle_hello(int rank, ByteReader& in);
    Result<> handle_beat(int rank, ByteReader& in);
    Result<> handle_answer(int rank, ByteReader& in);
    Result<> handle_data(int rank, ByteReader& in);
    Result<> handle_given_up(int rank, ByteReader& in);
    Result<> handle_done(int rank, const Header& header, ByteReader& in);

    const std::unique_ptr<Fabric> owned_;
    SharedFabric fabric_{*owned_};
    const Settings settings_;
    const WorkerFacts own_ = own_facts();
    mutable std::mutex lock_;
    std::condition_variable changed_;
    bool is_driven_ = false;  ///< a thread is taking in messages
    bool stops_ = false, has_left_ = false, traces_ = false;
    std::vector<Peer> peers_;  ///< by rank; the first is unused
    std::vector<std::string> untold_losses_;
    std::map<std::uint32_t, Request> requests_;
    std::map<std::uint32_t, Arrival> arrivals_;
    std::map<std::uint32_t, StreamState> streams_;
    std::size_t abort_checks_ = 0;  ///< streams that have one
    std::atomic<std::uint32_t> next_number_{1};
    std::mutex groups_lock_;  ///< one group is made at a time: members meet inside MPI
    std::map<std::vector<int>, RankGroup> groups_;
    Clock::time_point pinged_{};
    std::thread thread_;
};

template <class Done>
Result<> Cluster::wait_until(Guard& guard, int rank, const Done& done, std::uint32_t stream,
                             Backoff backoff) {
    if (done()) return ok();
    flush_all();
    const NoPipeSignal guard_of_thread;
    Driving driving(*this, guard);
    Clock::time_point next_look{};
    Result<> outcome = ok();
    while (true) {
        // Said at once: what notices a loss next may have no words, such as a device that supports
        // nothing.
        if (!untold_losses_.empty()) {
            driving.end();  // the callback may take long, or wait for something itself
            tell_losses(guard);
        }
        if (done()) break;
        if (peer(rank).lost) {
            outcome = *peer(rank).lost;
            break;
        }
        if (const std::uint32_t asked = stream_to_ask(stream, next_look)) {
            // Others take in what comes meanwhile: it may take long, or wait for something itself.
            driving.end();
            ask_whether_to_stop(guard, asked);
            continue;
        }
        if (!driving.begin()) {
            changed_.wait_for(guard, std::chrono::milliseconds(1));
            continue;
        }
        if (take_in()) {
            changed_.notify_all();
            backoff.reset();
            continue;
        }
        look_for_silence();
        const bool is_moving = fabric_.is_moving();
        guard.unlock();
        backoff.pause(is_moving);
        guard.lock();
    }
    return outcome;
}

/// Begins a question; its number is the first thing in it.
ByteWriter question(Kind kind, std::uint32_t request, std::size_t expected = 128);

}  // namespace heddle::mpi
