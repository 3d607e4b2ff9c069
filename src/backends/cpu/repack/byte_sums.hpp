// Sums of products of bytes with one lane per row: four bytes of a row at a time, by four bytes of
// a column that all lanes share. Included once per instruction set, inside a file that is compiled
// by foreach_target.h.
#if defined(HEDDLE_CPU_REPACK_BYTE_SUMS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_BYTE_SUMS_HPP
#undef HEDDLE_CPU_REPACK_BYTE_SUMS_HPP
#else
#define HEDDLE_CPU_REPACK_BYTE_SUMS_HPP
#endif

#include "backends/cpu/repack/repacked_block.hpp"
#include "simd/pair_products.hpp"

#if HEDDLE_HAS_REPACK
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WordVec = hn::Vec<WordLanes>;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
/// Unsigned codes, by the one instruction for it.
struct FusedSum {
    static constexpr bool kIsSigned = false;
    WordVec words;

    HWY_INLINE FusedSum() : words(hn::Zero(WordLanes())) {}

    HWY_INLINE void add(int, ByteVec bytes, const std::int32_t* four) {
        words = FusedBytes::multiply_add(bytes, four, words);
    }
    HWY_INLINE WordVec get(int) const { return words; }
};
#endif

#if HWY_ARCH_X86
/// Unsigned codes of at most `kMostCode`, 127 or less. Products are summed in 16 bits as long as
/// none can overflow.
template <int kMostCode>
struct PairedSum {
    static constexpr bool kIsSigned = false;
    static constexpr int kFit = 32767 / (2 * kMostCode * 128);
    static constexpr int kRun = kFit >= 8 ? 8 : kFit >= 4 ? 4 : kFit >= 2 ? 2 : 1;

    WordVec words;
    PairVec pairs;

    HWY_INLINE PairedSum() : words(hn::Zero(WordLanes())), pairs(hn::Zero(PairLanes())) {}

    /// `number` counts what has been added to this sum; there are 4 or 8 in all.
    HWY_INLINE void add(int number, ByteVec bytes, const std::int32_t* four) {
        const auto other = hn::Set(WordLanes(), *four);
        const PairVec products = multiply_bytes(bytes, other);
        pairs = number % kRun == 0 ? products : hn::Add(pairs, products);
        if (number % kRun == kRun - 1) flush();
    }
    /// With 4 in all and runs of 8 what is left is not in yet.
    HWY_INLINE WordVec get(int count) {
        if (count % kRun != 0) flush();
        return words;
    }

private:
    HWY_INLINE void flush() {
        words = hn::Add(words, multiply_pairs(pairs, hn::Set(PairLanes(), 1)));
    }
};
#endif

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
/// Signed codes.
struct SignedSum {
    static constexpr bool kIsSigned = true;
    WordVec words;

    HWY_INLINE SignedSum() : words(hn::Zero(WordLanes())) {}

    HWY_INLINE void add(int, ByteVec bytes, const std::int32_t* four) {
        // The sign goes to the other factor, which is never -128.
        const auto other = hn::BitCast(CodeLanes(), hn::Set(WordLanes(), *four));
        const PairVec pairs = multiply_bytes(hn::BitCast(CodeLanes(), bytes), other);
        words = hn::Add(words, multiply_pairs(pairs, hn::Set(PairLanes(), 1)));
    }
    HWY_INLINE WordVec get(int) const { return words; }
};
#elif !HWY_ARCH_X86
/// Signed codes, by products that take their bytes for signed ones too.
template <class Products>
struct SignedSum {
    static constexpr bool kIsSigned = true;
    WordVec words;

    HWY_INLINE SignedSum() : words(hn::Zero(WordLanes())) {}

    HWY_INLINE void add(int, ByteVec bytes, const std::int32_t* four) {
        words = Products::multiply_add(bytes, four, words);
    }
    HWY_INLINE WordVec get(int) const { return words; }
};
#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
