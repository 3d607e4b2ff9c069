#include "runtime/transfer.hpp"
#include "sched/submit/run.hpp"

namespace heddle::sched {
namespace {

std::string name_at(const GraphIndex& index, const Splits& splits, std::int32_t position) {
    return std::string(heddle::name_of(index[splits.order[static_cast<std::size_t>(position)]]));
}

}  // namespace

Result<> Run::compute(const Action& action) {
    const Split& split = splits_.splits[static_cast<std::size_t>(action.index)];
    HEDDLE_TRY(fetch(split));
    const Patched patched(index_, splits_, split.first_patch, split.last_patch, options_.slot);
    if (options_.observer != nullptr) return observe(action, split);
    const std::size_t number = static_cast<std::size_t>(options_.slot) * splits_.splits.size() +
                               static_cast<std::size_t>(action.index);
    const std::uint64_t uid = options_.binding != 0 ? state_.uids[number] : 0;
    return compute_piece(action, split.begin, split.end, uid);
}

Result<> Run::compute_piece(const Action& action, std::int32_t begin, std::int32_t end,
                            std::uint64_t uid) {
    if (begin == end) return ok();
    Graph part = slice(index_.graph(), 0, 0);
    part.nodes = state_.nodes.data() + begin;
    part.n_nodes = end - begin;
    part.uid = uid;
    Stream& stream = blocks(action) ? *team_[action.runner].stream : stream_of(action);
    auto computed = compute_async(stream, part);
    if (computed && blocks(action)) computed = heddle::finish(stream);
    if (computed) return ok();
    return std::move(computed).error().within(text(team_[action.runner].name, ", nodes '",
                                                   name_at(index_, splits_, begin), "' to '",
                                                   name_at(index_, splits_, end - 1), '\''));
}

/// Computes up to each node that the observer wants to see, and shows it.
Result<> Run::observe(const Action& action, const Split& split) {
    Stream& stream = *team_[action.runner].stream;
    for (std::int32_t begin = split.begin; begin < split.end;) {
        std::int32_t end = begin;
        bool is_wanted = false;
        Tensor* node = nullptr;
        while (end < split.end && !is_wanted) {
            node = &index_[splits_.order[static_cast<std::size_t>(end++)]];
            is_wanted = options_.observer(node, true, options_.observer_data);
        }
        HEDDLE_TRY(compute_piece(action, begin, end, 0));
        begin = end;
        HEDDLE_TRY(heddle::finish(stream));
        if (!is_wanted) continue;
        HEDDLE_TRY(write_back_now(split, end - 1));
        if (!options_.observer(node, false, options_.observer_data)) {
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
                           index_[detour.node]);
    }
    return ok();
}

/// Brings what is in the memory of nodes that change only part of it to where they are computed.
/// Rare, so nobody overlaps with it.
Result<> Run::fetch(const Split& split) {
    bool has_waited = false;
    for (const std::int32_t number : split.detours) {
        const Detour& detour = splits_.detours[static_cast<std::size_t>(number)];
        if (!detour.fetch_first) continue;
        RunnerId culprit = kNobody;
        if (!has_waited) HEDDLE_TRY(state_.lanes.finish_all(false, culprit));
        has_waited = true;
        HEDDLE_TRY(copy_tensor(index_[detour.node],
                               splits_.stand_ins[static_cast<std::size_t>(detour.stand_in)]));
    }
    return ok();
}

}  // namespace heddle::sched
