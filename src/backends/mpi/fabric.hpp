#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/mpi/bytes.hpp"
#include "core/error.hpp"

namespace heddle::mpi {

using Clock = std::chrono::steady_clock;

struct Message {
    int source = 0;
    Bytes bytes;
    /// Not zero: the rank announced a message of so many bytes, more than any may have. No memory
    /// was taken for it, and there are no bytes.
    std::size_t refused = 0;
    /// There are no bytes either: MPI failed to carry it, or what was sent to that rank. Nothing
    /// more comes from the rank, and nothing more reaches it.
    bool has_failed = false;
};

/// What carries messages between ranks. Messages from one rank to another arrive in the order they
/// were sent, or not at all: nothing is ever reported about a rank that is gone. Where one fails,
/// `receive` says so once, with a message that has failed, and nothing comes behind it.
///
/// One thread at a time calls it. No call blocks, but for `ping_pong`, `make_group` and `finish`.
class Fabric {
public:
    virtual ~Fabric() = default;

    virtual int rank() const = 0;
    virtual int size() const = 0;

    /// Takes the bytes over: memory of callers is never lent to the network, so that a wait for a
    /// rank can end at any time.
    virtual void send(int to, Bytes message) = 0;

    /// The next message that is here. Also moves on what is being sent.
    virtual std::optional<Message> receive() = 0;

    /// Bytes sent to a rank that are still in memory here.
    virtual std::size_t unsent(int to) const = 0;

    /// Moves on what is being sent and received. False if nothing has got any further.
    virtual bool move() { return false; }

    /// Bytes of messages that are on their way here or from here. They move only while this object
    /// is called.
    virtual std::size_t moving() const { return 0; }

    /// A rank counts as gone: what it was sent is set aside, what it sends is dropped.
    virtual void forget(int rank) = 0;

    /// While a rank is held back, `receive` gives nothing of it. What it sends takes no more memory
    /// here than messages under way do, and comes afterwards.
    virtual void hold_back(int rank, bool is_held) = 0;

    /// The shortest time, in seconds, that `size` bytes take to another rank and back, of so many
    /// tries, without anything of Heddle's in between. The other rank makes the same call at the
    /// same time; one of the two begins. Nothing if there is no such thing, or not until then.
    struct PingPong {
        int rank = 0;
        bool begins = false;
        std::size_t size = 0;
        int rounds = 1;
    };
    virtual std::optional<double> ping_pong(const PingPong&, Clock::time_point) { return {}; }

    // Sums by MPI itself. Members of a group have agreed to make it.

    /// Makes a group of ranks, of which this is one. Blocks until all of them have made this call,
    /// so it is made when all are about to. If a member is lost just then, it fails after `limit`,
    /// and this fabric is at its end: nothing is sent or received any more.
    struct GroupRequest {
        std::uint32_t number = 0;
        std::vector<int> members;
        std::chrono::milliseconds limit{1000};
    };
    virtual Result<> make_group(const GroupRequest& request);

    /// Begins to add up what members have. One sum at a time in a group, in one order on all of
    /// them.
    virtual Result<> begin_sum(std::uint32_t group, std::vector<float> addends);
    /// The sum, once; nothing until it is there. Fails if it never will be.
    virtual Result<std::optional<std::vector<float>>> take_sum(std::uint32_t group);
    /// There are no more sums in this group: a member is lost. Memory that MPI may still write to
    /// is never used again.
    virtual void abandon_group(std::uint32_t) {}

    /// The end, in agreement with the others: it waits for them, some seconds at most. Not called
    /// where one was lost.
    virtual void finish() {}
};

/// MPI writes to sockets whose other end may be gone. The signal for that would end the program:
/// while this object lives it does not reach the thread, nor threads that it starts. Another one
/// inside it costs nothing.
class NoPipeSignal {
public:
    NoPipeSignal();
    ~NoPipeSignal();
    NoPipeSignal(const NoPipeSignal&) = delete;
    NoPipeSignal& operator=(const NoPipeSignal&) = delete;

private:
    sigset_t before_{};
};

/// How threads of this process wait for messages. Of nothing: as Backoff does by itself.
struct Polling {
    static constexpr std::uint32_t kAuto = UINT32_MAX, kSpin = 0;
    std::uint32_t microseconds = kAuto;  ///< to sleep between two looks; `kSpin`: not at all
};
void set_polling(Polling polling);

/// The system wakes a thread up to 50 us late to save power, unless it is told not to. For the
/// thread that calls this.
void sleep_precisely();

/// How long to wait until a message may be there: looks again at once for a while, then sleeps
/// longer and longer. Measured on shared memory: polling every 100 us costs 15 % of a core, every
/// 1 ms 2 %.
///
/// A rank that sleeps makes the other one wait long enough to sleep as well, and then both do so
/// for every message. So a thread looks for longer than a short sleep takes on both sides together.
///
/// A yield on cores that have other work takes until that work's time slice is over, milliseconds.
/// A thread that sleeps for some microseconds gets its core back at once. So where a yield took
/// long and there was still no message, there is none for a while: the longer the more often that
/// was so.
class Backoff {
public:
    /// What it does in the beginning. A thread that waits for others to compute does not look again
    /// at once, since it would take a core from them; least of all one that only stands in.
    enum class Begins : std::uint8_t { looking, with_short_sleeps, with_long_sleeps };
    explicit Backoff(Begins begins = Begins::looking) : begins_(begins) {}

    /// There was a message.
    void reset();

    /// How long to sleep now; zero: not at all, but `yield`. While a message `is_moving`, each look
    /// moves it on: there is neither for a millisecond.
    std::chrono::microseconds next(bool is_moving = false);

    void yield();

    /// The two of them.
    void pause(bool is_moving = false);

private:
    const Begins begins_;
    bool is_new_ = true, looks_again_ = false, took_long_ = false;
    Clock::time_point since_{};
};

/// How long waits of one kind took lately. A thread that knows it will wait sleeps through most of
/// that time at once: if it looked for messages, it would take a core from those who compute.
class Habit {
public:
    /// Most of what each of the last waits took; zero if one of them was too short to sleep.
    Clock::duration nap() const;
    void note(Clock::duration waited);

private:
    std::array<Clock::duration, 4> last_{};
    std::size_t next_ = 0;
};

}  // namespace heddle::mpi
