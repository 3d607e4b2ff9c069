#include <array>

#include "backends/cuda/kernels/attention/attention.hpp"

namespace heddle::cuda {

std::span<const Kernel> attention_kernels() {
    static const std::array kernels{kAttentionRing,  kAttentionToken, kAttentionDecode,
                                    kAttentionWgmma, kAttentionMma,   kAttentionGeneric};
    return kernels;
}

}  // namespace heddle::cuda
