#include <algorithm>

#include "core/prefetch.hpp"
#include "runtime/placement.hpp"
#include "sched/plan/plan.hpp"

namespace heddle::sched {

// ---- for the time of a call --------------------------------------------------------------------

Patched::Patched(const GraphIndex& index, Splits& splits, std::uint32_t first_patch,
                 std::uint32_t last_patch, int slot)
    : index_(index), splits_(splits), first_(first_patch), last_(last_patch) {
    for (std::uint32_t i = first_; i < last_; ++i) {
        const Patch& patch = splits_.patches[i];
        const Copy& copy = splits_.copies[static_cast<std::size_t>(patch.copy)];
        runs_at(index_, splits_, patch.position).src[patch.slot] = &splits_.stand_in(copy, slot);
    }
}

Patched::~Patched() {
    for (std::uint32_t i = first_; i < last_; ++i) {
        const Patch& patch = splits_.patches[i];
        runs_at(index_, splits_, patch.position).src[patch.slot] = &index_[patch.original];
    }
}

Tensor& runs_at(const GraphIndex& index, Splits& splits, std::int32_t position) {
    for (const Detour& detour : splits.detours) {
        if (detour.position != position) continue;
        return splits.stand_ins[static_cast<std::size_t>(detour.stand_in)];
    }
    return index[splits.order[static_cast<std::size_t>(position)]];
}

Unplaced::Unplaced(const Graph& graph, const GraphAllocator& memory) : memory_(memory) {
    const auto ours = memory_.own_buffers();
    if (ours.empty()) return;
    const auto take_away = [&](Tensor* tensor) {
        if (tensor->buffer == nullptr) return;
        if (std::ranges::find(ours, tensor->buffer) == ours.end()) return;
        tensors_.push_back({tensor, {tensor->buffer, tensor->data}});
        tensor->buffer = nullptr;
        tensor->data = nullptr;
    };
    for (const auto tensors : {leafs_of(graph), nodes_of(graph)}) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (i + 2 * kReadAhead < tensors.size()) {
                __builtin_prefetch(&tensors[i + 2 * kReadAhead]->buffer);
            }
            take_away(tensors[i]);
        }
    }
}

Unplaced::~Unplaced() {
    if (tensors_.empty()) return;
    const auto ours = memory_.own_buffers();
    for (const Lost& lost : tensors_) {
        // Buffers may have gone meanwhile.
        if (std::ranges::find(ours, lost.home.buffer) == ours.end()) continue;
        lost.tensor->buffer = lost.home.buffer;
        lost.tensor->data = lost.home.data;
    }
}

// ---- the same graph again ----------------------------------------------------------------------

namespace {

Result<> place_all(const Program& program, const GraphIndex& index) {
    Buffer* last = nullptr;
    bool prepares = false;
    const std::size_t count = std::min(program.homes.size(), index.size());
    for (std::size_t i = 0; i < count; ++i) {
        const Home& home = program.homes[i];
        if (home.buffer == nullptr) continue;
        Tensor& tensor = index[static_cast<TensorId>(i)];
        tensor.buffer = home.buffer;
        tensor.data = home.data;
        if (home.buffer != last) {
            last = home.buffer;
            prepares = last->iface.init_tensor != nullptr;
        }
        if (prepares) HEDDLE_TRY(init_tensor(*home.buffer, tensor));
    }
    for (const TensorId id : program.looks) {
        if (index[id].buffer == nullptr) HEDDLE_TRY(place_view(index[id]));
    }
    return ok();
}

}  // namespace

Result<> place_again(const Program& program, const GraphIndex& index) {
    for (Buffer* buffer : program.forgetful) reset_buffer(*buffer);
    for (Tensor* stand_in : program.stand_ins) {
        if (program.forgetful.empty()) break;
        if (stand_in->buffer != nullptr) HEDDLE_TRY(init_tensor(*stand_in->buffer, *stand_in));
    }
    auto placed = place_all(program, index);
    if (placed) return placed;
    for (std::size_t i = 0; i < std::min(program.homes.size(), index.size()); ++i) {
        if (program.homes[i].buffer == nullptr) continue;
        Tensor& tensor = index[static_cast<TensorId>(i)];
        tensor.buffer = nullptr, tensor.data = nullptr;
    }
    return placed;
}

// ---- for people --------------------------------------------------------------------------------

std::string to_text(const Program& program, const Splits& splits, const GraphIndex& index,
                    const Team& team) {
    constexpr std::string_view lanes[] = {"", " upload", " download"};
    const auto tensor_name = [&](TensorId id) { return heddle::name_of(index[id]); };
    std::string lines;
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        const Action& action = program.actions[i];
        const auto what = static_cast<std::size_t>(action.index);
        lines += text("action ", i, ": ", team[action.runner].name,
                      lanes[static_cast<std::size_t>(action.lane)]);
        switch (action.kind) {
            case Action::Kind::copy: {
                const Copy& copy = splits.copies[what];
                lines += text(": copy '", tensor_name(copy.tensor), "' to ", team[copy.to].name,
                              ", ", copy.bytes, " bytes");
                if (program.cached[what] != nullptr) lines += ", kept";
                break;
            }
            case Action::Kind::compute: {
                const Split& split = splits.splits[what];
                lines += text(": split ", what, ", ", split.end - split.begin, " nodes");
                break;
            }
            case Action::Kind::write_back:
                lines += text(": write back '", tensor_name(splits.detours[what].node), '\'');
                break;
        }
        for (std::uint32_t w = action.first_wait; w < action.last_wait; ++w) {
            lines += text(w == action.first_wait ? ", waits for " : ", ", program.waits[w]);
        }
        lines += '\n';
    }
    return lines;
}

}  // namespace heddle::sched
