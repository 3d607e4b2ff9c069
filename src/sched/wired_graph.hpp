#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/objects.hpp"
#include "sched/graph_index.hpp"

namespace heddle::sched {

struct Splits;

/// The graph as backends are given it, for one slot: clones of the caller's tensors, wired to each
/// other and to the copies that their splits read.
///
/// Backends may have threads of their own that read nodes until the stream is synchronised. So a
/// clone does not change from the time when it has its memory: neither when the next run begins
/// with other copies, nor when the caller builds its next graph in the same place. Tensors that
/// have memory of their own and are not computed (weights, caches) are not cloned: backends may
/// know them by their addresses.
class WiredGraph {
public:
    /// Nothing has memory yet but what had it before.
    WiredGraph(const GraphIndex& index, Splits& splits, int slot);
    WiredGraph(const WiredGraph&) = delete;
    WiredGraph& operator=(const WiredGraph&) = delete;

    /// What stands for the caller's tensor: a clone in the same memory, or the tensor itself.
    Tensor& operator[](TensorId id) const { return *tensors_[static_cast<std::size_t>(id)]; }

    /// What runs at each position of `Splits::order`.
    std::span<Tensor* const> nodes() const { return nodes_; }

    /// Changes the order within a split: `nodes` are those from position `begin` on.
    void reorder(std::size_t begin, std::span<Tensor* const> nodes);

    /// The graph of a split. It stays where it is, and has a uid that no other graph has.
    Graph& split(std::size_t number) { return parts_[number]; }

    /// Nodes `begin .. end` of the order, without a uid. Use counts are those of the whole graph.
    Graph piece(std::int32_t begin, std::int32_t end);

    /// Gives clones the memory of the tensors they stand for, and tells their buffers. The same
    /// again if the graph was planned anew.
    Result<> place(const GraphIndex& index, const Splits& splits);
    bool is_placed() const { return is_placed_; }
    void unplace() { is_placed_ = false; }

    // Whether it is as good for the graph that `index` was rebound to, which is the same but for
    // addresses and names.

    /// Whether tensors with memory of their own are the very same.
    bool same_memory(const GraphIndex& index) const;

    /// Whether the tensors from number `first` on have the names that they had: asked while they
    /// are near.
    bool same_names(TensorId first, std::span<Tensor* const> tensors) const;

    /// Gives clones the names that the tensors of `index` have now, and the splits new uids. No run
    /// may be under way.
    void take_names(const GraphIndex& index);

    /// Gives the clones of tensors that are marked in `is_resized`, by number, the extents,
    /// strides, offsets and addresses that these have now, and the splits new uids. No run may be
    /// under way.
    void take_sizes(const GraphIndex& index, std::span<const std::uint8_t> is_resized);

    /// Buffers that are not the scheduler's and that nodes write.
    std::span<Buffer* const> written() const { return written_; }

private:
    /// Memory that was there before the graph was planned.
    struct Given {
        TensorId id;
        Buffer* buffer;
        void* data;
    };

    Tensor& clone(const Tensor& original, TensorId id, const Tensor* stand_in = nullptr);
    void clone_tensors(const GraphIndex& index);
    void clone_nodes(const GraphIndex& index, Splits& splits);
    void wire(const GraphIndex& index, TensorId id, Tensor& tensor);
    void count_uses(const GraphIndex& index, const Splits& splits);
    void make_parts(const Splits& splits);
    void list_given(const GraphIndex& index, const Splits& splits);
    void note_names();
    void renew_uids();

    struct Clone {
        TensorId id;
        const Tensor* stand_in;  ///< of a detour, whose memory it has; null: the tensor's own
    };

    /// Most names are no longer: side by side they are compared faster than in the clones.
    using NameStart = std::array<char, 16>;

    std::vector<Tensor> clones_;   ///< never grows beyond what was reserved
    std::vector<Clone> origins_;   ///< of each clone
    std::size_t node_clones_ = 0;  ///< the first ones, in the order in which they run
    std::vector<Tensor*> tensors_;
    std::vector<NameStart> name_starts_;  ///< of each tensor
    std::vector<Tensor*> nodes_;
    std::vector<Graph> parts_;

    // As `ggml_cgraph` has them.
    std::vector<Tensor*> keys_;
    std::vector<ggml_bitset_t> used_;
    std::vector<std::int32_t> use_counts_;
    Graph whole_{};  ///< with all that the parts have in common

    std::vector<Given> given_;
    std::vector<Buffer*> written_;
    bool is_placed_ = false;
};

/// The wired graph of `slot`, made and placed if it is not there yet. `splits` is planned.
Result<WiredGraph*> wire(const GraphIndex& index, Splits& splits, int slot);

}  // namespace heddle::sched
