#pragma once

#include "backends/cuda/kernel.hpp"

/// The rows of products_kernels().
namespace heddle::cuda {

extern const Kernel kGemmWgmmaFew;  ///< few columns that fill a tile best, block formats, on Hopper
extern const Kernel kGemvInt8;      ///< few columns, block formats, activations of eight bits
extern const Kernel kGemvFloat;     ///< few columns, float weights
extern const Kernel kGemvDecode;    ///< few columns, anything
extern const Kernel kGemmLibrary;   ///< many columns, float weights, by cuBLASLt
extern const Kernel kGemmWgmma;     ///< many columns, block formats, on Hopper
extern const Kernel kGemmMma;       ///< many columns, anything but f32, on tensor cores
extern const Kernel kGemmGeneric;   ///< anything, in f32

extern const Kernel kMulMatIdInt8, kMulMatIdFloat;  ///< few tokens
extern const Kernel kMulMatIdWgmma, kMulMatIdMma;   ///< many tokens, grouped by expert
extern const Kernel kMulMatIdGeneric;               ///< anything
extern const Kernel kOutProd;

/// Products of more columns are not for the rows of few.
inline constexpr std::int64_t kMostColumns = 8;

/// What every product asks of its operands; empty if all is well.
std::string_view product_objection(const Tensor& node);

/// Zeros for a product of no terms.
void launch_zeros(const Tensor& node, const Launch& launch);

// What other rows fall back on when only the launch shows that they cannot.
void launch_gemv_decode(const Tensor& node, const Launch& launch);
void launch_gemm_generic(const Tensor& node, const Launch& launch);

}  // namespace heddle::cuda
