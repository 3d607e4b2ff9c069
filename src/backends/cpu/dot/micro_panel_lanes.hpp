// What kernels over micro-panels have in common. Included once per instruction set, inside a file
// that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_MICRO_PANEL_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_MICRO_PANEL_LANES_HPP
#undef HEDDLE_CPU_DOT_MICRO_PANEL_LANES_HPP
#else
#define HEDDLE_CPU_DOT_MICRO_PANEL_LANES_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "backends/cpu/dot/gemm.hpp"
#include "backends/cpu/dot/prefetch.hpp"

// Sums stand in arrays, which vectors of unknown size cannot; and without vectors micro-panels do
// not pay.
#undef HEDDLE_HAS_MICRO_PANELS
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define HEDDLE_HAS_MICRO_PANELS 0
#else
#define HEDDLE_HAS_MICRO_PANELS 1
#endif

#if HEDDLE_HAS_MICRO_PANELS
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Columns of a micro-panel: as many as leave a few registers for something else.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kMicroPanelWidth = 6;  // of 16 registers
#else
constexpr int kMicroPanelWidth = 12;  // of 32
#endif
static_assert(kMicroPanelColumns % kMicroPanelWidth == 0);

/// Four vectors of blocks of four lanes, the other way round: lane i of each block is in vector i.
template <class D>
HWY_INLINE void transpose(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3,
                          hn::Vec<D> (&to)[4]) {
    static_assert(sizeof(hn::TFromD<D>) == 4);
    const hn::Repartition<std::uint64_t, D> pairs;
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v0, v1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v2, v3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v0, v1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v2, v3));
    to[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
    to[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
    to[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
    to[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

/// The same, vector i at `to + i * pitch`.
template <class D>
HWY_INLINE void store_transposed(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3,
                                 hn::TFromD<D>* to, std::int64_t pitch) {
    hn::Vec<D> vectors[4];
    transpose(d, v0, v1, v2, v3, vectors);
    HWY_UNROLL(4)
    for (int i = 0; i < 4; ++i) hn::StoreU(vectors[i], d, to + i * pitch);
}

/// Places of all rows of a micro-panel, `pitch` bytes apart.
struct MicroPanelRows {
    const std::byte* first;
    std::size_t pitch;

    HWY_INLINE const std::byte* row(std::int64_t r) const {
        return first + static_cast<std::size_t>(r) * pitch;
    }
    HWY_INLINE MicroPanelRows operator+(std::size_t offset) const {
        return {first + offset, pitch};
    }
};

/// Blocks at the same place of every fourth row, from row `k` on: what four vectors of these hold
/// turns into vectors with a lane per row by a transposition inside of sixteens.
struct RowBlocks : MicroPanelRows {
    HWY_INLINE RowBlocks(MicroPanelRows rows, int k)
        : MicroPanelRows{rows.row(k), 4 * rows.pitch} {}
    HWY_INLINE explicit RowBlocks(MicroPanelRows rows) : MicroPanelRows(rows) {}

    HWY_INLINE RowBlocks operator+(std::size_t offset) const {
        return RowBlocks(MicroPanelRows::operator+(offset));
    }
};

template <class Load>
HWY_INLINE hn::Vec<hn::ScalableTag<std::uint8_t> > for_each_row(const RowBlocks& from, Load load) {
    const auto row = [&](int i) HWY_ATTR { return load(from.row(i)); };
#if HWY_MAX_BYTES == 16
    return row(0);
#else
    const hn::FixedTag<std::uint8_t, 32> two;
    const auto first = hn::Combine(two, row(1), row(0));
#if HWY_MAX_BYTES == 32
    return first;
#else
    return hn::Combine(hn::ScalableTag<std::uint8_t>(), hn::Combine(two, row(3), row(2)), first);
#endif
#endif
}

HWY_INLINE hn::Vec<hn::ScalableTag<std::uint8_t> > load_bytes(const RowBlocks& from) {
    return for_each_row(from, [](const std::byte* row) HWY_ATTR {
        return hn::LoadU(hn::FixedTag<std::uint8_t, 16>(),
                         reinterpret_cast<const std::uint8_t*>(row));
    });
}

/// Sixteen bytes of each row, as four vectors with a word of every row.
template <class D>
HWY_INLINE void load_transposed(D words, MicroPanelRows rows, hn::Vec<D> (&to)[4]) {
    const auto load = [&](int k)
                          HWY_ATTR { return hn::BitCast(words, load_bytes(RowBlocks(rows, k))); };
    transpose(words, load(0), load(1), load(2), load(3), to);
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
