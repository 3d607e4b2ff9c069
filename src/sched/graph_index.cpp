#include "sched/graph_index.hpp"

#include <algorithm>
#include <bit>

#include "core/prefetch.hpp"
#include "ops/view_op.hpp"

namespace heddle::sched {
namespace {

/// Where a tensor goes in a hash table of `mask` + 1 slots, a power of two, if that is free.
/// Tensors made one after the other lie in equal distances, which the golden ratio spreads evenly.
std::size_t home_slot(const Tensor* tensor, std::size_t mask) {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(tensor));
    return ((address >> 4) * 0x9E3779B97F4A7C15u >> 32) & mask;
}

/// Views are made of roots, so a longer chain was put together by hand, perhaps into a ring.
constexpr int kLongestChain = 64;

}  // namespace

Result<> GraphIndex::read(const Graph& graph) {
    graph_ = nullptr;
    tensors_.clear();
    nodes_.clear();
    leafs_.clear();
    roots_.clear();
    first_source_.clear();
    sources_.clear();
    facts_.clear();
    layouts_.clear();
    layout_numbers_.clear();
    marks_.clear();
    HEDDLE_TRY(enter_lists(graph));

    // Sources and roots in neither list are entered on the way, behind all others.
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        prefetch_ahead(i);
        HEDDLE_TRY(read_tensor(static_cast<TensorId>(i)));
    }
    graph_ = &graph;
    return ok();
}

[[gnu::always_inline]] inline void GraphIndex::prefetch_slot(const Tensor* tensor) const {
    prefetch_line(&slots_[home_slot(tensor, slots_.size() - 1)]);
}

/// Tensors first, then where what they point to is in the table.
[[gnu::always_inline]] inline void GraphIndex::prefetch_ahead(std::size_t i) const {
    if (i + kReadAhead >= tensors_.size()) return;
    prefetch(tensors_[i + kReadAhead]);
    const Tensor& soon = *tensors_[i + kReadAhead / 2];
    if (soon.view_src != nullptr) prefetch_slot(soon.view_src);
    for (const Tensor* source : soon.src) {
        if (source == nullptr) break;
        prefetch_slot(source);
    }
}

/// Gives the listed tensors their numbers, and every node room for where its sources begin.
Result<> GraphIndex::enter_lists(const Graph& graph) {
    const auto nodes = nodes_of(graph), leafs = leafs_of(graph);
    fill_table(nodes.size() + leafs.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i] == nullptr) return invalid("node ", i, " of the graph is NULL");
        if (i + kReadAhead < nodes.size()) prefetch_slot(nodes[i + kReadAhead]);
        nodes_.push_back(enter(*nodes[i]));
    }
    first_source_.assign(tensors_.size() + 1, 0);
    for (std::size_t i = 0; i < leafs.size(); ++i) {
        if (leafs[i] == nullptr) return invalid("leaf ", i, " of the graph is NULL");
        if (i + kReadAhead < leafs.size()) prefetch_slot(leafs[i + kReadAhead]);
        leafs_.push_back(enter(*leafs[i]));
    }
    listed_ = static_cast<TensorId>(tensors_.size());
    return ok();
}

Result<> GraphIndex::read_tensor(TensorId id) {
    Tensor& tensor = (*this)[id];
    facts_.push_back({tensor.buffer, tensor.flags, tensor.op});
    layout_numbers_.push_back(layouts_.enter(tensor));
    marks_.push_back(static_cast<std::uint8_t>((is_view_op(tensor.op) ? kIsView : 0) |
                                               (tensor.data != nullptr ? kHadData : 0)));
    if (is_node(id)) {
        for (int slot = 0; slot < kMaxSources; ++slot) {
            if (tensor.src[slot] == nullptr) continue;
            sources_.push_back({enter(*tensor.src[slot]), static_cast<std::uint8_t>(slot)});
        }
        first_source_[static_cast<std::size_t>(id) + 1] =
            static_cast<std::uint32_t>(sources_.size());
    }
    if (tensor.view_src == nullptr) {
        roots_.push_back(id);
        return ok();
    }
    HEDDLE_TRY_ASSIGN(Tensor* const root, find_root(tensor));
    if (root != tensor.view_src) marks_.back() |= kDeepView;
    roots_.push_back(enter(*root));
    return ok();
}

Result<Tensor*> GraphIndex::find_root(Tensor& tensor) const {
    Tensor* root = tensor.view_src;
    for (int step = 0; root->view_src != nullptr; ++step) {
        if (step == kLongestChain) {
            return invalid(describe(tensor), " is a view of a view, ", kLongestChain,
                           " deep and more");
        }
        root = root->view_src;
    }
    return root;
}

void GraphIndex::rebind(const Graph& graph) {
    graph_ = &graph;
    const auto nodes = nodes_of(graph), leafs = leafs_of(graph);
    table_is_stale_ = true;
    if (static_cast<std::size_t>(listed_) == nodes.size() + leafs.size()) {
        // None is listed twice: numbers are places.
        std::ranges::copy(nodes, tensors_.begin());
        std::ranges::copy(leafs, tensors_.begin() + static_cast<std::ptrdiff_t>(nodes.size()));
        return;
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        tensors_[static_cast<std::size_t>(nodes_[i])] = nodes[i];
    }
    for (std::size_t i = 0; i < leafs.size(); ++i) {
        tensors_[static_cast<std::size_t>(leafs_[i])] = leafs[i];
    }
}

void GraphIndex::take_layouts(std::span<const TensorId> ids) {
    for (const TensorId id : ids) {
        layout_numbers_[static_cast<std::size_t>(id)] = layouts_.enter((*this)[id]);
    }
}

TensorId GraphIndex::find(const Tensor* tensor) const {
    if (tensors_.empty()) return kNoTensor;
    if (table_is_stale_) fill_table(tensors_.size());
    return static_cast<TensorId>(slots_[probe(tensor)]) - 1;
}

TensorId GraphIndex::enter(Tensor& tensor) {
    std::size_t slot = probe(&tensor);
    if (slots_[slot] != 0) return static_cast<TensorId>(slots_[slot]) - 1;
    if (2 * (tensors_.size() + 1) > slots_.size()) {
        fill_table(2 * tensors_.size() + 1);
        slot = probe(&tensor);
    }
    tensors_.push_back(&tensor);
    slots_[slot] = static_cast<std::uint32_t>(tensors_.size());
    return static_cast<TensorId>(tensors_.size()) - 1;
}

/// The slot of the tensor, or the free one where it would go. At least half of the table is free.
std::size_t GraphIndex::probe(const Tensor* tensor) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = home_slot(tensor, mask);
    while (slots_[slot] != 0 && tensors_[slots_[slot] - 1] != tensor) slot = (slot + 1) & mask;
    return slot;
}

/// Makes a table with room for so many tensors and enters those that are known.
void GraphIndex::fill_table(std::size_t tensors) const {
    const std::size_t size = std::bit_ceil(2 * tensors + 16);
    slots_.assign(size, 0);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
        slots_[probe(tensors_[i])] = static_cast<std::uint32_t>(i + 1);
    }
    table_is_stale_ = false;
}

}  // namespace heddle::sched
