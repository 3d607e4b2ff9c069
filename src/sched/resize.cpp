#include "sched/resize.hpp"

#include <algorithm>

#include "ops/check.hpp"
#include "runtime/device.hpp"
#include "runtime/stream.hpp"

namespace heddle::sched {
namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
    return a.type == b.type && std::equal(a.ne, a.ne + kMaxDims, b.ne) &&
           std::equal(a.nb, a.nb + kMaxDims, b.nb);
}

/// A node that is computed in the place of an operand must have its layout.
bool may_share(const Tensor& node, const Tensor& source) {
    return node.data == source.data && same_layout(node, source);
}

}  // namespace

bool can_resize(const Splits& splits, const Program& program) {
    return splits.detours.empty() && !program.prepares && program.forgetful.empty();
}

void move_homes(Program& program, const GraphIndex& index, std::span<const TensorId> resized,
                TensorId first, std::span<Tensor* const> tensors) {
    for (const TensorId id : resized) {
        const TensorId root = index.root(id);
        Home& home = program.homes[static_cast<std::size_t>(id)];
        if (root == id || home.buffer == nullptr) continue;
        const Tensor& view = *tensors[static_cast<std::size_t>(id - first)];
        const Home& base = program.homes[static_cast<std::size_t>(root)];
        home.data = static_cast<char*>(base.data) + view.view_offs;
    }
}

Resize::Resize(const GraphIndex& index, std::span<const TensorId> resized)
    : index_(index),
      resized_(resized),
      is_resized_(index.size()),
      is_affected_(index.nodes().size()) {
    for (const TensorId id : resized) is_resized_[static_cast<std::size_t>(id)] = 1;
    const auto nodes = static_cast<TensorId>(index.nodes().size());
    for (TensorId id = 0; id < nodes; ++id) {
        const auto sources = index.sources(id);
        const bool is_affected =
            is_resized(id) || is_resized(index.root(id)) ||
            std::ranges::any_of(sources, [&](const GraphIndex::Source& source) {
                return is_resized(source.tensor) || is_resized(index_.root(source.tensor));
            });
        if (!is_affected) continue;
        is_affected_[static_cast<std::size_t>(id)] = 1;
        affected_.push_back(id);
    }
}

bool Resize::has_room(const Program& program) const {
    for (const TensorId id : resized_) {
        const auto number = static_cast<std::size_t>(id);
        const Tensor& tensor = index_[id];
        if (index_.root(id) != id) {
            // Buffers that want to know of tensors would have to be told.
            const Buffer* const buffer = tensor.view_src->buffer;
            if (buffer == nullptr || buffer->iface.init_tensor != nullptr) return false;
            continue;
        }
        Buffer* const buffer = program.homes[number].buffer;
        if (buffer == nullptr) return false;  // memory of its own
        if (alloc_size_of(*buffer->buft, tensor) > program.rooms[number]) return false;
    }
    return true;
}

bool Resize::copies_have_room(const Splits& splits, const Program& program) const {
    for (std::size_t i = 0; i < splits.copies.size(); ++i) {
        const Copy& copy = splits.copies[i];
        if (!is_resized(copy.tensor) && !is_resized(index_.root(copy.tensor))) continue;
        if (copy.kind == Copy::Kind::constant || copy.chooser != kNoTensor) return false;
        const Tensor& stand_in = splits.stand_ins[static_cast<std::size_t>(copy.first_stand_in)];
        if (stand_in.buffer == nullptr) return false;
        const std::size_t bytes = alloc_size_of(*stand_in.buffer->buft, index_[copy.tensor]);
        if (bytes > program.copy_rooms[i]) return false;
    }
    return true;
}

bool Resize::are_sound(const Program& program) const {
    GraphCheck graph;
    for (const TensorId id : affected_) {
        const Tensor& node = index_[id];
        if (!graph.check(node)) return false;
        if (index_.is_view(id) || index_.root(id) != id) continue;
        const Home& home = program.homes[static_cast<std::size_t>(id)];
        if (home.buffer == nullptr) continue;
        for (const auto [source, slot] : index_.sources(id)) {
            const TensorId root = index_.root(source);
            if (root == id || program.homes[static_cast<std::size_t>(root)].data != home.data)
                continue;
            if (!may_share(node, index_[source])) return false;
        }
    }
    return true;
}

bool Resize::fits(const Splits& splits, const Program& program) const {
    return has_room(program) && copies_have_room(splits, program) && are_sound(program);
}

void Resize::apply(Splits& splits) const {
    for (Copy& copy : splits.copies) {
        if (!is_resized(copy.tensor)) continue;
        const Tensor& original = index_[copy.tensor];
        copy.bytes = byte_size(original);
        for (int slot = 0; slot < copy.stand_ins; ++slot) {
            Tensor& stand_in = splits.stand_in(copy, slot);
            std::copy_n(original.ne, kMaxDims, stand_in.ne);
            std::copy_n(original.nb, kMaxDims, stand_in.nb);
        }
    }
    for (const auto& wired : splits.wired) {
        if (wired != nullptr) wired->take_sizes(index_, is_resized_);
    }
}

Result<bool> Resize::is_runnable(const Splits& splits, WiredGraph& wired, const Team& team) const {
    std::vector<Tensor*> nodes;
    for (const Split& split : splits.splits) {
        const Runner& runner = team[split.runner];
        nodes.clear();
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId id = splits.order[static_cast<std::size_t>(at)];
            if (is_affected_[static_cast<std::size_t>(id)] == 0) continue;
            if (index_.is_view(id) || index_.facts(id).op == kNoOp) continue;
            nodes.push_back(wired.nodes()[static_cast<std::size_t>(at)]);
        }
        for (const Tensor* node : nodes) {
            if (!supports_op(*runner.device, *node)) return false;
        }
        if (nodes.empty() || !runner.has_reserve) continue;
        Graph part = wired.piece(split.begin, split.begin);
        part.nodes = nodes.data();
        part.n_nodes = static_cast<int>(nodes.size());
        HEDDLE_TRY(reserve(*runner.stream, part));
    }
    return true;
}

}  // namespace heddle::sched
