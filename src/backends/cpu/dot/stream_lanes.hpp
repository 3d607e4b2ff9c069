// What kernels for one column have in common. Included once per instruction set, inside a file that
// is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_STREAM_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_STREAM_LANES_HPP
#undef HEDDLE_CPU_DOT_STREAM_LANES_HPP
#else
#define HEDDLE_CPU_DOT_STREAM_LANES_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/fetch.hpp"
#include "backends/cpu/dot/stream.hpp"
#include "simd/byte_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HEDDLE_HAS_BYTE_PRODUCTS

using CodeLanes = hn::ScalableTag<std::int8_t>;
using PairLanes = hn::ScalableTag<std::int16_t>;
using FloatLanes = hn::ScalableTag<float>;
using Quad = hn::FixedTag<float, 4>;

constexpr int kBytes = static_cast<int>(hn::MaxLanes(ByteLanes()));  ///< of a vector

HWY_INLINE hn::Vec<ByteLanes> load_lanes(const std::byte* from) {
    return hn::LoadU(ByteLanes(), reinterpret_cast<const std::uint8_t*>(from));
}

HWY_INLINE hn::Vec<CodeLanes> load_column(const std::int8_t* codes) {
    return hn::LoadU(CodeLanes(), codes);
}

/// Bytes shifted to the right, or to the left by minus `kShift`. Bits cross into their neighbours.
template <int kShift, class D>
HWY_INLINE hn::Vec<D> shifted_right(D d, hn::Vec<D> bytes) {
    const hn::RepartitionToWide<D> words;
    if constexpr (kShift > 0) {
        return hn::BitCast(d, hn::ShiftRight<kShift>(hn::BitCast(words, bytes)));
    } else if constexpr (kShift < 0) {
        return hn::BitCast(d, hn::ShiftLeft<-kShift>(hn::BitCast(words, bytes)));
    } else {
        return bytes;
    }
}

/// Halves that are beside each other in a word.
HWY_INLINE hn::Vec<Quad> four_halves(std::uint64_t bits) {
    hwy::float16_t halves[4];
    std::memcpy(halves, &bits, sizeof halves);
    return hn::PromoteTo(Quad(), hn::LoadU(hn::FixedTag<hwy::float16_t, 4>(), halves));
}

/// The levels that nibbles name.
HWY_INLINE hn::Vec<CodeLanes> look_up_lanes(const std::int8_t (&levels)[16],
                                            hn::Vec<ByteLanes> nibbles) {
    const auto table = hn::LoadDup128(CodeLanes(), levels);
    return hn::TableLookupBytes(table, hn::BitCast(CodeLanes(), nibbles));
}

/// A sum for each of a few columns, from zero on.
template <class D, int kColumns>
struct ColumnSums {
    HWY_INLINE ColumnSums() {
        for (auto& sum : sums) sum = hn::Zero(D());
    }
    HWY_INLINE hn::Vec<D>& operator[](int column) { return sums[column]; }
    HWY_INLINE const hn::Vec<D>& operator[](int column) const { return sums[column]; }

    hn::Vec<D> sums[kColumns];
};

/// Asks for what three rows have further on, as much as is multiplied next. Where there is more
/// than one column the processor does not run so far ahead by itself.
template <int kColumns, std::size_t kSize>
HWY_INLINE void fetch_ahead(const std::byte* row0, const std::byte* row1, const std::byte* row2) {
    constexpr std::size_t kAhead = 2048;
    if constexpr (kColumns > 1) {
        for (std::size_t i = kAhead; i < kAhead + kSize; i += 64) {
            fetch_soon(row0 + i);
            fetch_soon(row1 + i);
            fetch_soon(row2 + i);
        }
    }
}

// ---- products ----------------------------------------------------------------------------------

/// Sums of two products each, of bytes up to 127 and codes of a column.
HWY_INLINE hn::Vec<PairLanes> multiply_pairs(hn::Vec<ByteLanes> bytes, hn::Vec<CodeLanes> column) {
    using Result = hn::Vec<PairLanes>;
#if HWY_TARGET == HWY_SSE4
    return Result{_mm_maddubs_epi16(bytes.raw, column.raw)};
#elif HWY_TARGET == HWY_AVX2
    return Result{_mm256_maddubs_epi16(bytes.raw, column.raw)};
#elif HWY_ARCH_X86
    return Result{_mm512_maddubs_epi16(bytes.raw, column.raw)};
#else
    const int8x16_t a = vreinterpretq_s8_u8(bytes.raw);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(column.raw));
    return Result(vpaddq_s16(low, vmull_high_s8(a, column.raw)));
#endif
}

/// The same for signed bytes: their signs go over to the column. -128 needs codes that are not.
HWY_INLINE hn::Vec<PairLanes> multiply_pairs(hn::Vec<CodeLanes> codes, hn::Vec<CodeLanes> column) {
#if HWY_TARGET == HWY_SSE4
    column.raw = _mm_sign_epi8(column.raw, codes.raw);
#elif HWY_TARGET == HWY_AVX2
    column.raw = _mm256_sign_epi8(column.raw, codes.raw);
#elif HWY_ARCH_X86
    const __mmask64 negative = _mm512_movepi8_mask(codes.raw);
    column.raw = _mm512_mask_sub_epi8(column.raw, negative, _mm512_setzero_si512(), column.raw);
#endif
#if HWY_ARCH_X86
    return multiply_pairs(hn::BitCast(ByteLanes(), hn::Abs(codes)), column);
#else
    return multiply_pairs(hn::BitCast(ByteLanes(), codes), column);
#endif
}

/// What becomes of pairs.
struct Pairs {
    /// sum + in each lane the two pairs that lie there.
    static HWY_INLINE hn::Vec<WordLanes> add(hn::Vec<PairLanes> pairs, hn::Vec<WordLanes> sum) {
#if HWY_ARCH_X86
        return add_scaled(pairs, hn::Set(PairLanes(), 1), sum);
#else
        return hn::Vec<WordLanes>(vpadalq_s16(sum.raw, pairs.raw));
#endif
    }

    /// sum + in each lane two pairs, each times its scale. On Arm they are from both halves of the
    /// vector.
    static HWY_INLINE hn::Vec<WordLanes> add_scaled(hn::Vec<PairLanes> pairs,
                                                    hn::Vec<PairLanes> scales,
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
/// One instruction, on processors that have `FusedBytes`.
struct FusedPairs {
    static HWY_INLINE hn::Vec<WordLanes> add_scaled(hn::Vec<PairLanes> pairs,
                                                    hn::Vec<PairLanes> scales,
                                                    hn::Vec<WordLanes> sum) {
        asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(pairs.raw), "v"(scales.raw));
        return sum;
    }
};
#endif

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
