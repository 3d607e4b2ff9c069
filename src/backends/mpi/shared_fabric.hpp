#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "backends/mpi/fabric.hpp"

namespace heddle::mpi {

/// A fabric for all threads of a rank, one at a time.
class SharedFabric {
public:
    explicit SharedFabric(Fabric& fabric) : fabric_(fabric) {}
    SharedFabric(const SharedFabric&) = delete;
    SharedFabric& operator=(const SharedFabric&) = delete;

    int rank() const { return fabric_.rank(); }
    int size() const { return fabric_.size(); }

    void send(int to, Bytes message);
    std::optional<Message> receive();
    std::size_t unsent(int to);
    bool is_moving();
    void forget(int rank);
    void hold_back(int rank, bool is_held);
    std::optional<double> ping_pong(const Fabric::PingPong& wanted, Clock::time_point until);

    static constexpr std::size_t kMostUnsent = std::size_t{4} << 20;
    /// Until no more than `most` bytes for a rank are still here: memory of messages that is used
    /// again soon is still in a cache. False if `gives_up()` first.
    bool make_room(int to, const std::function<bool()>& gives_up, std::size_t most = kMostUnsent);

    /// See Fabric::make_group.
    Result<> make_group(const Fabric::GroupRequest& request);

    /// The sum of what members of a group have, once all have it. If it fails, or `gives_up()`
    /// first, there are no more sums in this group.
    Result<std::vector<float>> add_up(std::uint32_t group, std::vector<float> addends,
                                      const std::function<bool()>& gives_up);

    void finish();

private:
    std::mutex turn_;
    Fabric& fabric_;
};

}  // namespace heddle::mpi
