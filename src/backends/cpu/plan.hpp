#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/cpu/kernel.hpp"
#include "core/graph.hpp"

/// From a graph to what is to be done.
namespace heddle::cpu {

/// One node to be computed.
struct Step {
    const Kernel* kernel;  ///< null: the result is empty, and nothing needs to be done
    Tensor* node;
    int tasks;
};

/// The nodes of a graph that are computed, in order, and what that takes.
struct Plan {
    std::vector<Step> steps;
    std::size_t scratch = 0;  ///< bytes, for the node that wants most
    int tasks = 1;            ///< of the node that has most
};

/// Whether planning insists on operands in host memory. Sizes can be planned before there is any.
enum class Memory { unchecked, checked };

/// Plans `graph` for `threads` threads. Left out are nodes that only describe data and nodes that
/// are not marked to be computed. Fails, with the reason, if there is a node that no kernel runs;
/// `plan` keeps its memory from call to call.
///
/// Ordinary kernels get no more tasks than there are processors, however many threads are asked
/// for: they would only stand in each other's way. Functions of the caller's get all they ask for.
Result<> make_plan(const Graph& graph, int threads, Memory memory, Plan& plan);

/// Whether `node` has an op of ours and all operands that the op cannot do without.
bool has_required_operands(const Tensor& node);

/// Memory that grows when needed, aligned to 64 bytes.
class Scratch {
public:
    /// At least `size` bytes; what was there is lost.
    Result<std::byte*> reserve(std::size_t size);

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t size_ = 0;
};

/// Scratch memory is aligned to this.
inline constexpr std::size_t kScratchAlignment = 64;

}  // namespace heddle::cpu
