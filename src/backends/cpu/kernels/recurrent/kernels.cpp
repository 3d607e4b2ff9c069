#include <array>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kSsmConv, kSsmScan;
extern const Kernel kRwkvWkv6, kRwkvWkv7, kGatedLinearAttn, kGatedDeltaNet;
extern const Kernel kSolveTri;

std::span<const Kernel> recurrent_kernels() {
    static const std::array kernels{
        kSsmConv, kSsmScan, kRwkvWkv6, kRwkvWkv7, kGatedLinearAttn, kGatedDeltaNet, kSolveTri,
    };
    return kernels;
}

}  // namespace heddle::cpu
