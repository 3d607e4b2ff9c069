#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/sim/engine.hpp"
#include "backends/sim/parameters.hpp"
#include "heddle/sim.h"

/// Virtual time. Everything is placed on it when it is submitted, by the thread that submits: how
/// long a thing takes follows from its size, so nothing depends on when threads really run.
namespace heddle::sim {

/// Where a stream stands.
struct Lane {
    int number = 0;    ///< from 1 on
    double ready = 0;  ///< what it was given is done
};

/// The host's time, shared by all devices of one configuration. Its lock guards theirs as well,
/// and their lanes: a copy touches two of each.
struct HostClock {
    struct Network {
        Engine in, out;
    };

    std::mutex lock;
    double now = 0;
    std::map<int, Network> networks;  ///< by host; the program runs on host 0
};

enum class Direction { in, out };

/// The engines of one device: what they are given, when it is done, and what goes wrong with it.
class Timeline {
public:
    Timeline(std::shared_ptr<HostClock> clock, const Parameters& parameters, std::string device,
             int host);

    /// A node on the computing engine. `far_bytes` of its operands lie on the host and come over
    /// the link.
    Result<Span> compute(Lane& lane, const Tensor& node, double far_bytes);

    /// A copy between host and device. Without a lane the host waits for it.
    Result<Span> transfer(Lane* lane, Direction direction, std::size_t bytes,
                          std::string_view name);

    /// A copy from one device to another, or within one, on the lanes of both; they may be one.
    /// Without lanes the host waits for it.
    static Result<Span> copy(Timeline& from, Lane* from_lane, Timeline& to, Lane* to_lane,
                             std::size_t bytes, std::string_view name);

    /// Fills memory; the host waits for it.
    Result<Span> fill(std::size_t bytes, std::string_view name);

    /// Whether the next allocation may be tried.
    Result<> allocation(std::size_t bytes);

    double stands_at(const Lane& lane) const;
    void wait_in(Lane& lane, double time);  ///< the stream goes on at `time` at the earliest
    void wait_on_host(double time);

    double now() const;       ///< all that was given so far is done
    double host_now() const;  ///< the host's clock
    double advance_host(double seconds);
    bool shares_clock_with(const Timeline& other) const { return clock_ == other.clock_; }

    /// From now on, counted anew.
    void set_faults(const FaultPlan& plan);

    /// Whether the device is there at all at the host's time.
    Result<> present() const;

    /// The failure of a copy that no call has returned so far.
    std::optional<Error> take_failure();

    std::vector<heddle_sim_item> trace() const;
    void clear_trace();

private:
    struct Work {
        heddle_sim_kind kind;
        std::string_view name;
        std::size_t bytes;
    };

    /// Counts down to the thing that fails; 0 for none to fail.
    struct Countdown {
        std::uint64_t left = 0;
        bool strikes() { return left > 0 && --left == 0; }
    };

    double over_link(std::size_t bytes) const;
    double over_network(std::size_t bytes) const;
    /// The networks between two hosts; none within one.
    const Engine& network_out(int from, int to) const;
    const Engine& network_in(int from, int to) const;
    void occupy_network(int from, int to, Span span);
    double in_memory(std::size_t bytes) const;
    double idle_from(const Lane* lane) const;
    Result<> check_alive(double end, std::string_view what, std::string_view name) const;
    Result<> check_copy(double end, std::string_view name);
    Result<> remembered(Result<> outcome);
    void note(const Work& work, const Lane* lane, Span span);
    Span occupy(Engine& engine, Lane* lane, const Work& work, Span span);

    const std::shared_ptr<HostClock> clock_;
    const Parameters parameters_;
    const std::string device_;
    const int host_;

    Engine computing_, copying_in_, copying_out_;
    Countdown allocations_, copies_, nodes_;
    double lost_ = -1;
    std::optional<Error> failure_;
    std::vector<heddle_sim_item> trace_;
};

}  // namespace heddle::sim
