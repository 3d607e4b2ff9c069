#pragma once

#include "backends/cpu/kernel.hpp"
#include "ops/descriptor.hpp"

namespace heddle::cpu {

/// Floating point operations of a node, as its descriptor counts them.
template <Descriptor D>
double flops_of(const Tensor& node) {
    return D::cost(unpack<typename D::Params>(node), Sources(node.src), node).flops;
}

/// As many tasks as there are pieces, as far as the computing is worth it.
template <Descriptor D>
Demand flops_demand(const Tensor& node, std::int64_t pieces, int threads) {
    return {.tasks = worthwhile_tasks(0, flops_of<D>(node), pieces, threads)};
}

}  // namespace heddle::cpu
