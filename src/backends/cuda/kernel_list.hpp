#pragma once

#include "backends/cuda/kernel.hpp"

namespace heddle::cuda {

/// Every kernel for `op`, best first.
std::span<const Kernel* const> kernels_for(Op op);

}  // namespace heddle::cuda
