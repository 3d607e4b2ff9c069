#include <array>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kSum, kSumRows, kMean, kCumsum, kArgmax, kCountEqual;
extern const Kernel kNorm, kRmsNorm, kL2Norm, kGroupNorm, kRmsNormBack;
extern const Kernel kArgsort, kTopK;
extern const Kernel kSoftMax, kSoftMaxBack;
extern const Kernel kRope, kRopeBack;

std::span<const Kernel> rows_kernels() {
    static const std::array kernels{
        kSum,  kSumRows, kMean,        kCumsum,    kArgmax,      kCountEqual,
        kNorm, kRmsNorm, kL2Norm,      kGroupNorm, kRmsNormBack, kArgsort,
        kTopK, kSoftMax, kSoftMaxBack, kRope,      kRopeBack,
    };
    return kernels;
}

}  // namespace heddle::cpu
