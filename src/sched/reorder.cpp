#include "sched/reorder.hpp"

#include <algorithm>
#include <utility>

#include "runtime/stream.hpp"

namespace heddle::sched {
namespace {

/// Shows splits to their backends and adopts what comes back.
class Reorder {
public:
    Reorder(const GraphIndex& index, Splits& splits) : index_(index), splits_(splits) {}

    void apply(const Split& split, Stream& stream) {
        const auto begin = static_cast<std::size_t>(split.begin);
        const auto count = static_cast<std::size_t>(split.end) - begin;
        nodes_.resize(count);
        for (std::size_t i = 0; i < count; ++i) nodes_[i] = &index_[splits_.order[begin + i]];

        Graph part = slice(index_.graph(), 0, static_cast<int>(count));
        part.nodes = nodes_.data();
        optimize(stream, part);
        if (part.nodes != nodes_.data() || part.n_nodes != static_cast<int>(count)) return;
        if (read_back(split)) adopt(split);
    }

private:
    /// Where each node went. False if nothing changed, and for what is no permutation that leaves
    /// the last node last.
    bool read_back(const Split& split) {
        const auto begin = static_cast<std::size_t>(split.begin);
        const std::size_t count = nodes_.size();
        if (nodes_.back() != &index_[splits_.order[begin + count - 1]]) return false;
        moved_to_.assign(count, -1);
        bool changed = false;
        offset_of_.resize(index_.size(), -1);
        for (std::size_t i = 0; i < count; ++i) {
            offset_of_[static_cast<std::size_t>(splits_.order[begin + i])] =
                static_cast<std::int32_t>(i);
        }
        order_.clear();
        for (std::size_t i = 0; i < count; ++i) {
            const TensorId id = index_.find(nodes_[i]);
            if (id == kNoTensor) return false;
            const std::int32_t from = std::exchange(offset_of_[static_cast<std::size_t>(id)], -1);
            if (from < 0 || moved_to_[static_cast<std::size_t>(from)] >= 0) return false;
            moved_to_[static_cast<std::size_t>(from)] = split.begin + static_cast<std::int32_t>(i);
            changed |= from != static_cast<std::int32_t>(i);
            order_.push_back(id);
        }
        return changed;
    }

    void adopt(const Split& split) {
        std::copy(order_.begin(), order_.end(), splits_.order.begin() + split.begin);
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

    const GraphIndex& index_;
    Splits& splits_;
    std::vector<Tensor*> nodes_;           ///< what the backend is shown
    std::vector<std::int32_t> offset_of_;  ///< of each tensor: place in the split
    std::vector<std::int32_t> moved_to_;   ///< of each place in the split: the new position
    std::vector<TensorId> order_;
};

}  // namespace

void reorder(Splits& splits, const GraphIndex& index, const Team& team) {
    Reorder reorder(index, splits);
    for (const Split& split : splits.splits) {
        Stream& stream = *team[split.runner].stream;
        if (stream.iface.graph_optimize != nullptr) reorder.apply(split, stream);
    }
}

}  // namespace heddle::sched
