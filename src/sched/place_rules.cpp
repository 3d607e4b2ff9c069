#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "runtime/buffer.hpp"
#include "runtime/device.hpp"
#include "sched/place.hpp"

namespace heddle::sched::rules {
namespace {

bool is_input(const GraphIndex& index, TensorId id) {
    return (index.facts(id).flags & GGML_TENSOR_FLAG_INPUT) != 0;
}

/// The most preferred available runner that can use the memory and run the node.
RunnerId find_in_memory(Abilities& abilities, BufferType& type, TensorId node) {
    Team& team = abilities.team();
    for (RunnerId id = 0; id <= team.last(); ++id) {
        if (team.can_use(id, type) && abilities.can_run(id, node)) return id;
    }
    return kNoRunner;
}

RunnerId find_home(Team& team, BufferType& type) {
    RunnerId home = kNoRunner;
    for (RunnerId id = 0; id <= team.last(); ++id) {
        if (!team.can_use(id, type)) continue;
        if (team[id].available) return id;
        if (home == kNoRunner) home = id;
    }
    return home;
}

/// Fails with what every device says against the node.
Error no_device_can(const Team& team, const Tensor& node) {
    std::string devices;
    for (const Runner& runner : team.runners()) {
        devices += text(devices.empty() ? "" : "; ", runner.name, ": ", objection(runner, node));
    }
    return failure(Errc::unsupported, "no device can run ", describe_op_of(node), " of ",
                   describe(node), " (", devices, ")");
}

// ---- anchors -----------------------------------------------------------------------------------

/// Where the first weight among the sources wants the node to run. Tensors whose own buffer is not
/// known to be for weights do not count, nor do later ones.
Choice choose_by_weight(Abilities& abilities, TensorId node) {
    const GraphIndex& index = abilities.index();
    Team& team = abilities.team();
    const Op op = index.facts(node).op;
    // What these read from weights is tiny.
    if (op == GGML_OP_ROPE || op == GGML_OP_FLASH_ATTN_EXT) return {};
    for (const auto& [source, slot] : index.sources(node)) {
        const Buffer* buffer = index.facts(source).buffer;
        if (buffer == nullptr || buffer->usage != GGML_BACKEND_BUFFER_USAGE_WEIGHTS) continue;
        Choice choice;
        choice.because = source;
        choice.rule = Rule::weight;
        choice.runner = find_in_memory(abilities, *buffer->buft, node);
        if (!team.offloads() || choice.runner != team.last() || !is_host(*buffer->buft)) {
            return choice;
        }
        for (RunnerId id = 0; id < team.last(); ++id) {
            if (!abilities.can_run(id, node)) continue;
            if (!wants_offload(*team[id].device, index[node])) continue;
            choice.runner = id;
            choice.rule = Rule::offload;
            break;
        }
        return choice;
    }
    return {};
}

Choice choose_anchor(Abilities& abilities, TensorId id, const Buffer* buffer) {
    const GraphIndex& index = abilities.index();
    if (buffer != nullptr) {
        const TensorId root = index.root(id);
        const Rule rule = root == id ? Rule::own_memory : Rule::viewed_memory;
        Choice choice;
        choice.runner = find_in_memory(abilities, *buffer->buft, id);
        choice.rule = rule;
        choice.because = root;
        return choice;
    }
    const RunnerId last = abilities.team().last();
    if (is_input(index, id) && abilities.can_run(last, id)) {
        Choice choice;
        choice.runner = last;
        choice.rule = Rule::input;
        return choice;
    }
    return choose_by_weight(abilities, id);
}

void anchor_tensor(Abilities& abilities, TensorId id, Placement& placement) {
    const GraphIndex& index = abilities.index();
    Choice& choice = placement[id];
    const Buffer* buffer = index.facts(index.root(id)).buffer;
    if (buffer != nullptr) choice.home = find_home(abilities.team(), *buffer->buft);
    if (choice.runner != kNoRunner) return;
    const Choice found = choose_anchor(abilities, id, buffer);
    if (found.runner == kNoRunner) return;  // later rules decide
    choice.runner = found.runner;
    choice.rule = found.rule;
    choice.because = found.because;
}

}  // namespace

Result<> keep_pins(Abilities& abilities, const Pins& pins, Placement& placement) {
    const GraphIndex& index = abilities.index();
    const Team& team = abilities.team();
    for (const auto& [tensor, runner] : pins) {
        const TensorId id = index.find(tensor);
        if (id == kNoTensor || index.is_view(id)) continue;  // a view is where its root is
        if (runner < 0 || runner > team.last()) {
            return invalid(describe(*tensor), " is pinned to runner ", runner, " of ", team.size());
        }
        Choice& choice = placement[id];
        if (!team[runner].available) {
            choice.lost_pin = true;
            continue;
        }
        if (!abilities.can_run(runner, id)) {
            return failure(Errc::unsupported, describe_op_of(*tensor), " of ", describe(*tensor),
                           " is pinned to ", team[runner].name,
                           ", which cannot run it: ", objection(team[runner], *tensor));
        }
        choice.runner = runner;
        choice.rule = Rule::pinned;
    }
    return ok();
}

void anchor(Abilities& abilities, Placement& placement) {
    const auto count = static_cast<TensorId>(abilities.index().size());
    for (TensorId id = 0; id < count; ++id) anchor_tensor(abilities, id, placement);
}

// ---- spreading ---------------------------------------------------------------------------------

namespace {

/// One sweep over the nodes. Undecided ones take the runner of the last decided one, if that can
/// run them.
class Sweep {
public:
    Sweep(Abilities& abilities, Placement& placement, Rule rule, bool host_spreads)
        : abilities_(abilities),
          placement_(placement),
          rule_(rule),
          silent_(host_spreads ? kNoRunner : abilities.team().last()) {}

    void visit(TensorId node) {
        if (abilities_.index().is_view(node)) return;
        Choice& choice = placement_[node];
        if (choice.runner == kNoRunner) {
            if (current_ == kNoRunner || !abilities_.can_run(current_, node)) return;
            choice.runner = current_;
            choice.rule = rule_;
            choice.because = from_;
        } else {
            current_ = choice.runner == silent_ ? kNoRunner : choice.runner;
        }
        from_ = node;
    }

private:
    Abilities& abilities_;
    Placement& placement_;
    Rule rule_;
    RunnerId silent_;  ///< does not spread; kNoRunner: all do
    RunnerId current_ = kNoRunner;
    TensorId from_ = kNoTensor;
};

}  // namespace

void spread(Abilities& abilities, Placement& placement) {
    const auto nodes = abilities.index().nodes();
    for (const bool host_spreads : {false, true}) {
        Sweep down(abilities, placement, Rule::spread_down, host_spreads);
        for (auto node = nodes.begin(); node != nodes.end(); ++node) down.visit(*node);
        Sweep up(abilities, placement, Rule::spread_up, host_spreads);
        for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) up.visit(*node);
    }
}

// ---- what is left ------------------------------------------------------------------------------

Result<> settle(Abilities& abilities, Placement& placement) {
    const GraphIndex& index = abilities.index();
    const Team& team = abilities.team();
    for (const TensorId node : index.nodes()) {
        Choice& choice = placement[node];
        if (choice.runner != kNoRunner || index.is_view(node)) continue;
        int most = -1;
        for (RunnerId id = 0; id <= team.last(); ++id) {
            if (!abilities.can_run(id, node)) continue;
            int reached = 0;
            for (const auto& [source, slot] : index.sources(node)) {
                reached += abilities.can_reach(id, source, placement) ? 1 : 0;
            }
            if (reached <= most) continue;
            most = reached;
            choice.runner = id;
        }
        if (most < 0) return no_device_can(team, index[node]);
        choice.rule = most > 0 ? Rule::best_sources : Rule::first_able;
    }
    return ok();
}

void upgrade(Abilities& abilities, Placement& placement) {
    const GraphIndex& index = abilities.index();
    const Team& team = abilities.team();
    const auto reaches_all = [&](RunnerId runner, TensorId node) {
        for (const auto& [source, slot] : index.sources(node)) {
            if (!abilities.can_reach(runner, source, placement)) return false;
        }
        return true;
    };
    for (const TensorId node : index.nodes()) {
        Choice& choice = placement[node];
        if (index.is_view(node) || choice.rule == Rule::pinned) continue;
        for (RunnerId id = 0; id < choice.runner; ++id) {
            if (team[id].type != team[choice.runner].type) continue;
            if (!abilities.can_run(id, node) || !reaches_all(id, node)) continue;
            choice.runner = id;
            choice.rule = Rule::upgrade;
            choice.because = kNoTensor;
        }
    }
}

namespace {

/// A tensor that nothing else decides goes where its reader runs, together with its root.
void follow_reader(const GraphIndex& index, TensorId tensor, TensorId reader,
                   Placement& placement) {
    const TensorId root = index.root(tensor);
    if (Choice& choice = placement[root]; choice.runner == kNoRunner) {
        choice.runner = placement[reader].runner;
        choice.rule = Rule::reader;
        choice.because = reader;
    }
    if (Choice& choice = placement[tensor]; choice.runner == kNoRunner) {
        choice.runner = placement[root].runner;
        choice.rule = Rule::view;
        choice.because = root;
    }
}

}  // namespace

void follow(Abilities& abilities, Placement& placement) {
    const GraphIndex& index = abilities.index();
    for (const TensorId node : index.nodes()) {
        if (index.is_view(node)) continue;
        for (const auto& [source, slot] : index.sources(node)) {
            if (placement[source].runner != kNoRunner) continue;
            follow_reader(index, source, node, placement);
        }
    }
    // Now all that nodes read is decided: views of it that none reads follow, and the rest is
    // for the caller to look at.
    const auto count = static_cast<TensorId>(index.size());
    for (TensorId id = 0; id < count; ++id) {
        if (placement[id].runner != kNoRunner) continue;
        Choice& root = placement[index.root(id)];
        if (root.runner == kNoRunner) {
            root.runner = abilities.team().last();
            root.rule = Rule::input;
        }
        Choice& choice = placement[id];
        if (choice.runner != kNoRunner) continue;
        choice.runner = root.runner;
        choice.rule = Rule::view;
        choice.because = index.root(id);
    }
}

void bring_writers_home(Abilities& abilities, Placement& placement) {
    const GraphIndex& index = abilities.index();
    for (const TensorId node : index.nodes()) {
        // What is not computed writes nothing.
        const bool computes = (index.facts(node).flags & GGML_TENSOR_FLAG_COMPUTE) != 0 &&
                              index.facts(node).op != GGML_OP_NONE;
        if (!computes || index.is_view(node)) continue;
        const TensorId root = index.root(node);
        Choice& choice = placement[node];
        const bool has_memory = index.facts(root).buffer != nullptr;
        if (!has_memory && root == node) continue;
        if (abilities.can_reach(choice.runner, node, placement)) continue;
        const RunnerId owner = placement[root].runner;
        if (!has_memory && choice.rule != Rule::pinned && abilities.can_run(owner, node)) {
            choice.runner = owner;
            choice.rule = Rule::viewed_memory;
        } else {
            choice.rule = Rule::away;
            if (!has_memory) choice.home = owner;
        }
        choice.because = root;
    }
}

}  // namespace heddle::sched::rules
