#include "sched/wired_graph.hpp"

#include <algorithm>
#include <cstring>

#include "core/hash_set.hpp"
#include "runtime/buffer.hpp"
#include "sched/split.hpp"

namespace heddle::sched {
namespace {

/// Tensors that are filled from outside and stay where they are.
bool stays(const GraphIndex& index, TensorId id) {
    if (index.root(id) != id || !index.had_memory(id)) return false;
    return !index.is_node(id) || index.facts(id).op == kNoOp;
}

/// From the beginning of its root. Views of views have several steps to it.
std::size_t offset_in_root(const Tensor& view) {
    std::size_t offset = 0;
    for (const Tensor* each = &view; each->view_src != nullptr; each = each->view_src) {
        offset += each->view_offs;
    }
    return offset;
}

}  // namespace

WiredGraph::WiredGraph(const GraphIndex& index, Splits& splits, int slot)
    : tensors_(index.size()), nodes_(splits.order.size()) {
    // A node has one clone for each place where it is listed, and one more if it takes a detour.
    const std::size_t most = index.size() + splits.order.size() + splits.detours.size();
    clones_.reserve(most);
    origins_.reserve(most);
    clone_nodes(index, splits);
    clone_tensors(index);
    for (std::size_t i = 0; i < clones_.size(); ++i) wire(index, origins_[i].id, clones_[i]);
    for (const Patch& patch : splits.patches) {
        const Copy& copy = splits.copies[static_cast<std::size_t>(patch.copy)];
        Tensor& reader = *nodes_[static_cast<std::size_t>(patch.position)];
        reader.src[patch.slot] = &splits.stand_in(copy, slot);
    }
    count_uses(index, splits);
    make_parts(splits);
}

Tensor& WiredGraph::clone(const Tensor& original, TensorId id, const Tensor* stand_in) {
    origins_.push_back({id, stand_in});
    return clones_.emplace_back(original);
}

/// In the order in which they run: that is how backends read them.
void WiredGraph::clone_nodes(const GraphIndex& index, Splits& splits) {
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
        const TensorId id = splits.order[at];
        Tensor& original = index[id];
        if (stays(index, id)) {
            nodes_[at] = &original;
            continue;
        }
        nodes_[at] = &clone(original, id);
        Tensor*& known = tensors_[static_cast<std::size_t>(id)];
        if (known == nullptr) known = nodes_[at];
    }
    node_clones_ = clones_.size();
    // Others read the node where its bytes belong; it is computed somewhere else.
    for (const Detour& detour : splits.detours) {
        const Tensor& stand_in = splits.stand_ins[static_cast<std::size_t>(detour.stand_in)];
        nodes_[static_cast<std::size_t>(detour.position)] =
            &clone(stand_in, detour.node, &stand_in);
    }
}

void WiredGraph::clone_tensors(const GraphIndex& index) {
    for (TensorId id = 0; id < static_cast<TensorId>(tensors_.size()); ++id) {
        Tensor*& known = tensors_[static_cast<std::size_t>(id)];
        if (known != nullptr) continue;
        Tensor& original = index[id];
        known = stays(index, id) ? &original : &clone(original, id);
    }
    note_names();
}

void WiredGraph::note_names() {
    name_starts_.resize(tensors_.size());
    for (std::size_t id = 0; id < tensors_.size(); ++id) {
        std::copy_n(tensors_[id]->name, sizeof(NameStart), name_starts_[id].begin());
    }
}

void WiredGraph::wire(const GraphIndex& index, TensorId id, Tensor& tensor) {
    const Tensor& original = index[id];
    if (tensor.view_src != nullptr) {
        tensor.view_offs = offset_in_root(original);
        tensor.view_src = &(*this)[index.root(id)];
    }
    if (!index.is_node(id)) {
        // Nothing is computed for it, so it does not matter from what.
        std::fill(std::begin(tensor.src), std::end(tensor.src), nullptr);
        return;
    }
    for (const auto [source, slot] : index.sources(id)) {
        // Casts have themselves as the place to copy to.
        tensor.src[slot] = source == id ? &tensor : &(*this)[source];
    }
}

void WiredGraph::count_uses(const GraphIndex& index, const Splits& splits) {
    const Graph& graph = index.graph();
    HashSet set{};
    set.size = hash_capacity(2 * (tensors_.size() + clones_.size()) + 1);
    keys_.assign(set.size, nullptr);
    used_.assign(bitset_words(set.size), 0);
    use_counts_.assign(set.size, 0);
    set.keys = keys_.data();
    set.used = used_.data();
    const auto enter = [&](Tensor* tensor, TensorId id) {
        const std::size_t slot = probe(set, tensor);
        occupy(set, slot, tensor);
        use_counts_[slot] = use_count(graph, index[id]);
    };
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        enter(tensors_[i], static_cast<TensorId>(i));
    }
    for (std::size_t at = 0; at < nodes_.size(); ++at) enter(nodes_[at], splits.order[at]);
    whole_.visited_hash_set = set;
    whole_.use_counts = use_counts_.data();
    whole_.order = graph.order;
}

void WiredGraph::make_parts(const Splits& splits) {
    parts_.reserve(splits.splits.size());
    for (const Split& split : splits.splits) {
        parts_.push_back(piece(split.begin, split.end));
        parts_.back().uid = next_graph_uid();
    }
}

Graph WiredGraph::piece(std::int32_t begin, std::int32_t end) {
    Graph part = whole_;
    part.nodes = nodes_.data() + begin;
    part.n_nodes = end - begin;
    return part;
}

void WiredGraph::reorder(std::size_t begin, std::span<Tensor* const> nodes) {
    std::ranges::copy(nodes, nodes_.begin() + static_cast<std::ptrdiff_t>(begin));
}

// ---- memory ------------------------------------------------------------------------------------

Result<> WiredGraph::place(const GraphIndex& index, const Splits& splits) {
    const auto settle = [&](std::size_t i) -> Result<> {
        const Tensor& original =
            origins_[i].stand_in != nullptr ? *origins_[i].stand_in : index[origins_[i].id];
        Tensor& clone = clones_[i];
        clone.buffer = original.buffer;
        clone.data = original.data;
        clone.extra = original.extra;
        return clone.buffer != nullptr ? init_tensor(*clone.buffer, clone) : ok();
    };
    // Leafs first: backends may look at the sources of a node when they are told of it.
    for (std::size_t i = node_clones_; i < clones_.size(); ++i) HEDDLE_TRY(settle(i));
    for (std::size_t i = 0; i < node_clones_; ++i) HEDDLE_TRY(settle(i));
    list_given(index, splits);
    is_placed_ = true;
    return ok();
}

void WiredGraph::list_given(const GraphIndex& index, const Splits& splits) {
    given_.clear();
    written_.clear();
    for (TensorId id = 0; id < static_cast<TensorId>(tensors_.size()); ++id) {
        if (index.root(id) != id || !index.had_memory(id)) continue;
        given_.push_back({id, index[id].buffer, index[id].data});
    }
    for (const TensorId id : splits.order) {
        if (index.is_view(id) || index.facts(id).op == kNoOp) continue;
        const TensorId root = index.root(id);
        if (index.facts(root).buffer == nullptr || index[root].buffer == nullptr) continue;
        written_.push_back(index[root].buffer);
    }
    std::ranges::sort(written_);
    written_.erase(std::unique(written_.begin(), written_.end()), written_.end());
}

bool WiredGraph::same_memory(const GraphIndex& index) const {
    for (const Given& given : given_) {
        const Tensor& now = index[given.id];
        if (now.buffer != given.buffer || now.data != given.data) return false;
        if (stays(index, given.id) && &now != &(*this)[given.id]) return false;
    }
    return true;
}

bool WiredGraph::same_names(TensorId first, std::span<Tensor* const> tensors) const {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto id = static_cast<std::size_t>(first) + i;
        const NameStart& start = name_starts_[id];
        const bool is_all = start.back() == '\0';
        if (is_all && std::memcmp(tensors[i]->name, start.data(), start.size()) == 0) continue;
        if (heddle::name_of(*tensors[i]) != heddle::name_of(*tensors_[id])) return false;
    }
    return true;
}

void WiredGraph::take_names(const GraphIndex& index) {
    for (std::size_t i = 0; i < clones_.size(); ++i) {
        if (origins_[i].stand_in != nullptr) continue;
        std::memcpy(clones_[i].name, index[origins_[i].id].name, sizeof clones_[i].name);
    }
    note_names();
    renew_uids();
}

void WiredGraph::take_sizes(const GraphIndex& index, std::span<const std::uint8_t> is_resized) {
    for (std::size_t i = 0; i < clones_.size(); ++i) {
        const TensorId id = origins_[i].id;
        if (is_resized[static_cast<std::size_t>(id)] == 0) continue;
        const Tensor& original = index[id];
        Tensor& clone = clones_[i];
        std::copy_n(original.ne, kMaxDims, clone.ne);
        std::copy_n(original.nb, kMaxDims, clone.nb);
        std::memcpy(clone.op_params, original.op_params, sizeof clone.op_params);
        clone.view_offs = offset_in_root(original);
        clone.data = original.data;
    }
    renew_uids();
}

void WiredGraph::renew_uids() {
    for (Graph& part : parts_) part.uid = next_graph_uid();
}

Result<WiredGraph*> wire(const GraphIndex& index, Splits& splits, int slot) {
    const auto has_slots = [](const Copy& copy) { return copy.stand_ins > 1; };
    const bool differ = slot > 0 && std::ranges::any_of(splits.copies, has_slots);
    const std::size_t number = differ ? static_cast<std::size_t>(slot) : 0;
    if (splits.wired.size() <= number) splits.wired.resize(number + 1);
    auto& wired = splits.wired[number];
    if (wired == nullptr) wired = std::make_unique<WiredGraph>(index, splits, slot);
    if (!wired->is_placed()) HEDDLE_TRY(wired->place(index, splits));
    return wired.get();
}

}  // namespace heddle::sched
