#pragma once

#include "backends/cuda/kernel.hpp"

namespace heddle::cuda {

/// Every kernel for `op`, best first.
std::span<const Kernel* const> kernels_for(Op op);

/// As `choose_kernel`, for a node that `check_node` accepts.
const Kernel* choose_sound_kernel(const Tensor& node);

}  // namespace heddle::cuda
