#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/shared_kernels.hpp"
#include "core/graph.hpp"

/// From a graph to what is to be done.
namespace heddle::cpu {

/// How a step goes with the one before it.
enum class Bond : std::uint8_t {
    none,    ///< it begins when all before it is done
    beside,  ///< they do not depend on each other: each task begins it without waiting for others
    rows,    ///< both are computed together, a few rows at a time
};

/// One node to be computed.
struct Step {
    const Kernel* kernel;  ///< null: the result is empty, and nothing needs to be done
    Tensor* node;
    int tasks;                ///< steps that go together have equally many
    std::size_t scratch = 0;  ///< bytes; of steps bound by rows the first has them all
    Bond bond = Bond::none;
    std::int64_t units = 0;  ///< of the first of steps bound by rows: how many rows at a time
};

/// The nodes of a graph that are computed, in the order of computing them, and what that takes.
struct Plan {
    std::vector<Step> steps;
    std::size_t scratch = 0;  ///< bytes, for the steps that want most
    int tasks = 1;            ///< of the node that has most
};

/// Whether planning insists on operands in host memory. Sizes can be planned before there is any.
enum class Memory { unchecked, checked };

/// Whether nodes may be computed together. No result depends on it. Numbers are those of
/// `heddle_cpu_fusion`.
enum class Fusion {
    off,
    on,
    always,  ///< also where nothing is gained by it
};

/// Plans `graph` for `threads` threads. Left out are nodes that only describe data and nodes that
/// are not marked to be computed. Fails, with the reason, if there is a node that is not such as
/// its op builds, that no kernel runs, or that comes before one it reads; `plan` keeps its memory
/// from call to call.
///
/// Ordinary kernels get no more tasks than there are CPUs, however many threads are asked
/// for: they would only stand in each other's way. Functions of the caller's get all they ask for.
Result<> make_plan(const Graph& graph, int threads, Memory memory, Plan& plan,
                   Fusion fusion = Fusion::on);

KernelFor kernel_for;

}  // namespace heddle::cpu
