// Products of bytes, summed four at a time: what Highway has no name for. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_BYTE_PRODUCTS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_BYTE_PRODUCTS_HPP
#undef HEDDLE_SIMD_BYTE_PRODUCTS_HPP
#else
#define HEDDLE_SIMD_BYTE_PRODUCTS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "simd/extensions.hpp"

#undef HEDDLE_HAS_BYTE_PRODUCTS
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4) || (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
#define HEDDLE_HAS_BYTE_PRODUCTS 1
#else
#define HEDDLE_HAS_BYTE_PRODUCTS 0
#endif

// There may be an instruction for products of all bytes. On Arm it is GCC alone that lets through
// what the CPU it compiles for does not have.
#undef HEDDLE_HAS_FUSED_BYTES
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || \
    (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON && HWY_COMPILER_GCC_ACTUAL)
#define HEDDLE_HAS_FUSED_BYTES 1
#else
#define HEDDLE_HAS_FUSED_BYTES 0
#endif

#if HEDDLE_HAS_BYTE_PRODUCTS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteLanes = hn::ScalableTag<std::uint8_t>;
using WordLanes = hn::ScalableTag<std::int32_t>;

/// Sums of pairs in 16 bits on the way. Exact if no unsigned byte is above 127.
struct PairedBytes {
    static constexpr bool kTakesAllBytes = false;

    /// sum + in each lane the products of four bytes, unsigned by signed.
    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      hn::Vec<WordLanes> other,
                                                      hn::Vec<WordLanes> sum) {
#if HWY_TARGET == HWY_SSE4
        const auto pairs = _mm_maddubs_epi16(bytes.raw, other.raw);
        return hn::Add(sum, hn::Vec<WordLanes>{_mm_madd_epi16(pairs, _mm_set1_epi16(1))});
#elif HWY_TARGET == HWY_AVX2
        const auto pairs = _mm256_maddubs_epi16(bytes.raw, other.raw);
        return hn::Add(sum, hn::Vec<WordLanes>{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
#elif HWY_ARCH_X86
        const auto pairs = _mm512_maddubs_epi16(bytes.raw, other.raw);
        return hn::Add(sum, hn::Vec<WordLanes>{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
#else
        const int8x16_t a = vreinterpretq_s8_u8(bytes.raw), b = vreinterpretq_s8_s32(other.raw);
        const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
        const int16x8_t high = vmull_high_s8(a, b);
        return hn::Vec<WordLanes>(vpadalq_s16(sum.raw, vpaddq_s16(low, high)));
#endif
    }

    /// The same with four signed bytes that all lanes share.
    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      const std::int32_t* four,
                                                      hn::Vec<WordLanes> sum) {
        return multiply_add(bytes, hn::Set(WordLanes(), *four), sum);
    }
};

#if HEDDLE_HAS_FUSED_BYTES && HWY_ARCH_X86
/// One instruction for all of it, on CPUs that have it. Highway's target does not promise it,
/// so the compiler cannot be asked for it by name.
struct FusedBytes {
    static constexpr bool kTakesAllBytes = true;

    static bool is_there() { return has_vnni(); }

    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      hn::Vec<WordLanes> other,
                                                      hn::Vec<WordLanes> sum) {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(bytes.raw), "vm"(other.raw));
        return sum;
    }

    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      const std::int32_t* four,
                                                      hn::Vec<WordLanes> sum) {
        asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(bytes.raw), "m"(*four));
        return sum;
    }
};
#elif HEDDLE_HAS_FUSED_BYTES
// Highway's target promises none of what follows, so the compiler cannot be asked for it by name.
// The assembler must be told that it is meant, without taking back what the compiler allows.
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_DOTPROD)
#define HEDDLE_ARM_EXTRAS ""
#elif defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_SVE)
#define HEDDLE_ARM_EXTRAS ".arch_extension dotprod\n\t.arch_extension i8mm\n\t"
#else
#define HEDDLE_ARM_EXTRAS ".arch armv8.2-a+crypto+dotprod+i8mm\n\t"
#endif

/// Asked once, for kernels that cannot be compiled in two forms.
static const bool kHasDotProducts = has_dot_products();

/// Four products at a time: of unsigned by signed bytes, or else of signed ones only, which is
/// exact if no unsigned byte is above 127.
template <bool kMixesSigns>
struct DotBytes {
    static constexpr bool kTakesAllBytes = kMixesSigns;

    static bool is_there() { return kMixesSigns ? has_mixed_signs() : has_dot_products(); }

    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      hn::Vec<WordLanes> other,
                                                      hn::Vec<WordLanes> sum) {
        if constexpr (kMixesSigns) {
            asm(HEDDLE_ARM_EXTRAS "usdot %0.4s, %1.16b, %2.16b"
                : "+w"(sum.raw)
                : "w"(bytes.raw), "w"(other.raw));
        } else {
            asm(HEDDLE_ARM_EXTRAS "sdot %0.4s, %1.16b, %2.16b"
                : "+w"(sum.raw)
                : "w"(bytes.raw), "w"(other.raw));
        }
        return sum;
    }

    static HWY_INLINE hn::Vec<WordLanes> multiply_add(hn::Vec<ByteLanes> bytes,
                                                      const std::int32_t* four,
                                                      hn::Vec<WordLanes> sum) {
        return multiply_add(bytes, hn::Set(WordLanes(), *four), sum);
    }
};
using SignedBytes = DotBytes<false>;
using FusedBytes = DotBytes<true>;
#undef HEDDLE_ARM_EXTRAS
#endif

/// `use` of the best products that this CPU has for unsigned bytes up to `kMost`: of an
/// object of their type. A default of the result's type if there are none.
template <int kMost, class Use>
auto with_best_products(Use use) -> decltype(use(PairedBytes())) {
#if HEDDLE_HAS_FUSED_BYTES
    if (FusedBytes::is_there()) return use(FusedBytes());
#endif
#if HWY_ARCH_ARM_A64 && HEDDLE_HAS_FUSED_BYTES
    if constexpr (kMost <= 127) {
        if (SignedBytes::is_there()) return use(SignedBytes());
    }
#endif
    if constexpr (kMost <= 127) {
        return use(PairedBytes());
    } else {
        return {};
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
