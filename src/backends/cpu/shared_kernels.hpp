#pragma once

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/scratch.hpp"

/// What other backends of this tree may use of this one: its kernels, and the memory they ask for.
namespace heddle::cpu {

/// The kernel that runs a node of which nothing is known yet; null and, if `why` is not null, in
/// `*why` the reasons. Registration finds it by this name.
using KernelFor = const Kernel*(const Tensor& node, Objections* why);
inline constexpr const char* kKernelForName = "heddle_cpu_kernel_for";

}  // namespace heddle::cpu
