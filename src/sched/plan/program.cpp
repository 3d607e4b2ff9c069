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

void list_stand_ins(Program& program, Splits& splits) {
    program.stand_ins.clear();
    for (std::size_t i = 0; i < splits.copies.size(); ++i) {
        if (program.cached[i] != nullptr) continue;
        const Copy& copy = splits.copies[i];
        for (int slot = 0; slot < copy.stand_ins; ++slot) {
            program.stand_ins.push_back(&splits.stand_in(copy, slot));
        }
    }
    for (const Detour& detour : splits.detours) {
        program.stand_ins.push_back(&splits.stand_ins[static_cast<std::size_t>(detour.stand_in)]);
    }
}

Unplaced::Unplaced(const Graph& graph, const GraphAllocator& memory) : memory_(memory) {
    const auto ours = memory_.own_buffers();
    if (ours.empty()) return;
    const auto take_away = [&](Tensor* tensor) {
        if (tensor == nullptr || tensor->buffer == nullptr) return;
        if (std::ranges::find(ours, tensor->buffer) == ours.end()) return;
        tensors_.push_back({tensor, {tensor->buffer, tensor->data}});
        tensor->buffer = nullptr;
        tensor->data = nullptr;
    };
    for (const auto tensors : {leafs_of(graph), nodes_of(graph)}) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (i + kReadAhead < tensors.size()) prefetch_line(&tensors[i + kReadAhead]->buffer);
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

PlacedAgain::PlacedAgain(const Program& program)
    : program_(program), before_(program.homes.size(), Before::as_now) {}

/// The last change first: a list may name a tensor twice.
PlacedAgain::~PlacedAgain() {
    if (is_kept_) return;
    for (auto changed = had_.rbegin(); changed != had_.rend(); ++changed) {
        changed->first->buffer = changed->second.buffer;
        changed->first->data = changed->second.data;
    }
    for (std::size_t id = 0; id < end_; ++id) {
        if (before_[id] == Before::as_now) continue;
        list_[id]->buffer = nullptr;
        if (before_[id] == Before::nothing) list_[id]->data = nullptr;
    }
}

inline void PlacedAgain::give(std::size_t id, const Home& home) {
    Tensor& tensor = *list_[id];
    if (tensor.buffer == home.buffer && tensor.data == home.data) return;
    if (tensor.buffer == nullptr && tensor.data == nullptr) {
        before_[id] = Before::nothing;
    } else {
        had_.push_back({&tensor, {tensor.buffer, tensor.data}});
    }
    tensor.buffer = home.buffer;
    tensor.data = home.data;
}

/// A view of memory that is not ours.
Result<> PlacedAgain::look(std::size_t id) {
    Tensor& view = *list_[id];
    void* const data = view.data;
    HEDDLE_TRY(place_view(view));
    if (data == nullptr || data == view.data) {
        before_[id] = data == nullptr ? Before::nothing : Before::address;
    } else {
        had_.push_back({&view, {nullptr, data}});
    }
    return ok();
}

void PlacedAgain::place(TensorId first, std::span<Tensor* const> tensors) {
    const auto begin = static_cast<std::size_t>(first);
    list_ = tensors.data() - begin;
    end_ = std::min(begin + tensors.size(), program_.homes.size());
    for (std::size_t id = begin; id < end_ && !program_.prepares; ++id) {
        if (program_.homes[id].buffer != nullptr) give(id, program_.homes[id]);
    }
    for (const auto& looks = program_.looks; next_look_ < looks.size(); ++next_look_) {
        const auto id = static_cast<std::size_t>(looks[next_look_]);
        if (id >= end_) break;
        if (list_[id]->buffer != nullptr) continue;
        const Buffer* const buffer = list_[id]->view_src->buffer;
        // What cannot be done now is done, or reported, in the end.
        const bool waits = buffer == nullptr || buffer->iface.init_tensor != nullptr;
        if (waits || !look(id)) looks_left_.push_back(id);
    }
}

/// Buffers and what is in them, where backends want to know.
Result<> PlacedAgain::tell_backends() {
    for (Buffer* buffer : program_.forgetful) reset_buffer(*buffer);
    for (Tensor* stand_in : program_.stand_ins) {
        if (program_.forgetful.empty()) break;
        if (stand_in->buffer != nullptr) HEDDLE_TRY(init_tensor(*stand_in->buffer, *stand_in));
    }
    for (std::size_t i = 0; i < program_.homes.size() && program_.prepares; ++i) {
        const Home& home = program_.homes[i];
        if (home.buffer == nullptr) continue;
        give(i, home);
        HEDDLE_TRY(init_tensor(*home.buffer, *list_[i]));
    }
    return ok();
}

Result<> PlacedAgain::finish(const GraphIndex& index) {
    place(static_cast<TensorId>(end_), index.tensors().subspan(end_));
    HEDDLE_TRY(tell_backends());
    for (const std::size_t id : looks_left_) {
        if (list_[id]->buffer == nullptr) HEDDLE_TRY(look(id));
    }
    is_kept_ = true;
    return ok();
}

Result<> place_again(const Program& program, const GraphIndex& index) {
    PlacedAgain again(program);
    again.place(0, index.tensors());
    return again.finish(index);
}

// ---- for people --------------------------------------------------------------------------------

std::string suffix_of(Queue queue) {
    if (queue == Queue::compute) return {};
    return text(' ', kQueueNames[static_cast<std::size_t>(queue)]);
}

std::string to_text(const Program& program, const Splits& splits, const GraphIndex& index,
                    const Team& team) {
    const auto tensor_name = [&](TensorId id) { return heddle::name_of(index[id]); };
    std::string lines;
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        const Action& action = program.actions[i];
        const auto what = static_cast<std::size_t>(action.index);
        lines += text("action ", i, ": ", team[action.runner].name, suffix_of(action.queue));
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
