#include <array>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

extern const Kernel kAdd, kAddBlocks, kSub, kMul, kDiv, kAdd1, kAdd1Blocks, kAddId;
extern const Kernel kSqr, kSqrt, kLog, kSin, kCos, kScale, kClamp, kLeakyRelu;
extern const Kernel kUnary, kGlu, kSiluBack;
extern const Kernel kFill, kArange, kTimestepEmbedding;
extern const Kernel kDiag, kTri, kDiagMaskInf, kDiagMaskZero;

std::span<const Kernel> elementwise_kernels() {
    static const std::array kernels{
        kAdd,          kAddBlocks,
        kSub,          kMul,
        kDiv,          kAdd1,
        kAdd1Blocks,   kAddId,
        kSqr,          kSqrt,
        kLog,          kSin,
        kCos,          kScale,
        kClamp,        kLeakyRelu,
        kUnary,        kGlu,
        kFill,         kDiag,
        kTri,          kDiagMaskInf,
        kDiagMaskZero, kSiluBack,
        kArange,       kTimestepEmbedding,
    };
    return kernels;
}

}  // namespace heddle::cpu
