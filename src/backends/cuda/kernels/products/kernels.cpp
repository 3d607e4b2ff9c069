#include <array>

#include "backends/cuda/kernels/products/products.hpp"

namespace heddle::cuda {

std::span<const Kernel> products_kernels() {
    static const std::array kernels{kGemmWgmmaFew,    kGemvInt8,      kGemvFloat,     kGemvDecode,
                                    kGemmLibrary,     kGemmWgmma,     kGemmMma,       kGemmGeneric,
                                    kMulMatIdInt8,    kMulMatIdFloat, kMulMatIdWgmma, kMulMatIdMma,
                                    kMulMatIdGeneric, kOutProd};
    return kernels;
}

}  // namespace heddle::cuda
