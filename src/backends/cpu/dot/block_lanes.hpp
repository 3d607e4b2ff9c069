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

#include "simd/rounding.hpp"

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
