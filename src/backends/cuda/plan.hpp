#pragma once

#include <array>
#include <variant>
#include <vector>

#include "backends/cuda/board.hpp"
#include "backends/cuda/kernels/products/gemv_column.hpp"
#include "backends/cuda/kernels/products/product_group.hpp"
#include "backends/cuda/kernels/rows/rope_store.hpp"

namespace heddle::cuda {

/// A node and its kernel.
struct SingleNode {
    const Kernel* kernel;
    const Tensor* node;
};

/// The nodes that one launch computes, at most those of the largest group.
class StepNodes {
public:
    void add(const Tensor* node) {
        if (node != nullptr) nodes_[count_++] = node;
    }
    const Tensor* const* begin() const { return nodes_.data(); }
    const Tensor* const* end() const { return nodes_.data() + count_; }
    const Tensor& back() const { return *nodes_[count_ - 1]; }

private:
    static constexpr std::size_t kMost = 13;  ///< a ColumnGroup with all there can be
    std::array<const Tensor*, kMost> nodes_;
    std::size_t count_ = 0;
};

/// What one launch computes.
struct Step {
    std::variant<SingleNode, ColumnGroup, RopeStoreGroup, ProductGroup> work;
    bool reads_ahead = false;  ///< its weights are written by no kernel of the graph

    static constexpr int kNowhere = -1;
    struct Left {
        int half = kNowhere;              ///< of the room for columns that are passed on
        const Tensor* weights = nullptr;  ///< of the norm that follows
    };
    int takes = kNowhere;  ///< half where the launch before has left its activations, coded
    Left leaves{};         ///< where it leaves its result for the launch that follows

    const char* name() const;
    StepNodes nodes() const;

    /// Whether its kernel has one block on every multiprocessor, of which no third one fits there:
    /// such kernels start while the one before them still runs.
    bool is_wide(const DeviceFacts& device) const;
    void launch(const Launch& launch) const;

    /// Adds all that the launch takes from its nodes: to a key, its hash or a comparison.
    template <class Key>
    void add_to(Key& key) const {
        const auto* one = std::get_if<SingleNode>(&work);
        const void* how = one != nullptr ? static_cast<const void*>(one->kernel) : name();
        for (const Tensor* node : nodes()) {
            key.add(how, *node);
            how = nullptr;  // those behind the first: what a launch leaves out depends on its group
        }
    }
};

/// What a graph takes: a step for every node that computes something, or for several together, and
/// scratch for the largest. Nothing is launched before the whole plan is made.
struct Plan {
    std::vector<Step> steps;
    std::size_t scratch = 0;

    /// Whether operands have to lie in memory of the device, or are only looked at.
    enum class Memory { checked, not_asked };

    /// Fails if a node has no kernel, or an operand is not in memory of this device.
    static Result<Plan> make(const Board& board, ggml_cgraph& graph,
                             Memory memory = Memory::checked);
};

/// For sentences: the node, its op, and what was wrong.
std::string describe_node(const Tensor& node);

}  // namespace heddle::cuda
