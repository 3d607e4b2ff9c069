// Block formats, each in a header of its own. Included once per instruction set, inside a file that
// is compiled by foreach_target.h.
//
// A format says what is in a block, once: which codes there are, the zero point, where scales are.
// Its members are the ways in which strategies unpack a block:
//     itself        sixteen elements at a time: dot products, GEMM, decoding, attention
//     Gemv          a vector of bytes at a time, where there are products of bytes
//     Repacked      one lane per row, for formats that have a layout in repack/layout.cpp
#if defined(HEDDLE_CPU_DOT_FORMATS_BLOCK_FORMAT_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_BLOCK_FORMAT_HPP
#undef HEDDLE_CPU_DOT_FORMATS_BLOCK_FORMAT_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_BLOCK_FORMAT_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/gemv_lanes.hpp"
#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/dot/types.hpp"
#include "backends/cpu/repack/repacked_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// The format of a type: see kTypeRows in types.hpp.
template <Type kType>
struct BlockFormat;

/// Codes that cannot be made unsigned without taking more than seven bits are multiplied signed.
constexpr bool wants_signs(int most_code) { return most_code > 127; }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
