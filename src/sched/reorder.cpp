#include "sched/reorder.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/stream.hpp"

namespace heddle::sched {
namespace {

/// Shows splits to their backends and adopts what comes back.
class Reorder {
public:
    explicit Reorder(Splits& splits) : splits_(splits) {}

    void apply(const Split& split, Stream& stream, WiredGraph& wired) {
        const auto begin = static_cast<std::size_t>(split.begin);
        const auto count = static_cast<std::size_t>(split.end) - begin;
        const auto given = wired.nodes().subspan(begin, count);
        nodes_.assign(given.begin(), given.end());

        Graph part = wired.piece(split.begin, split.end);
        part.nodes = nodes_.data();
        optimize(stream, part);
        if (part.nodes != nodes_.data() || part.n_nodes != static_cast<int>(count)) return;
        if (std::ranges::equal(nodes_, given) || !read_back(given)) return;
        wired.reorder(begin, nodes_);
        adopt(split);
    }

private:
    /// Where each node went. False for what is no permutation that leaves the last node last.
    bool read_back(std::span<Tensor* const> given) {
        if (nodes_.back() != given.back()) return false;
        offset_of_.clear();
        for (std::size_t i = 0; i < given.size(); ++i) {
            offset_of_.emplace(given[i], static_cast<std::int32_t>(i));
        }
        moved_from_.clear();
        for (const Tensor* node : nodes_) {
            const auto known = offset_of_.extract(node);
            if (known.empty()) return false;
            moved_from_.push_back(known.mapped());
        }
        return true;
    }

    void adopt(const Split& split) {
        const auto order = splits_.order.begin() + split.begin;
        order_.assign(order, order + static_cast<std::ptrdiff_t>(nodes_.size()));
        moved_to_.resize(nodes_.size());
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            const auto from = static_cast<std::size_t>(moved_from_[i]);
            order[static_cast<std::ptrdiff_t>(i)] = order_[from];
            moved_to_[from] = split.begin + static_cast<std::int32_t>(i);
        }
        const auto moved = [&](std::int32_t position) {
            return moved_to_[static_cast<std::size_t>(position - split.begin)];
        };
        const std::span patches(splits_.patches.data() + split.first_patch,
                                splits_.patches.data() + split.last_patch);
        for (Patch& patch : patches) patch.position = moved(patch.position);
        std::sort(patches.begin(), patches.end(), [](const Patch& a, const Patch& b) {
            return std::pair(a.position, a.slot) < std::pair(b.position, b.slot);
        });
        for (const std::int32_t number : split.detours) {
            Detour& detour = splits_.detours[static_cast<std::size_t>(number)];
            detour.position = moved(detour.position);
        }
    }

    Splits& splits_;
    std::vector<Tensor*> nodes_;                                 ///< what the backend is shown
    std::unordered_map<const Tensor*, std::int32_t> offset_of_;  ///< place in the split
    std::vector<std::int32_t> moved_from_;  ///< of each place in the split: the old one
    std::vector<std::int32_t> moved_to_;    ///< of each place in the split: the new position
    std::vector<TensorId> order_;
};

bool optimizes(const Team& team, const Split& split) {
    return team[split.runner].stream->iface.graph_optimize != nullptr;
}

bool reserves(const Team& team, const Split& split) { return team[split.runner].has_reserve; }

}  // namespace

/// Backends see the nodes that they are going to compute: they may remember them.
void reorder(Splits& splits, const GraphIndex& index, const Team& team) {
    const auto asks = [&](const Split& split) {
        return optimizes(team, split) || reserves(team, split);
    };
    if (std::ranges::none_of(splits.splits, asks)) return;
    splits.wired.push_back(std::make_unique<WiredGraph>(index, splits, 0));
    Reorder reorder(splits);
    for (const Split& split : splits.splits) {
        if (!optimizes(team, split)) continue;
        reorder.apply(split, *team[split.runner].stream, *splits.wired.front());
    }
}

Result<> reserve_scratch(Splits& splits, const Team& team) {
    if (splits.wired.empty()) return ok();
    for (const Split& split : splits.splits) {
        if (!reserves(team, split)) continue;
        Graph part = splits.wired.front()->piece(split.begin, split.end);
        HEDDLE_TRY(heddle::reserve(*team[split.runner].stream, part));
    }
    return ok();
}

}  // namespace heddle::sched
