#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "backends/mpi/worker/outbox.hpp"

namespace heddle::mpi {

/// Takes in messages of a worker, on the thread that waits for one. A thread that has nothing to do
/// waits for work here, and does it without another thread in between. One thread at a time takes
/// in and deals with what has come, for others too; where none waits, the worker's own thread does.
class Driver {
public:
    /// What the worker does.
    struct Calls {
        /// Deals with a message; called by one thread at a time.
        std::function<void(Message)> handle;
        /// Looks at a message that came within `handle` and is dealt with later.
        std::function<void(const Message&)> hear;
        /// See `drop_out`.
        std::function<void(const Error&)> drop_out;
    };
    Driver(Outbox& outbox, Calls calls) : fabric_(outbox.fabric()), calls_(std::move(calls)) {}

    /// Other ranks wait for what this worker cannot do any more, and would not hear of it
    /// otherwise: it says why, and leaves. For any thread.
    void drop_out(const Error& reason) { calls_.drop_out(reason); }

    /// Until `done()`, which is asked without any lock of this object; false if the worker leaves
    /// first. Not from within `handle`.
    bool wait(const std::function<bool()>& done);

    /// The same on a thread that has nothing else to do. It is asked after each message that it has
    /// dealt with itself, and after `wake_idle`.
    bool wait_for_work(const std::function<bool()>& done);

    /// Something has changed that `done` of a waiting thread may look at.
    void wake();
    /// There is work for one more thread that waits for it.
    void wake_idle();
    /// Whether this thread is within `handle` and waits for work: it will ask for it next.
    bool is_idle_handler() const { return is_handling() && handler_is_idle_; }

    /// The worker leaves: every wait ends, and no message is dealt with any more.
    void stop();
    /// Until the one that is being dealt with is. Not from within `handle`.
    void finish();
    bool has_stopped() const { return stopped_; }

    /// On the worker's own thread: takes in messages while no other thread does, for so long.
    /// `spins`: no thread computes that it would take a core from.
    void stand_in(std::chrono::milliseconds time, bool spins);

    /// Takes in and deals with what is here already, unless another thread is at it.
    void poll();
    /// The same, behind a thread that is at it.
    void catch_up();

    /// From within `handle`: lets what is being sent move on. True if a message came meanwhile; it
    /// is dealt with later.
    bool let_sends_move();

    /// From within `handle`: the next message that `is_wanted`, ahead of others that came before
    /// it and are dealt with later. Nothing if the worker leaves, or `gives_up()`.
    std::optional<Message> wait_for_message(const std::function<bool(const Message&)>& is_wanted,
                                            const std::function<bool()>& gives_up);

    /// A message that is to be dealt with later. Not from within `handle`.
    void put_back(Message message);

    /// Whether this thread is within `handle`.
    bool is_handling() const { return handler_.load() == std::this_thread::get_id(); }

private:
    enum class Waits : std::uint8_t { for_others, for_work };
    bool wait(Waits waits, const std::function<bool()>& done);
    /// While another thread looks for messages. `lock_` is held.
    void wait_aside(std::unique_lock<std::mutex>& guard, Waits waits, std::uint64_t seen);
    /// Until it is time to look again, or something has changed.
    void pause(std::unique_lock<std::mutex>& guard, Backoff& backoff, Waits waits,
               std::uint64_t seen);

    /// The thread that looks for messages is done with that.
    void end_polling();

    /// Keeps a message that is dealt with later. `turn_` is held.
    void defer(Message message);
    /// Holds a worker back that has sent too much, until that is dealt with.
    void count_deferred(const Message& message, std::ptrdiff_t by);

    /// Takes in one message and deals with it; false if there is none. `turn_` is held.
    bool take_one(bool is_idle);
    bool step(bool is_idle);

    SharedFabric& fabric_;
    const Calls calls_;

    std::mutex turn_;  ///< held by the thread that takes in and deals with messages
    std::deque<Message> later_;
    std::map<int, std::ptrdiff_t> deferred_;  ///< bytes of those, by rank
    std::atomic<std::thread::id> handler_{};
    bool handler_is_idle_ = false;  ///< of the thread that holds `turn_`

    mutable std::mutex lock_;           ///< for what follows
    std::condition_variable changed_;   ///< for threads that wait for others
    std::condition_variable work_;      ///< for threads that wait for work
    std::condition_variable stopping_;  ///< for the one that stands in
    std::uint64_t changes_ = 0, offers_ = 0;
    int aside_ = 0;            ///< threads that wait for others while another one looks
    bool has_poller_ = false;  ///< a waiting thread looks for messages
    std::atomic<bool> stopped_{false};
};

}  // namespace heddle::mpi
