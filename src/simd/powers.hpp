// Exponents and mantissas, where there are instructions for them. Included once per instruction
// set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_POWERS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_POWERS_HPP
#undef HEDDLE_SIMD_POWERS_HPP
#else
#define HEDDLE_SIMD_POWERS_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x times 2^n, rounded once, whatever n is. Highway has no name for these instructions.
HWY_INLINE hn::Vec512<float> times_power(hn::Vec512<float> x, hn::Vec512<float> n) {
    return {_mm512_scalef_ps(x.raw, n.raw)};
}
HWY_INLINE hn::Vec256<float> times_power(hn::Vec256<float> x, hn::Vec256<float> n) {
    return {_mm256_scalef_ps(x.raw, n.raw)};
}
template <std::size_t N>
HWY_INLINE hn::Vec128<float, N> times_power(hn::Vec128<float, N> x, hn::Vec128<float, N> n) {
    return {_mm_scalef_ps(x.raw, n.raw)};
}

/// x less the whole number below; 0 for infinity.
inline constexpr int kFromBelow = 0x09;
HWY_INLINE hn::Vec512<float> fraction_of(hn::Vec512<float> x) {
    return {_mm512_reduce_ps(x.raw, kFromBelow)};
}
HWY_INLINE hn::Vec256<float> fraction_of(hn::Vec256<float> x) {
    return {_mm256_reduce_ps(x.raw, kFromBelow)};
}
template <std::size_t N>
HWY_INLINE hn::Vec128<float, N> fraction_of(hn::Vec128<float, N> x) {
    return {_mm_reduce_ps(x.raw, kFromBelow)};
}

/// x = 2^n m with a whole number n and m from 1 to 2. n is minus infinity for 0, and infinity for
/// infinity, where m is 1; m is NaN for negative x.
HWY_INLINE hn::Vec512<float> exponent_of(hn::Vec512<float> x) { return {_mm512_getexp_ps(x.raw)}; }
HWY_INLINE hn::Vec512<float> mantissa_of(hn::Vec512<float> x) {
    return {_mm512_getmant_ps(x.raw, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_nan)};
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
