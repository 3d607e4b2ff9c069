#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph.hpp"
#include "sched/layouts.hpp"

namespace heddle::sched {

/// Number of a tensor within a graph.
using TensorId = std::int32_t;
inline constexpr TensorId kNoTensor = -1;

/// A graph as numbers: every tensor it touches, what it reads, and whose memory it is in. The
/// stages work on this and look at tensors only where they must.
///
/// Nodes come first, in their order, then leafs, then tensors in neither list: sources that the
/// caller left out, and the roots of views.
class GraphIndex {
public:
    struct Source {
        TensorId tensor;
        std::uint8_t slot;
    };

    /// What a tensor said when the graph was read, so that stages need not fetch it again. It is
    /// not brought up to date when the tensor gets memory, nor by `rebind`.
    struct Facts {
        ::ggml_backend_buffer* buffer;  ///< its own, not that of its root
        std::int32_t flags;
        Op op;
    };

    /// Reads `graph`, forgetting the last one. Memory is kept for the next.
    Result<> read(const Graph& graph);

    /// The same graph at other addresses: `graph` has the same numbers of nodes and leafs, in
    /// lists that correspond. Tensors in neither list keep their addresses. The caller has verified
    /// that it is the same graph.
    void rebind(const Graph& graph);

    /// Tensors that `rebind` found with other extents, strides or offsets: their layouts are what
    /// they have now.
    void take_layouts(std::span<const TensorId> ids);

    /// How many different layouts there are, those counted that no tensor has any more.
    std::size_t layout_count() const { return layouts_.size(); }

    const Graph& graph() const { return *graph_; }
    std::size_t size() const { return tensors_.size(); }
    Tensor& operator[](TensorId id) const { return *tensors_[static_cast<std::size_t>(id)]; }
    std::span<Tensor* const> tensors() const { return tensors_; }

    /// The tensor at each place of the lists. A node that is listed twice has one number.
    std::span<const TensorId> nodes() const { return nodes_; }
    std::span<const TensorId> leafs() const { return leafs_; }

    /// The tensor whose memory it is in: itself, unless it is a view.
    TensorId root(TensorId id) const { return roots_[static_cast<std::size_t>(id)]; }

    /// What a node reads, in the order of its slots; nothing for all other tensors.
    std::span<const Source> sources(TensorId id) const {
        const auto i = static_cast<std::size_t>(id);
        if (i + 1 >= first_source_.size()) return {};
        return {sources_.data() + first_source_[i], first_source_[i + 1] - first_source_[i]};
    }

    bool is_node(TensorId id) const {
        return static_cast<std::size_t>(id) + 1 < first_source_.size();
    }

    /// In one of the lists: these have the lowest numbers.
    bool is_listed(TensorId id) const { return id < listed_; }

    const Facts& facts(TensorId id) const { return facts_[static_cast<std::size_t>(id)]; }

    /// The layout it had when the graph was read; equal ones have equal numbers.
    std::uint32_t layout_number(TensorId id) const {
        return layout_numbers_[static_cast<std::size_t>(id)];
    }
    const Layout& layout(TensorId id) const { return layouts_[layout_number(id)]; }

    /// Whether it had an address, or a buffer at least, when the graph was read.
    bool had_data(TensorId id) const { return has_mark(id, kHadData); }
    bool had_memory(TensorId id) const { return had_data(id) || facts(id).buffer != nullptr; }

    /// A view of memory, for which nothing is computed: VIEW, RESHAPE, PERMUTE, TRANSPOSE.
    bool is_view(TensorId id) const { return has_mark(id, kIsView); }

    /// A view of a view: others are views of their roots.
    bool is_deep_view(TensorId id) const { return has_mark(id, kDeepView); }

    /// Computed into memory of another tensor: it changes what others read.
    bool writes_root(TensorId id) const { return is_node(id) && root(id) != id && !is_view(id); }

    TensorId find(const Tensor* tensor) const;  ///< kNoTensor if the graph does not know it

private:
    enum Mark : std::uint8_t { kIsView = 1, kHadData = 2, kDeepView = 4 };
    bool has_mark(TensorId id, Mark mark) const {
        return (marks_[static_cast<std::size_t>(id)] & mark) != 0;
    }

    void prefetch_ahead(std::size_t i) const;
    void prefetch_slot(const Tensor* tensor) const;
    Result<> enter_lists(const Graph& graph);
    Result<> read_tensor(TensorId id);
    Result<Tensor*> find_root(Tensor& tensor) const;
    TensorId enter(Tensor& tensor);
    std::size_t probe(const Tensor* tensor) const;
    void fill_table(std::size_t tensors) const;

    const Graph* graph_ = nullptr;
    TensorId listed_ = 0;  ///< how many
    std::vector<Tensor*> tensors_;
    std::vector<TensorId> nodes_, leafs_, roots_;
    std::vector<std::uint32_t> first_source_;  ///< one more than there are nodes
    std::vector<Source> sources_;
    std::vector<Facts> facts_;
    Layouts layouts_;
    std::vector<std::uint32_t> layout_numbers_;
    std::vector<std::uint8_t> marks_;
    mutable std::vector<std::uint32_t> slots_;  ///< a hash table: 1 + number, 0 is free
    mutable bool table_is_stale_ = false;       ///< after `rebind`, until it is asked for
};

}  // namespace heddle::sched
