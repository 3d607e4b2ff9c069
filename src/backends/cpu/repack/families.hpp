#pragma once

#include "backends/cpu/repack/repack_kernel.hpp"

namespace heddle::cpu {

// Each family's kernels, in its own file; empty for types of other families.
RepackKernel repack_simple_of(Type type);  ///< q4_0 q8_0 iq4_nl mxfp4; columns are q8_0
RepackKernel repack_k_of(Type type);       ///< q2_K q4_K; columns are q8_K

}  // namespace heddle::cpu
