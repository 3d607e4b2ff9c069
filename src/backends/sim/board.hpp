#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/sim/parameters.hpp"
#include "backends/sim/timeline.hpp"
#include "backends/sim/worker.hpp"
#include "heddle/backend.hpp"

namespace heddle::sim {

/// What buffers and streams of one simulated device share. Lives as long as the device, which is
/// as long as the process.
class Board {
public:
    Board(std::shared_ptr<HostClock> clock, const Parameters& parameters, int index);

    const std::string name;
    const Parameters parameters;
    Timeline timeline;

    plugin::MemoryAmount memory() const;
    Result<> take(std::size_t bytes);  ///< of its memory, for a buffer
    void give_back(std::size_t bytes);

    /// The number of a new stream, whose jobs `drain` waits for from now on.
    int enter(const Worker& worker);
    void leave(const Worker& worker);

    /// Until all that streams were given is really done. Virtual time does not move. Needs no
    /// memory: buffers call it when they go.
    void drain() const noexcept;

private:
    mutable std::mutex lock_;
    std::size_t taken_ = 0;
    int streams_ = 0;
    std::vector<const Worker*> workers_;  ///< null where a stream has left
};

}  // namespace heddle::sim
