#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph.hpp"
#include "runtime/meta/reduction.hpp"
#include "runtime/meta/states.hpp"
#include "runtime/meta/sums.hpp"

namespace heddle::meta {

/// Nodes that the devices compute without needing each other, and the sum that is put together
/// after them.
struct Step {
    std::vector<Graph> graphs;  ///< one for each device
    std::unique_ptr<Reduction> reduction;
};

/// A graph as the devices see it: for each of its tensors, what each device has of it.
class Plan {
public:
    /// The graph's tensors have memory. Fails if a node cannot be computed in parts, or not by the
    /// devices.
    static Result<std::unique_ptr<Plan>> make(JoinedDevice& device, const Graph& graph);

    std::uint64_t uid() const { return uid_; }
    Result<> run(StreamGroup& group);

private:
    Plan(JoinedDevice& device, std::uint64_t uid)
        : device_(device), uid_(uid), states_(device), scratch_(device), slices_(device.size()) {}

    using Index = std::size_t;

    Result<Index> slice(const Tensor& tensor);
    Result<> slice_root(const Tensor& tensor, const Split& split);
    Result<> slice_view(const Tensor& tensor, const Split& split, Index root);
    Result<> make_node(const Tensor& node, const Sums& sums, bool is_zeroed_if_absent);
    Result<> check_support(const Tensor& slice, std::size_t device) const;
    bool is_absent(const Tensor& node, const Sums& sums, std::size_t device);
    Result<> make_graphs(const Graph& graph);
    Result<> make_steps(const Graph& graph, const Sums& sums);
    Result<> run_step(Step& step, StreamGroup& group);

    JoinedDevice& device_;
    std::uint64_t uid_;
    States states_;
    Scratch scratch_;
    std::unordered_map<const Tensor*, Index> index_;
    std::vector<std::deque<Tensor>> slices_;    ///< per device
    std::unordered_set<const Tensor*> absent_;  ///< slices that a device does not compute
    std::vector<OwnedContext> contexts_;
    std::vector<Graph*> graphs_;  ///< per device
    std::vector<Step> steps_;
};

}  // namespace heddle::meta
