#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sched/place.hpp"
#include "sched/plan/budget.hpp"

/// What things cost, and placing nodes by it.
namespace heddle::sched {

/// Speed of a runner, as far as the catalogue's costs need it.
struct Speed {
    double flops = 1e10;      ///< operations per second
    double bandwidth = 1e10;  ///< bytes per second to its memory
    double overhead = 1e-6;   ///< seconds for each node
};

/// Speed of copies between two runners.
struct Link {
    double bandwidth = 1e10;
    double latency = 1e-6;
};

/// Types of weights that devices multiply at about the same speed.
enum class TypeClass : std::uint8_t { single, half, quantized };
inline constexpr std::size_t kTypeClasses = 3;
TypeClass class_of(Type type);

/// Predicts times: from the speed that products with each class of weights were measured to have,
/// otherwise from speeds and the catalogue's costs.
class CostModel {
public:
    explicit CostModel(const Team& team);

    void set_speed(RunnerId runner, Speed speed);
    void set_link(RunnerId from, RunnerId to, Link link);

    /// Operations per second of matrix products with weights of that class.
    void set_product_flops(RunnerId runner, TypeClass weights, double flops);

    /// So many bytes of copied constants stay on the runner from run to run: their copies take no
    /// time. 0 unless set: every run copies them.
    void set_kept_constants(RunnerId runner, std::size_t bytes);

    /// Nodes that only look take no time.
    double node_seconds(const Tensor& node, RunnerId runner) const;
    /// kNoRunner is a device outside the team, reached by way of the last runner.
    double copy_seconds(std::size_t bytes, RunnerId from, RunnerId to) const;

    std::size_t runner_count() const { return speeds_.size(); }
    Speed speed(RunnerId runner) const { return speeds_[place_of(runner)]; }
    Link link(RunnerId from, RunnerId to) const;
    double product_flops(RunnerId runner, TypeClass weights) const;
    std::size_t kept_constants(RunnerId runner) const { return kept_[place_of(runner)]; }
    std::string origin = "assumed";  ///< "measured", "cached" or "assumed"

private:
    static std::size_t place_of(RunnerId runner) { return static_cast<std::size_t>(runner); }

    std::vector<Speed> speeds_;
    std::vector<std::array<double, kTypeClasses>> products_;  ///< 0: not measured
    std::vector<Link> links_;                                 ///< by source, then target
    std::vector<std::size_t> kept_;
};

/// Measures every runner and link (some milliseconds each), or reads what was measured before from
/// `cache_file`: lines of text, keyed by device and build. An unreadable one is measured and
/// written anew, one that cannot be written is no failure; empty: no file. Devices with a clock of
/// their own are timed by it. Uses the runners' own streams, which must be idle.
Result<CostModel> measure_costs(const Team& team, const std::string& cache_file);

/// How a placed graph would run: every runner does its nodes in order; a copy is made once for each
/// version of a tensor and runner, one at a time on each link and direction, while others compute.
struct Prediction {
    double seconds = 0;              ///< of the whole graph
    std::vector<double> start, end;  ///< of each node, by place in the list
    std::vector<double> busy;        ///< seconds of work for each runner
    /// Bytes on each runner: results and copies alive at the worst time. Memory that was given does
    /// not count, nor does it help here that ops may reuse the memory of what they read.
    std::vector<std::size_t> resident;
};
Prediction predict(Abilities& abilities, const Placement& placement, const CostModel& model);

/// Places nodes so that the predicted time of the whole graph is small, within the budgets. What
/// has memory stays, pins hold. Never worse than the default rules where those fit the budgets.
/// Fails if nothing is found that fits: the sentence names the runner, its budget and the need.
///
/// A budget of kind free_share limits kept constants only. The time taken grows about linearly with
/// the nodes: some milliseconds for a thousand.
Result<Placement> place_by_cost(Abilities& abilities, const Pins& pins, const CostModel& model,
                                const Budgets& budgets);

}  // namespace heddle::sched
