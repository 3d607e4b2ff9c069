#pragma once

#include <cstdint>

#include "core/type.hpp"

/// Dot products of rows of every type, for the instruction set in use.
namespace heddle::cpu {

/// Columns that one pass over a row can serve.
inline constexpr int kDotColumns = 4;

/// out[c] = the dot product of row `x` and row `y[c]`, for 1 to `kDotColumns` columns. `n` counts
/// elements, in whole blocks. Rows need no alignment. A result does not depend on how many others
/// are computed with it.
using DotColumns = void (*)(std::int64_t n, const void* x, const void* const* y, float* out,
                            int columns);

/// The function for rows of `type` with rows of its dot type, or null where there is none.
DotColumns dot_columns_of(Type type);

// Each family's functions, in its own file; null for types of other families.
DotColumns dot_plain_of(Type type);   ///< f32 f16 bf16
DotColumns dot_simple_of(Type type);  ///< one scale for up to 32 elements
DotColumns dot_k_of(Type type);       ///< q2_K .. q6_K, iq4_xs, tq1_0, tq2_0
DotColumns dot_grid_of(Type type);    ///< iq1, iq2 and iq3 formats

/// Rows of blocks as f32, for products: the last bit may differ from what the codec gives.
using DecodeRow = void (*)(const void* blocks, float* values, std::int64_t n);

/// The fastest way there is; null for types that are not block formats.
DecodeRow decode_row_of(Type type);

// Families that are faster at it than their codecs, by way of the dot product's unpacked blocks.
DecodeRow decode_k_of(Type type);     ///< tq1_0
DecodeRow decode_grid_of(Type type);  ///< iq1, iq2 and iq3 formats

}  // namespace heddle::cpu
