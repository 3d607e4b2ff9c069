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

bool Abilities::can_run(RunnerId runner, TensorId node) {
    const Runner& candidate = team_[runner];
    if (!candidate.available) return false;
    if (index_.only_looks(node) || index_.facts(node).op == GGML_OP_NONE) return true;
    std::uint8_t& answer =
        answers_[static_cast<std::size_t>(node) * team_.size() + static_cast<std::size_t>(runner)];
    if (answer == not_asked) {
        const std::size_t ahead = static_cast<std::size_t>(node) + kReadAhead;
        if (ahead < index_.size()) prefetch(&index_[static_cast<TensorId>(ahead)]);
        answer = supports_op(*candidate.device, index_[node]) ? yes : no;
    }
    return answer == yes;
}

bool Abilities::can_reach(RunnerId runner, TensorId tensor, const Placement& placement) {
    const TensorId root = index_.root(tensor);
    if (const Buffer* buffer = index_.facts(root).buffer; buffer != nullptr) {
        return team_.can_use(runner, *buffer->buft);
    }
    RunnerId owner = placement[root].runner;
    if (owner == kNobody) owner = placement[tensor].runner;
    return owner != kNobody && (owner == runner || team_.can_use(runner, *team_[owner].type));
}

}  // namespace heddle::sched
