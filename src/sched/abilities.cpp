#include <algorithm>
#include <utility>

#include "core/prefetch.hpp"
#include "runtime/buffer.hpp"
#include "runtime/device.hpp"
#include "sched/place.hpp"

namespace heddle::sched {
namespace {

enum Answer : std::uint8_t { not_asked, no, yes };

}  // namespace

Abilities::Abilities(const GraphIndex& index, Team& team)
    : index_(index), team_(team), answers_(index.size() * team.size(), not_asked) {}

/// Devices look at nodes and at the layouts of what they read. Rules go through the nodes in their
/// order and leave out many: all that may be asked about next are brought near.
void Abilities::prefetch_ahead(RunnerId runner, TensorId node) {
    const TensorId last = std::exchange(last_asked_, node);
    const auto end = static_cast<TensorId>(
        std::min(static_cast<std::size_t>(node) + kReadAhead, index_.nodes().size()));
    // Some rules go backwards, for a few nodes.
    if (node < last) {
        fetched_ = end;
        return;
    }
    for (fetched_ = std::max(fetched_, node); fetched_ < end; ++fetched_) {
        if (index_.is_view(fetched_) || answer(runner, fetched_) != not_asked) continue;
        prefetch(&index_[fetched_]);
        for (const auto source : index_.sources(fetched_)) prefetch_layout(&index_[source.tensor]);
    }
}

bool Abilities::can_run(RunnerId runner, TensorId node) {
    const Runner& candidate = team_[runner];
    if (!candidate.available) return false;
    if (index_.is_view(node) || index_.facts(node).op == kNoOp) return true;
    std::uint8_t& known = answer(runner, node);
    if (known == not_asked) {
        prefetch_ahead(runner, node);
        known = supports_op(*candidate.device, index_[node]) ? yes : no;
    }
    return known == yes;
}

bool Abilities::can_reach(RunnerId runner, TensorId tensor, const Placement& placement) {
    const TensorId root = index_.root(tensor);
    if (const Buffer* buffer = index_.facts(root).buffer; buffer != nullptr) {
        return team_.can_use(runner, *buffer->buft);
    }
    RunnerId owner = placement[root].runner;
    if (owner == kNoRunner) owner = placement[tensor].runner;
    return owner != kNoRunner && (owner == runner || team_.can_use(runner, *team_[owner].type));
}

}  // namespace heddle::sched
