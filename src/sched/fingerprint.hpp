#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/objects.hpp"
#include "sched/graph_index.hpp"

namespace heddle::sched {

/// All of a graph that decides how it is scheduled: ops, parameters, types, shapes, strides, flags,
/// wiring, and for tensors with memory of their own the kind of that memory. Addresses and names
/// are not part of it.
class Fingerprint {
public:
    /// Buffers that the scheduler itself gets memory from: tensors of the graph's lists that lie in
    /// them, from an earlier run, count as having none.
    using OwnBuffers = std::span<const Buffer* const>;

    /// Told of tensors that are like those of the graph the fingerprint is of, from number `first`
    /// on, while they are near: a few at a time, in the order of the lists. Others may still
    /// differ.
    using Alike = std::function<void(TensorId first, std::span<Tensor* const> tensors)>;

    /// Tensors of the lists that differ in extents, strides or offsets alone.
    struct Resized {
        std::vector<TensorId> ids;
        std::size_t most = 0;  ///< so many may differ
    };

    /// Of the graph in `index`, which has to stay as it is until `clear`; it may be rebound.
    void take(const GraphIndex& index, OwnBuffers own);

    /// Whether `graph` is the same but for addresses. Reads every tensor once; tensors in neither
    /// list of the graph must be the very same ones. Never looks at tensors of the old graph that
    /// the new one does not know. With `resized` some tensors may have other sizes; they are in its
    /// list before `alike` is told of them.
    bool matches(const Graph& graph, OwnBuffers own, const Alike& alike = {},
                 Resized* resized = nullptr) const;

    void clear() { index_ = nullptr; }

private:
    class Memories;

    void prefetch_ahead(TensorId id) const;
    bool same_node(TensorId id, const Tensor& node) const;
    bool same_leaf(TensorId id, const Tensor& leaf) const;
    bool same_layout(TensorId id, const Tensor& tensor, Resized* resized) const;
    bool same_listed(TensorId begin, TensorId end, Memories& memories, Resized* resized) const;
    bool same_outside() const;
    Tensor* tensor(TensorId id) const { return tensors_[static_cast<std::size_t>(id)]; }

    const GraphIndex* index_ = nullptr;  ///< null: nothing is like it
    TensorId nodes_ = 0, listed_ = 0;    ///< numbers end: of nodes, and of leafs
    std::vector<std::uint64_t> kinds_;   ///< of memory, of each tensor
    std::vector<Tensor*> outside_;       ///< the tensors in neither list

    /// The tensors of the graph being compared, by number: kept for its memory.
    mutable std::vector<Tensor*> tensors_;
};

}  // namespace heddle::sched
