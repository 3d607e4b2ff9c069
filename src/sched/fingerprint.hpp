#pragma once

#include <cstdint>
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

    /// Of the graph in `index`.
    void take(const GraphIndex& index, OwnBuffers own);

    /// Whether `graph` is the same but for addresses. Reads every tensor once; tensors in neither
    /// list of the graph must be the very same ones. Never looks at tensors of the old graph that
    /// the new one does not know.
    bool matches(const Graph& graph, OwnBuffers own) const;

    void clear() { taken_ = false; }

private:
    /// What is known of a tensor but its wiring.
    struct Digest {
        std::uint64_t first = 0, second = 0;
        bool operator==(const Digest&) const = default;
    };
    static Digest digest_of(const Tensor& tensor, std::uint64_t memory);
    static std::uint64_t memory_kind(const Tensor& tensor, OwnBuffers own);

    bool same_node(std::size_t place, const Tensor& node, OwnBuffers own) const;
    bool same_outside(OwnBuffers own) const;

    bool taken_ = false;
    std::size_t nodes_ = 0, leafs_ = 0;  ///< lengths of the lists

    // By place: nodes, then leafs, then tensors in neither list.
    std::vector<Digest> digests_;
    std::vector<std::uint32_t> roots_;         ///< place of what it is a view of; its own otherwise
    std::vector<std::uint16_t> source_slots_;  ///< of nodes: one bit for each source there is
    std::vector<std::uint32_t> first_source_;  ///< of nodes: where its sources begin below
    std::vector<std::uint32_t> sources_;       ///< places
    std::vector<const Tensor*> outside_;       ///< the tensors in neither list

    /// The tensor at each place of the graph being compared: kept for its memory.
    mutable std::vector<const Tensor*> tensors_;
};

}  // namespace heddle::sched
