#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.hpp"
#include "core/tensor.hpp"
#include "runtime/objects.hpp"

namespace heddle::sched {

/// Number of a runner; the lower, the more preferred.
using RunnerId = std::int16_t;
inline constexpr RunnerId kNoRunner = -1;

/// A stream that nodes can run on, and what there is to know about it.
struct Runner {
    Stream* stream = nullptr;
    Device* device = nullptr;
    BufferType* type = nullptr;  ///< where its results go
    std::string name;            ///< of the stream; copies are named after it
    bool is_async = false;       ///< goes on working when a call has returned
    bool has_events = false;
    bool has_reserve = false;  ///< needs more for a graph than the memory of its tensors
    bool on_host = false;      ///< `type` is memory of the host
    bool available = true;     ///< false: the device failed, and nothing is to run on it
};

/// The runners of a scheduler. The last one is of a CPU device: it can run what no other can,
/// and inputs are at home in its memory.
class Team {
public:
    /// `types` is empty for everyone's default. Streams and types are borrowed.
    static Result<Team> make(std::span<Stream* const> streams, std::span<BufferType* const> types,
                             bool offload);

    std::size_t size() const { return runners_.size(); }
    const Runner& operator[](RunnerId id) const { return runners_[static_cast<std::size_t>(id)]; }
    std::span<const Runner> runners() const { return runners_; }
    RunnerId last() const { return static_cast<RunnerId>(runners_.size() - 1); }
    RunnerId find(const Stream* stream) const;  ///< kNoRunner if it is not in the team

    /// Whether nodes with weights in host memory may run on devices that ask for them.
    bool offloads() const { return offload_; }

    /// Whether the runner's device can work on tensors in memory of `type`. Devices are asked once.
    bool can_use(RunnerId id, BufferType& type);

    void set_available(RunnerId id, bool available) {
        runners_[static_cast<std::size_t>(id)].available = available;
    }

private:
    std::vector<Runner> runners_;
    bool offload_ = false;
    struct Answers {
        BufferType* type;
        std::vector<bool> of_runner;
    };
    std::vector<Answers> answers_;  ///< few: one for each buffer type ever met
};

}  // namespace heddle::sched
