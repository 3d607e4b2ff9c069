// What GEMV kernels have in common. Included once per instruction set, inside a file that
// is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_GEMV_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_GEMV_LANES_HPP
#undef HEDDLE_CPU_DOT_GEMV_LANES_HPP
#else
#define HEDDLE_CPU_DOT_GEMV_LANES_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/gemv.hpp"
#include "backends/cpu/dot/prefetch.hpp"
#include "simd/pair_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HEDDLE_HAS_BYTE_PRODUCTS

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
/// than a single column the CPU does not run so far ahead by itself.
template <int kColumns, std::size_t kSize>
HWY_INLINE void prefetch_rows(const std::byte* row0, const std::byte* row1, const std::byte* row2) {
    constexpr std::size_t kAhead = 2048;
    if constexpr (kColumns > 1) {
        for (std::size_t i = kAhead; i < kAhead + kSize; i += 64) {
            prefetch_l2(row0 + i);
            prefetch_l2(row1 + i);
            prefetch_l2(row2 + i);
        }
    }
}

#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
