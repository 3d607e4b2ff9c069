// What kernels over strips have in common. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_STRIP_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_STRIP_LANES_HPP
#undef HEDDLE_CPU_DOT_STRIP_LANES_HPP
#else
#define HEDDLE_CPU_DOT_STRIP_LANES_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/strips.hpp"

// Sums stand in arrays, which vectors of unknown size cannot; and without vectors strips do not
// pay.
#undef HEDDLE_HAS_STRIPS
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define HEDDLE_HAS_STRIPS 0
#else
#define HEDDLE_HAS_STRIPS 1
#endif

#if HEDDLE_HAS_STRIPS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Columns of a strip: as many as leave a few registers for something else.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kStripWidth = 6;  // of 16 registers
#else
constexpr int kStripWidth = 12;  // of 32
#endif
static_assert(kStripColumns % kStripWidth == 0);

/// Stores four vectors of four lanes the other way round: lane i of each at `to + i * pitch`.
template <class D>
HWY_INLINE void store_transposed(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3,
                                 hn::TFromD<D>* to, std::int64_t pitch) {
    static_assert(hn::MaxLanes(D()) == 4);
    const hn::FixedTag<std::uint64_t, 2> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + pitch);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * pitch);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * pitch);
}

/// Asks for what is packed next. Not into the first cache: rows often lie a power of two apart, and
/// would drive each other out of it.
HWY_INLINE void fetch_rows(const std::byte* from) {
#if defined(__GNUC__)
    __builtin_prefetch(from, 0, 2);
#else
    hwy::Prefetch(from);
#endif
}

/// Asks for the results that will be added to when the products are done.
template <int kColumns>
HWY_INLINE void fetch_results(const float* const* out, std::int64_t rows) {
    for (int c = 0; c < kColumns; ++c) {
        for (std::int64_t r = 0; r < rows; r += 16) hwy::Prefetch(out[c] + r);
    }
}

/// Puts a sum into its place.
template <class D>
HWY_INLINE void put_sum(D d, hn::Vec<D> sum, float* to, bool add) {
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), sum) : sum, d, to);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
