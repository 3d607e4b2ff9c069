#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "core/half.hpp"

/// Decoders run in kernels and, for tests, on the host.
#define HEDDLE_HD __host__ __device__ __forceinline__

/// Reading the fields of blocks. A block lies at any address that is a multiple of the alignment
/// its fields need (2 for most formats, 1 for MXFP4), so words are put together from pieces.
namespace heddle::cuda {

using Bytes = const std::uint8_t*;

HEDDLE_HD unsigned load16(Bytes p) { return *reinterpret_cast<const std::uint16_t*>(p); }

/// A word at an even address.
HEDDLE_HD std::uint32_t load32(Bytes p) { return load16(p) | load16(p + 2) << 16; }

/// A word at any address.
HEDDLE_HD std::uint32_t load32_bytes(Bytes p) {
    return p[0] | p[1] << 8 | p[2] << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

HEDDLE_HD float half_bits_to_float(unsigned bits) {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
#else
    return f16_to_f32(static_cast<std::uint16_t>(bits));
#endif
}

HEDDLE_HD float load_half(Bytes p) { return half_bits_to_float(load16(p)); }

HEDDLE_HD unsigned float_to_half_bits(float value) {
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(value));
#else
    return f32_to_f16(value);
#endif
}

/// The number whose bits these are.
HEDDLE_HD float bits_to_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

HEDDLE_HD std::uint32_t float_to_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return std::bit_cast<std::uint32_t>(value);
#endif
}

// Products and sums that the compiler must not fuse: formats say how often a value is rounded.

HEDDLE_HD float mul(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

HEDDLE_HD float add(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

HEDDLE_HD float sub(float a, float b) { return add(a, -b); }

/// Byte j (0 .. 7) of a double word.
HEDDLE_HD unsigned byte_of(std::uint64_t word, int j) {
    return static_cast<unsigned>(word >> 8 * j) & 255u;
}

/// The number with its sign turned round if bit `j` of `signs` is set.
HEDDLE_HD float with_sign(float value, unsigned signs, int j) {
    return bits_to_float(float_to_bits(value) ^ (signs >> j & 1u) << 31);
}

}  // namespace heddle::cuda
