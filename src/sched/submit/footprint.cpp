#include "sched/submit/footprint.hpp"

#include <algorithm>

#include "core/root_buffer.hpp"
#include "sched/plan/actions.hpp"
#include "sched/submit/queues.hpp"

namespace heddle::sched {
namespace {

/// Where the entry of `buffer` is, or belongs.
Footprint::iterator place_of(Footprint& footprint, const Buffer* buffer) {
    return std::ranges::lower_bound(footprint, buffer, std::less<>(), &Touch::buffer);
}

void add_stand_ins(Footprint& footprint, Splits& splits, const Copy& copy, bool writes) {
    for (int slot = 0; slot < copy.stand_ins; ++slot) {
        add(footprint, root_buffer(splits.stand_in(copy, slot)), writes);
    }
}

/// What the nodes of a split touch. Copies are in memory of any slot.
void add_split(Footprint& footprint, const GraphIndex& index, Splits& splits, const Split& split,
               const WiredGraph& wired) {
    for (std::int32_t at = split.begin; at < split.end; ++at) {
        const auto position = static_cast<std::size_t>(at);
        const TensorId id = splits.order[position];
        if (is_idle(index, id)) continue;
        const Tensor& node = *wired.nodes()[position];
        add(footprint, root_buffer(node), true);
        for (const GraphIndex::Source& source : index.sources(id)) {
            add(footprint, root_buffer(*node.src[source.slot]),
                writes_source(index, id, source.slot));
        }
    }
    for (std::uint32_t p = split.first_patch; p < split.last_patch; ++p) {
        const auto copy = static_cast<std::size_t>(splits.patches[p].copy);
        add_stand_ins(footprint, splits, splits.copies[copy], false);
    }
}

}  // namespace

void add(Footprint& footprint, const Buffer* buffer, bool writes) {
    const auto place = place_of(footprint, buffer);
    if (place == footprint.end() || place->buffer != buffer) {
        footprint.insert(place, {buffer, writes});
    } else {
        place->writes |= writes;
    }
}

void merge(Footprint& footprint, const Footprint& more) {
    for (const Touch& touch : more) add(footprint, touch.buffer, touch.writes);
}

bool conflict(const Footprint& a, const Footprint& b) {
    for (auto left = a.begin(), right = b.begin(); left != a.end() && right != b.end();) {
        if (left->buffer == right->buffer && (left->writes || right->writes)) return true;
        if (std::less<>()(right->buffer, left->buffer)) {
            ++right;
        } else {
            ++left;
        }
    }
    return false;
}

std::vector<Footprint> footprints_of(const GraphIndex& index, Splits& splits,
                                     const Program& program, const Team& team,
                                     const WiredGraph& wired) {
    std::vector<Footprint> footprints(kQueues * team.size());
    for (const Action& action : program.actions) {
        const auto number = static_cast<std::size_t>(action.index);
        Footprint& own = footprints[number_of(action.runner, action.queue)];
        if (action.kind == Action::Kind::compute) {
            add_split(own, index, splits, splits.splits[number], wired);
        } else if (action.kind == Action::Kind::copy) {
            const Copy& copy = splits.copies[number];
            const Buffer* const source = root_buffer(index[copy.tensor]);
            add(own, source, false);
            add_stand_ins(own, splits, copy, true);
            // The host looks at the choice of experts before it copies them.
            const TensorId ids = chosen_by(index, copy);
            if (ids != kNoTensor) add(own, root_buffer(index[ids]), false);
            // Either of the two streams may be the one that does it.
            if (copy.from == kNoRunner || copy.from == action.runner) continue;
            Footprint& other = footprints[number_of(copy.from, Queue::download)];
            add(other, source, false);
            add_stand_ins(other, splits, copy, true);
        }
    }
    return footprints;
}

}  // namespace heddle::sched
