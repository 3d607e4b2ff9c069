// Floats to whole numbers, and these to bytes. Included once per instruction set, inside a file
// that is compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_ROUNDING_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_ROUNDING_HPP
#undef HEDDLE_SIMD_ROUNDING_HPP
#else
#define HEDDLE_SIMD_ROUNDING_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The nearest whole numbers, or numbers cut down to whole ones, where all of them fit. Highway's
// functions take care of those that do not, at some cost.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
HWY_INLINE hn::Vec512<std::int32_t> nearest_of(hn::Vec512<float> v) {
    return {_mm512_cvtps_epi32(v.raw)};
}
HWY_INLINE hn::Vec512<std::int32_t> cut_down(hn::Vec512<float> v) {
    return {_mm512_cvttps_epi32(v.raw)};
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE hn::Vec256<std::int32_t> nearest_of(hn::Vec256<float> v) {
    return hn::Vec256<std::int32_t>{_mm256_cvtps_epi32(v.raw)};
}
HWY_INLINE hn::Vec256<std::int32_t> cut_down(hn::Vec256<float> v) {
    return hn::Vec256<std::int32_t>{_mm256_cvttps_epi32(v.raw)};
}
#else
template <class V>
HWY_INLINE auto nearest_of(V v) {
    return hn::NearestInt(v);
}
template <class V>
HWY_INLINE auto cut_down(V v) {
    return hn::ConvertTo(hn::RebindToSigned<hn::DFromV<V> >(), v);
}
#endif

/// The numbers at `ints(0)`, `ints(1)`, ..., 32 of them in all, to bytes: what does not fit is held
/// at the nearest that does. On AVX2 and AVX-512 vectors are whole ones.
template <class GetInts>
HWY_INLINE void put_bytes(GetInts ints, std::int8_t* to) {
#if HWY_TARGET == HWY_AVX2
    // Packing within halves of 128 bits leaves fours out of order, which one permutation mends.
    const __m256i low = _mm256_packs_epi32(ints(0).raw, ints(1).raw);
    const __m256i high = _mm256_packs_epi32(ints(2).raw, ints(3).raw);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
#elif HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(ints(0).raw));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16), _mm512_cvtsepi32_epi8(ints(1).raw));
#else
    using D = hn::DFromV<decltype(ints(0))>;
    const hn::Rebind<std::int8_t, D> bytes;
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    for (std::size_t i = 0; i < 32 / kLanes; ++i) {
        hn::StoreU(hn::DemoteTo(bytes, ints(i)), bytes, to + i * kLanes);
    }
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
