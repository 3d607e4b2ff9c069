#include "ops/copy.hpp"

#include "backends/cpu/kernels/movement/copy_units.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) { return objection_to_copy(*node.src[0], node); }

/// Element number e of x becomes element number e of the result; the extents may differ.
void run(const Tensor& node, const Task& task) { run_copy(Copy::of(*node.src[0], node), task); }

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    return {.tasks = copy_tasks(*node.src[0], node, threads)};
}

constexpr Kernel copy_kernel(std::string_view name, Op op) {
    return {.name = name, .op = op, .objection = objection, .run = run, .demand = demand};
}

}  // namespace

extern const Kernel kDup = copy_kernel("dup", ops::Dup::id);
extern const Kernel kCpy = copy_kernel("cpy", ops::Cpy::id);
extern const Kernel kCont = copy_kernel("cont", ops::Cont::id);

}  // namespace heddle::cpu
