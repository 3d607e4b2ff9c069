// Lanes by number: entries of tables, lanes of two vectors, rows of eight or four bytes. Included
// once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_LOOK_UP_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_LOOK_UP_HPP
#undef HEDDLE_SIMD_LOOK_UP_HPP
#else
#define HEDDLE_SIMD_LOOK_UP_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Entries of a table, which is aligned, by the lowest digits of `index`; Highway's lookups want the
// others to be 0.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
HWY_INLINE hn::Vec512<float> look_up(const float (&table)[16], hn::Vec512<std::uint32_t> index) {
    return {_mm512_permutexvar_ps(index.raw, _mm512_load_ps(table))};
}
HWY_INLINE hn::Vec512<float> look_up(const float (&table)[32], hn::Vec512<std::uint32_t> index) {
    return {_mm512_permutex2var_ps(_mm512_load_ps(table), index.raw, _mm512_load_ps(table + 16))};
}
HWY_INLINE hn::Vec512<std::uint32_t> look_up(const std::uint32_t (&table)[32],
                                             hn::Vec512<std::uint32_t> index) {
    const __m512i low = _mm512_load_si512(table), high = _mm512_load_si512(table + 16);
    return {_mm512_permutex2var_epi32(low, index.raw, high)};
}

/// Lanes of `a`, then `b`: lane i is number order[i]. `order` is aligned.
HWY_INLINE hn::Vec512<std::uint16_t> pick(hn::Vec512<std::uint16_t> a, hn::Vec512<std::uint16_t> b,
                                          const std::uint16_t* order) {
    return {_mm512_permutex2var_epi16(a.raw, _mm512_load_si512(order), b.raw)};
}
HWY_INLINE hn::Vec512<std::uint32_t> pick(hn::Vec512<std::uint32_t> a, hn::Vec512<std::uint32_t> b,
                                          const std::uint32_t* order) {
    return {_mm512_permutex2var_epi32(a.raw, _mm512_load_si512(order), b.raw)};
}
#elif HWY_TARGET == HWY_AVX2
HWY_INLINE hn::Vec256<std::uint32_t> look_up(const std::uint32_t (&table)[8],
                                             hn::Vec256<std::uint32_t> index) {
    const __m256i entries = _mm256_load_si256(reinterpret_cast<const __m256i*>(table));
    return hn::Vec256<std::uint32_t>{_mm256_permutevar8x32_epi32(entries, index.raw)};
}
#endif

#if HWY_TARGET != HWY_SCALAR
/// Sixteen bytes from rows of `kSize` bytes, 4 or 8: row(0), row(1), ... say where they are.
template <int kSize, class Row>
HWY_INLINE hn::Vec<hn::FixedTag<std::uint8_t, 16> > join_rows(Row row) {
    static_assert(kSize == 4 || kSize == 8);
    using Bytes = hn::FixedTag<std::uint8_t, 16>;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
    if constexpr (kSize == 8) {
        const auto low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row(0)));
        const auto* high = reinterpret_cast<const double*>(row(1));
        return hn::Vec<Bytes>{_mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(low), high))};
    } else {
        const auto word = [&](int i) HWY_ATTR {
            std::int32_t bytes;
            std::memcpy(&bytes, row(i), sizeof bytes);
            return bytes;
        };
        auto all = _mm_cvtsi32_si128(word(0));
        all = _mm_insert_epi32(all, word(1), 1);
        all = _mm_insert_epi32(all, word(2), 2);
        return hn::Vec<Bytes>{_mm_insert_epi32(all, word(3), 3)};
    }
#else
    HWY_ALIGN std::uint8_t all[16];
    for (int i = 0; i < 16 / kSize; ++i) std::memcpy(all + kSize * i, row(i), kSize);
    return hn::Load(Bytes(), all);
#endif
}
#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
