#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "ops/fusion_match.hpp"
#include "runtime/alloc/plan.hpp"
#include "runtime/objects.hpp"

namespace heddle::alloc {

/// Which arena each leaf and node goes to.
struct Assignment {
    std::span<BufferType* const> arenas;
    std::span<const std::size_t> alignments;     ///< of the arenas, powers of two
    std::span<const std::int32_t> nodes, leafs;  ///< arena of each; empty means 0 for all
    /// Of the arenas: whether its device computes groups of nodes at once. Empty means none does.
    std::span<const std::uint8_t> fuses{};
};

/// Nodes that a device may compute at once: one step, so that memory read from outside is needed up
/// to its end, or an output could lie over it.
struct Group {
    FusionGroup nodes;
    std::int32_t arena = 0;    ///< of all of them
    bool is_of_peers = false;  ///< other backends find it, too

    std::int32_t first() const { return nodes.first + 1; }  ///< when it begins
    std::int32_t last() const { return nodes.last + 1; }    ///< when it ends
};

/// A tensor and the block it lives in.
struct Tenant {
    Tensor* tensor = nullptr;
    std::int32_t block = 0;
};

/// What a graph needs: blocks, and who lives in them. Tensors with memory of their own need none.
struct Lifetimes {
    std::vector<Block> blocks;
    std::vector<Tenant> tenants;  ///< everyone to be placed; views are not among them
    std::vector<Tensor*> views;   ///< to get the memory of their roots; some more than once
};

/// Reads off a graph when memory is needed. Keeps its tables, so that the next graph costs no
/// allocation.
///
/// - Leafs and inputs live from before the first node; everything else from the node that computes
///   it, or that first reads it.
/// - Memory is needed up to the last node that reads the tensor or a view of it; to the very end
/// for
///   outputs, for what no node reads, and for what has a view no node reads.
/// - A node whose op allows it takes over the block of a source of the same layout, seen directly
/// or
///   through a view from its first byte on, if the block is in the same arena, is large enough and
///   has no other reader from now on.
/// - Where a group is one step, what it reads from outside is needed up to its end. A node of it
///   takes over such a block only where the pattern works in place.
class LifetimeFinder {
public:
    /// All groups are steps. The result is valid up to the next call. Fails if an id names no arena
    /// or a size cannot be counted.
    Result<const Lifetimes*> find(const Graph& graph, const Assignment& assignment);

    /// The groups of the last graph whose outputs need memory, where the arena's device fuses:
    /// those that other backends find, and those of the whole table.
    std::span<const Group> groups() const { return groups_; }

    /// The last graph once more, unchanged, and the same assignment. Only the groups with a true
    /// beside them are steps; none are if the list is empty.
    Result<const Lifetimes*> find_again(const Assignment& assignment,
                                        const std::vector<bool>& steps);

    /// The result of the last successful call.
    const Lifetimes& latest() const { return result_; }

private:
    class Uses;

    struct Entry {
        Tensor* tensor = nullptr;
        std::size_t size = 0;   ///< padded; not asked before it is needed for tensors in no list
        std::int32_t root = 0;  ///< entry of the tensor whose memory it is; itself unless a view
        std::int32_t block = -1;
        std::int32_t last = 0;    ///< latest reader of the memory so far; for roots
        std::int32_t held = 0;    ///< end of the latest group that reads it from outside; for roots
        std::int32_t apart = 0;   ///< the same, if its outputs may not lie there; for roots
        std::int32_t arena = -1;  ///< of leafs and nodes; -1 for what is neither, or not seen yet
        std::uint16_t reads = 0;  ///< how many slots of that reader mean this memory
        std::uint16_t uses = 0;   ///< by anybody, under its own name; the largest means many
        bool kept = false;        ///< to the end
        bool dangling = false;    ///< a computed view: if no node reads it, the caller will
    };

    /// What the second pass needs to know of a node without looking at tensors again.
    struct Step {
        std::int32_t entry = -1;        ///< -1: it has memory of its own
        std::uint32_t sources_end = 0;  ///< in `sources_`
        std::uint16_t reusable = 0;     ///< one bit for each of its entries in `sources_`
        bool works_in_place = false;    ///< its op allows it
    };

    void clear(std::size_t tensors);
    void prefetch_ahead(std::span<Tensor* const> nodes, std::size_t i) const;
    std::int32_t enter(Tensor& tensor);
    void insert(std::int32_t entry);
    void grow();

    void note_view(Tensor& tensor) {
        if (tensor.view_src != nullptr && tensor.buffer == nullptr)
            result_.views.push_back(&tensor);
    }
    Result<> scan_leaf(Tensor& leaf, std::int32_t arena);
    Result<> scan_node(Tensor& node, std::int32_t arena, std::int32_t now);
    Result<> scan_sources(Tensor& node, std::int32_t arena, std::int32_t now, Step& step);
    void finish_scan(std::int32_t end);
    const Entry* look_up(const Tensor& tensor) const;
    void find_groups(std::span<Tensor* const> nodes);
    void add_group(const FusionGroup& match, bool is_of_peers);
    void hold_sources(const Group& group);
    Result<const Lifetimes*> settle_all();
    Result<> settle(std::size_t node, std::int32_t now);
    bool take_over(Entry& node, const Step& step, std::uint32_t begin, std::int32_t now);
    Result<> begin_block(Entry& entry, std::int32_t arena, std::int32_t now);
    Result<std::size_t> size_in(const Tensor& tensor, std::int32_t arena) const;

    const Assignment* assignment_ = nullptr;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> slots_;  ///< a hash table: 1 + number of the entry, 0 is free
    std::vector<std::int32_t> sources_;
    std::vector<Step> steps_;
    std::vector<Group> groups_;
    std::size_t scanned_blocks_ = 0;  ///< of leafs and inputs: always there, with a tenant each
    Lifetimes result_;
};

/// For people: one line per block with its size, arena, life and tenants.
std::string to_text(const Lifetimes& lifetimes);

}  // namespace heddle::alloc
