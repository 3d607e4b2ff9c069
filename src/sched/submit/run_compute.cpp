#include "heddle/exception.hpp"
#include "runtime/transfer.hpp"
#include "sched/submit/run.hpp"

namespace heddle::sched {

Result<> Run::compute(const Action& action) {
    const auto number = static_cast<std::size_t>(action.index);
    const Split& split = splits_.splits[number];
    HEDDLE_TRY(fetch(split));
    if (options_.observer != nullptr) return observe(action, split);
    return compute_part(action, wired_->split(number));
}

Result<> Run::compute_part(const Action& action, Graph& part) {
    if (part.n_nodes == 0) return ok();
    Stream& stream = blocks(action) ? *team_[action.runner].stream : stream_of(action);
    auto computed = compute_async(stream, part);
    if (computed && blocks(action)) computed = heddle::finish(stream);
    if (computed) return ok();
    return std::move(computed).error().within(
        text(team_[action.runner].name, ", nodes '", heddle::name_of(*part.nodes[0]), "' to '",
             heddle::name_of(*part.nodes[part.n_nodes - 1]), '\''));
}

/// What the caller's function says; a failure if it throws.
Result<bool> Run::ask_observer(Tensor& node, bool ask) const {
    try {
        return options_.observer(&node, ask, options_.observer_data);
    } catch (...) {
        // Not the device's failure, whatever was thrown.
        return invalid("the callback threw at node '", heddle::name_of(node),
                       "': ", current_exception_as_error().message);
    }
}

/// Computes up to each node that the observer wants to see, and shows it. It sees the caller's own
/// nodes, meanwhile with the sources that they were computed from: the memory of the original ones
/// may have been used again.
Result<> Run::observe(const Action& action, const Split& split) {
    const Patched patched(index_, splits_, split.first_patch, split.last_patch, options_.slot);
    Stream& stream = *team_[action.runner].stream;
    for (std::int32_t begin = split.begin; begin < split.end;) {
        std::int32_t end = begin;
        bool is_wanted = false;
        Tensor* node = nullptr;
        while (end < split.end && !is_wanted) {
            node = &index_[splits_.order[static_cast<std::size_t>(end++)]];
            HEDDLE_TRY_ASSIGN(is_wanted, ask_observer(*node, true));
        }
        Graph part = wired_->piece(begin, end);
        HEDDLE_TRY(compute_part(action, part));
        begin = end;
        HEDDLE_TRY(heddle::finish(stream));
        if (!is_wanted) continue;
        HEDDLE_TRY(write_back_now(split, end - 1));
        HEDDLE_TRY_ASSIGN(const bool goes_on, ask_observer(*node, false));
        if (!goes_on) {
            return failure(Errc::aborted, "the callback ended the run after node '",
                           heddle::name_of(*node), '\'');
        }
    }
    return ok();
}

/// If the node at `position` was computed somewhere else, its bytes get to its own memory.
Result<> Run::write_back_now(const Split& split, std::int32_t position) {
    for (const std::int32_t number : split.detours) {
        const Detour& detour = splits_.detours[static_cast<std::size_t>(number)];
        if (detour.position != position) continue;
        return copy_tensor(splits_.stand_ins[static_cast<std::size_t>(detour.stand_in)],
                           (*wired_)[detour.node]);
    }
    return ok();
}

/// Brings what is in the memory of nodes that change only part of it to where they are computed.
/// Rare, so nothing overlaps with it.
Result<> Run::fetch(const Split& split) {
    bool has_waited = false;
    for (const std::int32_t number : split.detours) {
        const Detour& detour = splits_.detours[static_cast<std::size_t>(number)];
        if (!detour.fetch_first) continue;
        RunnerId culprit = kNoRunner;
        if (!has_waited) HEDDLE_TRY(state_.queues.finish_all(false, culprit));
        has_waited = true;
        HEDDLE_TRY(copy_tensor((*wired_)[detour.node],
                               splits_.stand_ins[static_cast<std::size_t>(detour.stand_in)]));
    }
    return ok();
}

}  // namespace heddle::sched
