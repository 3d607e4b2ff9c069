// Vectors of up to sixteen floats for work on blocks. Included once per instruction set, inside a
// file that is compiled by foreach_target.h. The plain target, which has one lane, is left out.
#if defined(HEDDLE_CPU_DOT_BLOCK_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_BLOCK_LANES_HPP
#undef HEDDLE_CPU_DOT_BLOCK_LANES_HPP
#else
#define HEDDLE_CPU_DOT_BLOCK_LANES_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET != HWY_SCALAR

/// Floats of a vector. Sixteen divide every block and every group of a super-block.
inline constexpr std::size_t kBlockLanes =
    HWY_HAVE_SCALABLE ? 4 : (HWY_LANES(float) < 16 ? HWY_LANES(float) : 16);

using BlockFloats = hn::FixedTag<float, kBlockLanes>;
using BlockInts = hn::FixedTag<std::int32_t, kBlockLanes>;
using BlockWords = hn::FixedTag<std::uint32_t, kBlockLanes>;
using FloatVec = hn::Vec<BlockFloats>;
using IntVec = hn::Vec<BlockInts>;

using FourFloats = hn::FixedTag<float, 4>;
using FourInts = hn::FixedTag<std::int32_t, 4>;
using FourWords = hn::FixedTag<std::uint32_t, 4>;

/// The four lanes of `v`, or `op` over the fours of it.
template <class D, class V, class Op>
HWY_INLINE auto fold_fours(D, V v, Op op) {
    if constexpr (hn::MaxLanes(D()) == 4) {
        return v;
    } else {
        const hn::Half<D> half;
        return fold_fours(half, op(half, hn::LowerHalf(half, v), hn::UpperHalf(half, v)), op);
    }
}

/// `op` over all lanes of each of four vectors: four results in one vector. Much less work than
/// four times one result.
template <class D, class V, class Op>
HWY_INLINE auto fold_four(D d, V v0, V v1, V v2, V v3, Op op) {
    const hn::RepartitionToWide<D> wide;
    const auto pairs01 = op(d, hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
    const auto pairs23 = op(d, hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
    const auto low = hn::BitCast(wide, pairs01), high = hn::BitCast(wide, pairs23);
    const auto even = hn::BitCast(d, hn::InterleaveLower(wide, low, high));
    const auto odd = hn::BitCast(d, hn::InterleaveUpper(wide, low, high));
    return fold_fours(d, op(d, even, odd), op);
}

struct AddOp {
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::Add(a, b);
    }
};
struct MaxOp {
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::Max(a, b);
    }
};
struct MinOp {
    template <class D, class V>
    HWY_INLINE V operator()(D, V a, V b) const {
        return hn::Min(a, b);
    }
};

/// The nearest whole numbers, or numbers cut down to whole ones, where all of them fit. Highway's
/// functions take care of those that do not, at some cost.
HWY_INLINE IntVec nearest_of(FloatVec v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return IntVec{_mm512_cvtps_epi32(v.raw)};
#elif HWY_TARGET == HWY_AVX2
    return IntVec{_mm256_cvtps_epi32(v.raw)};
#else
    return hn::NearestInt(v);
#endif
}

HWY_INLINE IntVec cut_down(FloatVec v) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    return IntVec{_mm512_cvttps_epi32(v.raw)};
#elif HWY_TARGET == HWY_AVX2
    return IntVec{_mm256_cvttps_epi32(v.raw)};
#else
    return hn::ConvertTo(BlockInts(), v);
#endif
}

/// The numbers at `ints(0)`, `ints(1)`, ..., 32 of them in all, to bytes: what does not fit is held
/// at the nearest that does.
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
    const hn::FixedTag<std::int8_t, kBlockLanes> bytes;
    for (std::size_t i = 0; i < 32 / kBlockLanes; ++i) {
        hn::StoreU(hn::DemoteTo(bytes, ints(i)), bytes, to + i * kBlockLanes);
    }
#endif
}

/// Sixteen codes of eight bits as floats: `body(i, v)` for elements i and those after it.
template <class D, class Body>
HWY_INLINE void for_floats(D, hn::Vec<D> codes, std::size_t first, Body& body) {
    if constexpr (hn::MaxLanes(D()) == kBlockLanes) {
        body(first, hn::ConvertTo(BlockFloats(), hn::PromoteTo(BlockInts(), codes)));
    } else {
        const hn::Half<D> half;
        for_floats(half, hn::LowerHalf(half, codes), first, body);
        for_floats(half, hn::UpperHalf(half, codes), first + hn::MaxLanes(half), body);
    }
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
