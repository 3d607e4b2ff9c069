#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sched/graph_index.hpp"
#include "sched/team.hpp"

/// The first stage: who runs each node, and why.
namespace heddle::sched {

/// What decided. The order is that of `name_of(Rule)`.
enum class Rule : std::uint8_t {
    none,           ///< nothing has decided yet
    pinned,         ///< the caller said so
    own_memory,     ///< its memory is there already
    viewed_memory,  ///< it is a view of memory that is there already
    away,           ///< its memory is where its op cannot run: computed elsewhere and copied back
    input,          ///< inputs are at home on the host
    weight,         ///< a weight it reads is there
    offload,        ///< a weight it reads is on the host, and this device asked for it
    spread_down,    ///< the node before it is there
    spread_up,      ///< the node after it is there
    best_sources,   ///< most of what it reads is there
    upgrade,        ///< a more preferred runner of the same memory can run it
    view,           ///< what it is a view of is there
    reader,         ///< the node that reads it is there
    first_able,     ///< no device before it can run it
    cost,           ///< fastest by prediction
};
inline constexpr std::size_t kRuleCount = 16;
std::string_view name_of(Rule rule);  ///< such as "weight": for people and JSON

/// Where a tensor goes, and the reason.
struct Choice {
    RunnerId runner = kNoRunner;
    /// For tensors that have memory already: the most preferred runner that can use it, one that is
    /// available if there is any; kNoRunner if no device of the team can, or it has none yet. For
    /// nodes computed away into memory that has yet to be planned: whose it will be.
    RunnerId home = kNoRunner;
    Rule rule = Rule::none;
    bool lost_pin = false;         ///< the caller fixed it to a runner that is not available
    TensorId because = kNoTensor;  ///< the tensor that decided: a weight, a neighbour
};

/// One choice for each tensor of a GraphIndex.
struct Placement {
    std::vector<Choice> choices;

    const Choice& operator[](TensorId id) const { return choices[static_cast<std::size_t>(id)]; }
    Choice& operator[](TensorId id) { return choices[static_cast<std::size_t>(id)]; }
};

/// What the caller has fixed, by tensor.
using Pins = std::unordered_map<const Tensor*, RunnerId>;

/// Which runner can run which node. Devices are asked once for each node, and only when it matters.
class Abilities {
public:
    Abilities(const GraphIndex& index, Team& team);

    /// Never for runners that are not available.
    bool can_run(RunnerId runner, TensorId node);

    /// Whether the runner can work on the tensor where it is, or where `placement` puts it. A view
    /// is where its root is. False for tensors that are nowhere yet.
    bool can_reach(RunnerId runner, TensorId tensor, const Placement& placement);

    const GraphIndex& index() const { return index_; }
    Team& team() const { return team_; }

private:
    std::uint8_t& answer(RunnerId runner, TensorId node) {
        return answers_[static_cast<std::size_t>(node) * team_.size() +
                        static_cast<std::size_t>(runner)];
    }
    void prefetch_ahead(RunnerId runner, TensorId node);

    const GraphIndex& index_;
    Team& team_;
    TensorId last_asked_ = 0, fetched_ = 0;
    std::vector<std::uint8_t> answers_;  ///< of each tensor and runner: 0 not asked, 1 no, 2 yes
};

/// The default rules: memory and weights decide, inputs stay on the host, accelerators spread over
/// what is neutral. Fails if there is a node that no device can run: the sentence names the op, the
/// tensor, and what each device says.
Result<Placement> place(Abilities& abilities, const Pins& pins);

/// The rules one after the other; `place` runs them all. What is decided stays decided, but for
/// `upgrade` and `bring_writers_home`.
namespace rules {

Result<> keep_pins(Abilities& abilities, const Pins& pins, Placement& placement);

/// Memory that is there already, inputs and weights fix where tensors go.
void anchor(Abilities& abilities, Placement& placement);

/// Nodes follow their neighbours, first those on accelerators.
void spread(Abilities& abilities, Placement& placement);

/// Nodes whose neighbours cannot run them go where most of their sources are. Fails for what
/// no device can run.
Result<> settle(Abilities& abilities, Placement& placement);

/// Moves a node to a more preferred runner of the same memory if that can run it.
void upgrade(Abilities& abilities, Placement& placement);

/// Views, leafs and the like follow what they are views of, or the node that reads them.
void follow(Abilities& abilities, Placement& placement);

/// Nodes that write into a tensor's memory run where that is, or are marked as computed away.
void bring_writers_home(Abilities& abilities, Placement& placement);

}  // namespace rules

/// What the device says against running the node; empty if it can.
std::string objection(const Runner& runner, const Tensor& node);

/// For people: one line per node with its runner and reason.
std::string to_text(const Placement& placement, const GraphIndex& index, const Team& team);

}  // namespace heddle::sched
