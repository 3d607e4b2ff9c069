#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kCrossEntropyLoss, kCrossEntropyLossBack, kOptStepAdamw, kOptStepSgd;

std::span<const Kernel> training_kernels() {
    static const Kernel kernels[] = {kCrossEntropyLoss, kCrossEntropyLossBack, kOptStepAdamw,
                                     kOptStepSgd};
    return kernels;
}

}  // namespace heddle::cpu
