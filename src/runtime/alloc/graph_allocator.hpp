#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/alloc/lifetimes.hpp"
#include "runtime/alloc/plan.hpp"
#include "runtime/alloc/planner.hpp"
#include "runtime/buffer.hpp"

/// Plans the memory of graphs and gives their tensors places. One thread at a time.
///
/// Ids are the caller's numbers for buffer types; ids of the same type share an arena. The plan of
/// the last graph is kept, and used for another one only if every block of that fits it.
///
/// In memory of devices other than the CPU, groups of nodes that such devices compute at once
/// are planned as one step, as far as that costs little (`alloc::Planner`).
struct ggml_gallocr {
    /// The types are borrowed, the list is not.
    static heddle::Result<std::unique_ptr<ggml_gallocr>> make(
        std::span<heddle::BufferType* const> types);

    /// Plans `graph` and gets buffers for it; the graph is not changed.
    ///
    /// `node_ids` and `leaf_ids` have one id per node and leaf; null means 0 for all. On failure
    /// the old plan stays if its buffers do: they are given up only when there is no memory for
    /// both. If memory lacks, it is tried once more with groups that cost nothing.
    heddle::Result<> reserve(const heddle::Graph& graph, const int* node_ids, const int* leaf_ids,
                             heddle::alloc::FusionCost cost = heddle::alloc::FusionCost::little);

    /// Bytes that `reserve` would need for each id, changing nothing. What ids share is counted at
    /// the first of them.
    heddle::Result<std::vector<std::size_t>> measure(
        const heddle::Graph& graph, const int* node_ids, const int* leaf_ids,
        heddle::alloc::FusionCost cost = heddle::alloc::FusionCost::little) const;

    /// Whether the plan holds for `graph`, as `allocate` would find.
    heddle::Result<bool> fits(const heddle::Graph& graph);

    /// Places every tensor of `graph` that has no memory yet. A graph that the plan does not fit is
    /// planned anew if there is one id; with several only the caller knows what goes where, and it
    /// is a failure. Tensors are as they were if it fails.
    heddle::Result<> allocate(heddle::Graph& graph);

    /// Places the tensors of `graph`, which was the last one that `reserve` planned and has not
    /// changed since: nothing is looked up again. Fails if another graph came in between, or if a
    /// tensor has got memory since. Tensors are as they were if it fails.
    heddle::Result<> place_reserved(heddle::Graph& graph);

    /// Blocks and tenants of the graph that was reserved or allocated last. Block i lies at
    /// `plan().places[i]`. Valid up to the next call that is given a graph.
    const heddle::alloc::Lifetimes& lifetimes() const { return planner_.latest(); }

    /// The buffers of `id`, one for each chunk; the same for all ids of one type. None if there is
    /// no such id. Valid up to the next call that plans.
    std::span<const heddle::OwnedBuffer> chunks(int id) const;

    /// Every buffer that is or was the allocator's: those of all ids, and the empty shells of those
    /// that became too small. Tensors in one of them got their place here, perhaps long ago.
    std::vector<const heddle::Buffer*> own_buffers() const;

    /// Bytes of the buffers of `id`; 0 if there are none, or if an id before it shares them.
    heddle::Result<std::size_t> buffer_size(int id) const;

    /// What is planned, to look at; empty before the first `reserve`.
    const heddle::alloc::Plan& plan() const { return plan_; }

private:
    /// All ids of one type.
    struct Arena {
        std::size_t chunk_limit = 0;
        std::vector<heddle::OwnedBuffer> chunks;
    };
    /// Arena of each leaf and node.
    struct Ids {
        std::vector<std::int32_t> nodes, leafs;
    };

    heddle::Result<Ids> arenas_of(const heddle::Graph& graph, const int* node_ids,
                                  const int* leaf_ids) const;
    heddle::alloc::Assignment assignment(const Ids& ids) const;
    heddle::Result<const heddle::alloc::Lifetimes*> find(const heddle::Graph& graph,
                                                         const Ids& ids);
    std::vector<heddle::alloc::ArenaRoom> rooms() const;
    heddle::Result<> adopt(const heddle::Graph& graph, Ids ids, heddle::alloc::FusionCost cost);
    heddle::Result<> provide_all(const heddle::alloc::Plan& plan);
    void keep(const heddle::Graph& graph, heddle::alloc::Plan plan, Ids ids);
    heddle::Result<> make_room_for_groups(const heddle::Graph& graph);
    bool has_planned_size(const heddle::Graph& graph) const;
    void retire(Arena& arena);
    bool has_room(std::size_t arena, std::span<const std::size_t> sizes) const;
    heddle::Result<> provide(std::size_t arena, std::span<const std::size_t> sizes);
    heddle::Result<> place_all();
    heddle::Result<> place(const heddle::alloc::Tenant& tenant);

    std::vector<std::int32_t> arena_of_id_;
    std::vector<heddle::BufferType*> types_;  ///< of the arenas
    std::vector<std::size_t> alignments_;     ///< of the arenas
    std::vector<std::uint8_t> fuses_;         ///< of the arenas: whether its device fuses nodes
    std::vector<Arena> arenas_;
    std::vector<heddle::OwnedBuffer> retired_;
    Ids ids_;  ///< of the planned graph
    heddle::alloc::Plan plan_;
    bool planned_ = false;
    const heddle::Graph* reserved_ = nullptr;  ///< what the planner saw last, if it was reserved
    std::size_t nodes_ = 0, leafs_ = 0;        ///< of the planned graph
    std::size_t no_room_for_ = SIZE_MAX;       ///< so many bytes of blocks left no room for groups
    heddle::alloc::Planner planner_;
};

namespace heddle {

using GraphAllocator = ::ggml_gallocr;

}  // namespace heddle
