#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "backends/mpi/fabric.hpp"

namespace heddle::mpi {

/// A fabric for all threads of a rank.
///
/// MPI moves large messages only while it is called, and the threads that send and take them are
/// busy copying their contents. So a thread of its own moves them on, for as long as some are on
/// their way.
class SharedFabric {
public:
    explicit SharedFabric(Fabric& fabric) : fabric_(fabric) {}
    ~SharedFabric() { stop(); }
    SharedFabric(const SharedFabric&) = delete;
    SharedFabric& operator=(const SharedFabric&) = delete;

    int rank() const { return fabric_.rank(); }
    int size() const { return fabric_.size(); }

    void send(int to, Bytes message);
    std::optional<Message> receive();
    std::size_t unsent(int to);
    bool is_moving();
    void forget(int rank);
    std::optional<double> ping_pong(const Fabric::PingPong& wanted, Clock::time_point until);

    /// Until no more than `kMostUnsent` bytes for a rank are still here: memory of messages that is
    /// used again soon is still in a cache. False if `gives_up()` first.
    bool make_room(int to, const std::function<bool()>& gives_up);
    static constexpr std::size_t kMostUnsent = std::size_t{4} << 20;

    /// The thread of its own ends; none is begun any more.
    void stop();
    void finish();

private:
    /// Bytes on their way from which on the thread helps. Less is gone before it is awake.
    static constexpr std::size_t kLarge = std::size_t{256} << 10;

    /// A mutex is given to whom asks first after it is free, which would be the thread that moves
    /// messages on each time: it lets others go first.
    class Turn {
    public:
        void lock() {
            waiting_.fetch_add(1, std::memory_order_relaxed);
            mutex_.lock();
            waiting_.fetch_sub(1, std::memory_order_relaxed);
        }
        void unlock() { mutex_.unlock(); }
        bool is_wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

    private:
        std::mutex mutex_;
        std::atomic<int> waiting_{0};
    };

    /// Has the thread help if there is much to move. `turn_` is held.
    void call_for_help();
    void help();
    /// False if nothing moved. `is_over`: there is not much left.
    bool move(bool& is_over);

    Fabric& fabric_;
    Turn turn_;
    std::mutex lock_;  ///< for what follows
    std::condition_variable called_;
    std::atomic<bool> helps_{false}, stops_{false};
    std::thread thread_;
};

}  // namespace heddle::mpi
