#pragma once

#include <deque>
#include <vector>

#include "backends/cpu/shared_kernels.hpp"
#include "backends/sim/board.hpp"

namespace heddle::sim {

/// The kernel that runs `node` on a device with these parameters, or null and, in `*why`, the
/// reasons. Says whether a node is supported, and picks what runs it.
const cpu::Kernel* choose_kernel(const Parameters& parameters, const Tensor& node,
                                 Objections* why = nullptr);

/// Nodes of a graph as kernels take them: copies, with real addresses. The graph may change or go
/// before they are computed.
class GraphWork {
public:
    /// A node that is ready to be computed.
    struct Step {
        const cpu::Kernel* kernel;
        const Tensor* node;
        double far_bytes;  ///< of its operands, in memory of the host
    };

    /// Copies a node. Fails if no kernel runs it or a tensor is out of the device's reach.
    Result<Step> prepare(Board& board, const Tensor& node);

    /// To be computed after those that were added before.
    void add(const Step& step) { steps_.push_back(step); }
    bool is_empty() const { return steps_.empty(); }

    /// Gets the memory that kernels want. After this only run() is called.
    Result<> finish();

    /// Computes them in order; stops with what a kernel says that meets data it cannot use.
    Result<> run() const;

private:
    Result<Tensor*> copy_with_real_address(Board& board, const Tensor& tensor, double& far_bytes);

    std::deque<Tensor> tensors_;  ///< keep their addresses
    std::vector<Step> steps_;
    std::size_t scratch_size_ = 0;
    std::byte* scratch_ = nullptr;
    cpu::Scratch scratch_memory_;
};

}  // namespace heddle::sim
