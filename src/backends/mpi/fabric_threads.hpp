#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "backends/mpi/fabric.hpp"

namespace heddle::mpi {

/// Ranks that are threads of one process: the whole protocol without MPI. Messages take a while if
/// asked to, and a rank can be made to fall silent.
class ThreadFabric {
public:
    explicit ThreadFabric(int ranks, unsigned seed = 1);

    /// The fabric as one of the ranks sees it. This object must outlive it.
    std::unique_ptr<Fabric> join(int rank);

    /// Messages take up to so long, each as chance has it.
    void set_delay(Clock::duration longest);

    /// From now on nothing comes from this rank, and nothing reaches it.
    void silence(int rank);

    /// What a rank does when it begins a sum by MPI; if that fails, or throws, so does the sum.
    void set_before_sums(int rank, std::function<Result<>()> then);

    /// Sums by MPI that this rank has begun fail from now on.
    void fail_sums(int rank);

    /// What a rank does whenever it looks for messages. That may throw.
    void set_before_looks(int rank, std::function<void()> then);

    /// A message of any content that seems to come from `source`.
    void inject(int source, int to, Bytes message);

    /// A message of so many bytes is announced, and none of them ever comes.
    void announce(int source, int to, std::size_t bytes);

    /// A message that does not come through; see Message.
    void fail(int source, int to);

    /// Messages of a rank that another one has not taken in yet.
    std::size_t waiting(int from, int to) const;

    /// Bytes that went from one rank to another so far.
    std::size_t carried(int from, int to) const;

private:
    class Seat;
    struct Entry {
        Clock::time_point due;
        Bytes bytes;
        std::size_t announced = 0;  ///< if not zero, there are no bytes
        bool has_failed = false;
    };
    /// What is on its way from one rank to another.
    struct Route {
        std::deque<Entry> entries;
        std::size_t bytes = 0;  ///< of all so far
    };

    /// Ranks that add up, and the sums that some of them have not taken yet.
    struct Group {
        std::vector<int> members;
        struct Round {
            std::map<int, std::vector<float>> addends;  ///< by rank
            std::size_t taken = 0;
        };
        std::map<std::uint64_t, Round> rounds;
    };
    /// Null until all have added what they have.
    const Group::Round* whole_round(std::uint32_t group, std::uint64_t round) const;

    Route& route(int from, int to) { return routes_[index(from, to)]; }
    std::size_t index(int from, int to) const {
        return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
               static_cast<std::size_t>(to);
    }
    void add(int from, int to, Bytes message);

    const int ranks_;
    mutable std::mutex lock_;
    std::vector<Route> routes_;
    std::vector<bool> silent_;
    std::map<std::uint32_t, Group> groups_;
    std::map<int, std::function<Result<>()>> before_sums_;
    std::map<int, std::function<void()>> before_looks_;
    std::set<int> failing_sums_;  ///< ranks
    Clock::duration longest_{0};
    std::mt19937 random_;
};

}  // namespace heddle::mpi
