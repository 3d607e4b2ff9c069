#pragma once

/// What CPUs have beyond the instruction sets that kernels are compiled for, none of which
/// promises it: kernels ask here before they use it.
namespace heddle::cpu {

bool has_vnni();          ///< x86: products of bytes, summed in 32 bits, in vectors of 512 bits
bool has_dot_products();  ///< Arm: the same for signed bytes
bool has_mixed_signs();   ///< Arm: the same for unsigned by signed bytes

}  // namespace heddle::cpu
