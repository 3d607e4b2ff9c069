#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kMulMat;
extern const Kernel kMulMatId;
extern const Kernel kOutProd;
extern const Kernel kOutProdDecoded;

std::span<const Kernel> products_kernels() {
    static const Kernel kernels[] = {kMulMat, kMulMatId, kOutProd, kOutProdDecoded};
    return kernels;
}

}  // namespace heddle::cpu
