// Products of bytes and of words, summed two at a time. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_PAIR_PRODUCTS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_PAIR_PRODUCTS_HPP
#undef HEDDLE_SIMD_PAIR_PRODUCTS_HPP
#else
#define HEDDLE_SIMD_PAIR_PRODUCTS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "simd/byte_products.hpp"

#if HEDDLE_HAS_BYTE_PRODUCTS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using CodeLanes = hn::ScalableTag<std::int8_t>;
using PairLanes = hn::ScalableTag<std::int16_t>;
using PairVec = hn::Vec<PairLanes>;

// ---- bytes --------------------------------------------------------------------------------------

/// Sums of two neighbouring products each, of unsigned bytes up to 127 and signed ones.
HWY_INLINE PairVec multiply_bytes(hn::Vec<ByteLanes> bytes, hn::Vec<CodeLanes> codes) {
#if HWY_TARGET == HWY_SSE4
    return PairVec{_mm_maddubs_epi16(bytes.raw, codes.raw)};
#elif HWY_TARGET == HWY_AVX2
    return PairVec{_mm256_maddubs_epi16(bytes.raw, codes.raw)};
#elif HWY_ARCH_X86
    return PairVec{_mm512_maddubs_epi16(bytes.raw, codes.raw)};
#else
    const int8x16_t a = vreinterpretq_s8_u8(bytes.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(codes.raw));
    return PairVec(vpaddq_s16(low, vmull_high_s8(a, codes.raw)));
#endif
}

/// The same with signed bytes that stand in words.
HWY_INLINE PairVec multiply_bytes(hn::Vec<ByteLanes> bytes, hn::Vec<WordLanes> codes) {
    return multiply_bytes(bytes, hn::BitCast(CodeLanes(), codes));
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
/// Codes, negative where bits are set.
HWY_INLINE hn::Vec<CodeLanes> negated(hn::Vec<CodeLanes> codes, std::uint64_t bits) {
    codes.raw = _mm512_mask_sub_epi8(codes.raw, bits, _mm512_setzero_si512(), codes.raw);
    return codes;
}
#endif

/// The same for signed bytes: their signs go over to the others. -128 needs others that are not.
HWY_INLINE PairVec multiply_bytes(hn::Vec<CodeLanes> bytes, hn::Vec<CodeLanes> codes) {
#if HWY_TARGET == HWY_SSE4
    codes.raw = _mm_sign_epi8(codes.raw, bytes.raw);
#elif HWY_TARGET == HWY_AVX2
    codes.raw = _mm256_sign_epi8(codes.raw, bytes.raw);
#elif HWY_ARCH_X86
    codes = negated(codes, _mm512_movepi8_mask(bytes.raw));
#endif
#if HWY_ARCH_X86
    return multiply_bytes(hn::BitCast(ByteLanes(), hn::Abs(bytes)), codes);
#else
    return multiply_bytes(hn::BitCast(ByteLanes(), bytes), codes);
#endif
}

// ---- words of 16 bits ---------------------------------------------------------------------------

#if HWY_ARCH_X86
/// Sums of two neighbouring products each.
HWY_INLINE hn::Vec<WordLanes> multiply_pairs(PairVec a, PairVec b) {
#if HWY_TARGET == HWY_SSE4
    return hn::Vec<WordLanes>{_mm_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
    return hn::Vec<WordLanes>{_mm256_madd_epi16(a.raw, b.raw)};
#else
    return hn::Vec<WordLanes>{_mm512_madd_epi16(a.raw, b.raw)};
#endif
}
#endif

/// What becomes of pairs.
struct Pairs {
    /// sum + in each lane the two pairs that lie there.
    static HWY_INLINE hn::Vec<WordLanes> add(PairVec pairs, hn::Vec<WordLanes> sum) {
#if HWY_ARCH_X86
        return add_scaled(pairs, hn::Set(PairLanes(), 1), sum);
#else
        return hn::Vec<WordLanes>(vpadalq_s16(sum.raw, pairs.raw));
#endif
    }

    /// sum + in each lane two pairs, each times its scale. On Arm they are from both halves of the
    /// vector.
    static HWY_INLINE hn::Vec<WordLanes> add_scaled(PairVec pairs, PairVec scales,
                                                    hn::Vec<WordLanes> sum) {
#if HWY_ARCH_X86
        auto rest = hn::Zero(WordLanes());
        return hn::ReorderWidenMulAccumulate(WordLanes(), pairs, scales, sum, rest);
#else
        sum.raw = vmlal_s16(sum.raw, vget_low_s16(pairs.raw), vget_low_s16(scales.raw));
        return hn::Vec<WordLanes>(vmlal_high_s16(sum.raw, pairs.raw, scales.raw));
#endif
    }
};

#if HEDDLE_HAS_FUSED_BYTES && HWY_ARCH_X86
/// One instruction, on CPUs that have `FusedBytes`.
struct FusedPairs {
    static HWY_INLINE hn::Vec<WordLanes> add_scaled(PairVec pairs, PairVec scales,
                                                    hn::Vec<WordLanes> sum) {
        asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(pairs.raw), "v"(scales.raw));
        return sum;
    }

    /// With two scales that all lanes share.
    static HWY_INLINE hn::Vec<WordLanes> add_scaled(PairVec pairs, const std::int32_t& scales,
                                                    hn::Vec<WordLanes> sum) {
        asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(pairs.raw), "m"(scales));
        return sum;
    }
};
#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
