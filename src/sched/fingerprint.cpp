#include "sched/fingerprint.hpp"

#include <algorithm>

#include "core/prefetch.hpp"

namespace heddle::sched {
namespace {

/// So many tensors are compared before the visitor is called: they stay in the nearest caches.
constexpr TensorId kStretch = 32;

}  // namespace

/// Which kind of memory tensors are in. Most are in the same buffer as the one before.
class Fingerprint::Memories {
public:
    explicit Memories(OwnBuffers own) : own_(own) {}

    /// Views have the memory of their root, whatever they say themselves: a graph that has just
    /// been built and one that has run say different things.
    std::uint64_t kind(bool is_view, const Buffer* buffer, bool has_data) {
        if (is_view) return kView;
        if (buffer == nullptr) return has_data ? kBare : kNone;
        if (buffer != last_) {
            last_ = buffer;
            last_kind_ = kind_of(*buffer);
        }
        return has_data || last_kind_ == kNone ? last_kind_ : ~last_kind_;
    }
    std::uint64_t kind(const Tensor& tensor) {
        return kind(tensor.view_src != nullptr, tensor.buffer, tensor.data != nullptr);
    }

private:
    static constexpr std::uint64_t kNone = 0, kBare = 1, kView = 2;

    std::uint64_t kind_of(const Buffer& buffer) const {
        if (std::ranges::find(own_, &buffer) != own_.end()) return kNone;
        // Far apart, so that neither address nor usage looks like another kind.
        const std::uint64_t usage = static_cast<std::uint32_t>(buffer.usage);
        return reinterpret_cast<std::uintptr_t>(buffer.buft) ^ (usage + 1) * 0x9e3779b97f4a7c15u;
    }

    OwnBuffers own_;
    const Buffer* last_ = nullptr;
    std::uint64_t last_kind_ = kNone;
};

void Fingerprint::take(const GraphIndex& index, OwnBuffers own) {
    index_ = nullptr;
    const auto size = static_cast<TensorId>(index.size());
    nodes_ = static_cast<TensorId>(index.nodes().size());
    listed_ = nodes_ + static_cast<TensorId>(index.leafs().size());
    // A tensor that is listed twice has one number: places do not say which one is meant then.
    if (index.is_listed(listed_) || (listed_ > 0 && !index.is_listed(listed_ - 1))) return;
    const auto outside = index.tensors().subspan(static_cast<std::size_t>(listed_));
    outside_.assign(outside.begin(), outside.end());

    kinds_.resize(index.size());
    Memories listed(own), others({});
    for (TensorId id = 0; id < size; ++id) {
        if (index.is_deep_view(id)) return;
        Memories& memories = id < listed_ ? listed : others;
        kinds_[static_cast<std::size_t>(id)] =
            memories.kind(index.root(id) != id, index.facts(id).buffer, index.had_data(id));
    }
    index_ = &index;
}

/// Whether it reads the same tensors in the same slots.
inline bool Fingerprint::same_node(TensorId id, const Tensor& node) const {
    if (id > 0 && tensor(id) == tensor(id - 1)) return false;
    // As many as expected, each in its slot: that leaves nothing for other slots.
    std::size_t count = 0;
    for (const Tensor* source : node.src) count += source != nullptr ? 1 : 0;
    const auto sources = index_->sources(id);
    if (count != sources.size()) return false;
    for (const auto [source, slot] : sources) {
        if (node.src[slot] != tensor(source)) return false;
    }
    return same_leaf(id, node);
}

/// Whether it is a view of the same tensor, or none.
inline bool Fingerprint::same_leaf(TensorId id, const Tensor& leaf) const {
    return tensor(index_->root(id)) == (leaf.view_src != nullptr ? leaf.view_src : &leaf);
}

/// Roots of views are wanted by the visitor. Those that are nodes are near anyway.
[[gnu::always_inline]] inline void Fingerprint::prefetch_ahead(TensorId id) const {
    const std::size_t ahead = static_cast<std::size_t>(id) + kReadAhead;
    if (ahead >= tensors_.size()) return;
    prefetch(tensors_[ahead]);
    prefetch_line(tensors_[ahead]->name);  // the visitor may look at it
    const auto soon = static_cast<TensorId>(ahead);
    const TensorId root = index_->root(soon);
    if (root >= nodes_ && root != soon) prefetch_place(tensor(root));
}

/// The same, or only of another size.
inline bool Fingerprint::same_layout(TensorId id, const Tensor& tensor, Resized* resized) const {
    const Layout& layout = index_->layout(id);
    if (layout.is_of(tensor)) return true;
    if (resized == nullptr || resized->ids.size() >= resized->most) return false;
    if (!layout.is_resized(tensor, !index_->is_view(id))) return false;
    resized->ids.push_back(id);
    return true;
}

bool Fingerprint::same_listed(TensorId begin, TensorId end, Memories& memories,
                              Resized* resized) const {
    for (TensorId id = begin; id < end; ++id) {
        prefetch_ahead(id);
        if (tensor(id) == nullptr) return false;
        const Tensor& each = *tensor(id);
        if (!(id < nodes_ ? same_node(id, each) : same_leaf(id, each))) return false;
        if (!same_layout(id, each, resized)) return false;
        if (memories.kind(each) != kinds_[static_cast<std::size_t>(id)]) return false;
    }
    return true;
}

/// Tensors in neither list. All of them are known to be there: the lists' tensors refer to the
/// views among them, and those to their roots.
bool Fingerprint::same_outside() const {
    const auto size = static_cast<TensorId>(tensors_.size());
    for (TensorId id = listed_; id < size; ++id) {
        const TensorId root = index_->root(id);
        if (root != id && tensor(id)->view_src != tensor(root)) return false;
    }
    Memories memories({});
    for (TensorId id = listed_; id < size; ++id) {
        const std::size_t ahead = static_cast<std::size_t>(id) + kReadAhead;
        if (ahead < tensors_.size()) prefetch(tensors_[ahead]);
        const Tensor& each = *tensor(id);
        if (index_->root(id) == id && each.view_src != nullptr) return false;
        if (!index_->layout(id).is_of(each)) return false;
        if (memories.kind(each) != kinds_[static_cast<std::size_t>(id)]) return false;
    }
    return true;
}

bool Fingerprint::matches(const Graph& graph, OwnBuffers own, const Alike& alike,
                          Resized* resized) const {
    const auto nodes = nodes_of(graph), leafs = leafs_of(graph);
    if (index_ == nullptr || nodes.size() != static_cast<std::size_t>(nodes_) ||
        leafs.size() != static_cast<std::size_t>(listed_ - nodes_)) {
        return false;
    }
    tensors_.assign(nodes.begin(), nodes.end());
    tensors_.insert(tensors_.end(), leafs.begin(), leafs.end());
    tensors_.insert(tensors_.end(), outside_.begin(), outside_.end());

    Memories memories(own);
    for (TensorId begin = 0, end = 0; begin < listed_; begin = end) {
        end = std::min(begin + kStretch, listed_);
        if (!same_listed(begin, end, memories, resized)) return false;
        if (!alike) continue;
        alike(begin, std::span(tensors_).subspan(static_cast<std::size_t>(begin),
                                                 static_cast<std::size_t>(end - begin)));
    }
    return same_outside();
}

}  // namespace heddle::sched
