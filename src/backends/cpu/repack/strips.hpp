// Strips of repacked rows, multiplied by tiles of columns. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
//
// A format turns its blocks into codes, sixteen or 32 elements (a group) with one scale at a time,
// and hands them on to a sink.
#if defined(HEDDLE_CPU_REPACK_STRIPS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_STRIPS_HPP
#undef HEDDLE_CPU_REPACK_STRIPS_HPP
#else
#define HEDDLE_CPU_REPACK_STRIPS_HPP
#endif

#include <type_traits>
#include <utility>

#include "backends/cpu/dot/fetch.hpp"
#include "backends/cpu/repack/sinks.hpp"
#include "backends/cpu/repack/strip_kernel.hpp"

#if HEDDLE_HAS_REPACK
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A block of a strip, for as many rows as a vector has lanes. Fields are named by the bytes of a
/// row that come before them; that of `Format::kLast` bytes, which changes its place, is in
/// `units`.
struct Place {
    const std::byte* block;
    const std::byte* units;  ///< of scales
    int row;

    template <class Format>
    static HWY_INLINE Place of(const std::byte* from, std::int64_t number, int row) {
        // Formats without such a field begin with the units of their scales.
        if constexpr (Format::kLast == 0) return {from, from, row};
        constexpr std::int64_t kSize = sizeof(typename Format::Block) - Format::kLast;
        if (number % 2 != 0) return {from + Format::kLast * kRepackRows, from, row};
        return {from, from + kSize * kRepackRows, row};
    }

    HWY_INLINE ByteVec words(int field, int i) const {
        const std::byte* from = block + field * kRepackRows + 4 * (kRepackRows * i + row);
        return hn::LoadU(ByteLanes(), reinterpret_cast<const std::uint8_t*>(from));
    }
    HWY_INLINE RowVec unit_halves(int i) const {
        return load_f16(RowLanes(), units + 2 * (kRepackRows * i + row));
    }
    HWY_INLINE WordVec unit_bytes() const {
        const hn::Rebind<std::uint8_t, WordLanes> lanes;
        const auto* from = reinterpret_cast<const std::uint8_t*>(units + row);
        return hn::PromoteTo(WordLanes(), hn::LoadU(lanes, from));
    }
    /// Bytes as whole numbers.
    template <class Byte>
    HWY_INLINE WordVec bytes(int field, int i) const {
        const hn::Rebind<Byte, WordLanes> lanes;
        const std::byte* from = block + field * kRepackRows + kRepackRows * i + row;
        return hn::PromoteTo(WordLanes(), hn::LoadU(lanes, reinterpret_cast<const Byte*>(from)));
    }
};

/// Bits `kFirst` and up of each byte, as many as `mask` has.
template <int kFirst>
HWY_INLINE ByteVec bits_of(ByteVec bytes, std::uint8_t mask) {
    const hn::ScalableTag<std::uint16_t> pairs;
    const auto moved = hn::ShiftRight<kFirst>(hn::BitCast(pairs, bytes));
    return hn::And(hn::BitCast(ByteLanes(), moved), hn::Set(ByteLanes(), mask));
}

// ---- rows --------------------------------------------------------------------------------------

/// Asks for what is read a little later. With one or two columns the processor does as well by
/// itself.
template <std::size_t kSize>
HWY_INLINE void fetch_ahead(const std::byte* from) {
    constexpr std::size_t kAhead = 8192;
    for (std::size_t i = 0; i < kSize; i += 64) fetch_soon(from + kAhead + i);
}

/// Adds the products of `count` elements to those in `sinks`.
template <class Format, class Sum, int kColumns>
HWY_INLINE void multiply_blocks(const std::byte* rows, const std::int32_t* tile, std::int64_t count,
                                StraightSink<Format, Sum, kColumns> (&sinks)[kLaneGroups]) {
    for (std::int64_t i = 0; i < count; i += Format::kElements) {
        if constexpr (kColumns >= kNarrowTile) {
            fetch_ahead<sizeof(typename Format::Block) * kRepackRows>(rows);
        }
        unrolled<kLaneGroups>([&](auto g) HWY_ATTR {
            sinks[g].tile = tile;
            const auto place = Place::of<Format>(rows, i / Format::kElements, g * kLaneRows);
            Format::unpack(place, sinks[g]);
        });
        tile += Format::kElements / 32 * kColumnWords<Format> * kColumns;
        rows += sizeof(typename Format::Block) * kRepackRows;
    }
}

/// Straight from the repacked rows: each byte of them is read once.
template <class Format, class Sum, int kColumns>
HWY_FLATTEN void multiply_strip(const std::byte* rows, const std::int32_t* tile, std::int64_t count,
                                float* const* out, bool add) {
    StraightSink<Format, Sum, kColumns> sinks[kLaneGroups];
    multiply_blocks<Format, Sum, kColumns>(rows, tile, count, sinks);
    for (int g = 0; g < kLaneGroups; ++g) sinks[g].write(out, g * kLaneRows, add);
}

/// The same for several strips and one column, a piece of each strip in turn.
template <class Format, class Sum>
HWY_FLATTEN void multiply_in_turns(const std::byte* const* rows, const std::byte* column,
                                   std::int64_t count, float* const* out) {
    constexpr std::int64_t kPiece = 256;  // longer ones leave memory waiting
    const auto* tile = reinterpret_cast<const std::int32_t*>(column);
    HWY_ALIGN float totals[kStripsInTurns][kRepackRows] = {};
    std::size_t offset = 0;
    for (std::int64_t i = 0; i < count; i += kPiece) {
        const std::int64_t length = HWY_MIN(kPiece, count - i);
        for (int s = 0; s < kStripsInTurns; ++s) {
            StraightSink<Format, Sum, 1> sinks[kLaneGroups];
            for (int g = 0; g < kLaneGroups; ++g) {
                sinks[g].total[0] = hn::Load(RowLanes(), totals[s] + g * kLaneRows);
            }
            multiply_blocks<Format, Sum, 1>(rows[s] + offset, tile, length, sinks);
            float* const to = totals[s];
            for (int g = 0; g < kLaneGroups; ++g) sinks[g].write(&to, g * kLaneRows, false);
        }
        tile += length / 32 * kColumnWords<Format>;
        offset += static_cast<std::size_t>(length / Format::kElements) *
                  sizeof(typename Format::Block) * kRepackRows;
    }
    for (int s = 0; s < kStripsInTurns; ++s) std::memcpy(out[s], totals[s], sizeof totals[s]);
}

template <class Format, class Sum>
void multiply_few(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                  float* const* out, bool add) {
    const auto* tile = reinterpret_cast<const std::int32_t*>(columns);
    if (width == 1) return multiply_strip<Format, Sum, 1>(rows, tile, count, out, add);
    if (width == 2) return multiply_strip<Format, Sum, 2>(rows, tile, count, out, add);
    if constexpr (kTileColumns > kNarrowTile) {
        if (width == kMediumColumns) {
            return multiply_strip<Format, Sum, kMediumColumns>(rows, tile, count, out, add);
        }
        if (width == kTileColumns) {
            return multiply_strip<Format, Sum, kTileColumns>(rows, tile, count, out, add);
        }
    }
    multiply_strip<Format, Sum, kNarrowTile>(rows, tile, count, out, add);
}

// ---- many columns ------------------------------------------------------------------------------

static_assert(kRepackRows % kCodeRows == 0 && kCodeLanes == kLaneRows);

/// `count` elements of sixteen rows, as strips for products that lie `pitch` words apart. Asks for
/// what is `ahead` bytes further on.
template <class Format, class Products>
HWY_FLATTEN void unpack_strip(const std::byte* rows, std::int64_t count, std::size_t ahead,
                              std::uint32_t* to, std::int64_t pitch) {
    constexpr std::size_t kSize = sizeof(typename Format::Block) * kRepackRows;
    for (std::int64_t i = 0; i < count; i += Format::kElements) {
        for (std::size_t at = 0; at < kSize; at += 64) fetch_soon(rows + ahead + at);
        for (std::int64_t row = 0; row < kRepackRows; row += kLaneRows) {
            Storing<Format, Products> sink{{to + row / kCodeRows * pitch, row % kCodeRows}};
            Format::unpack(Place::of<Format>(rows, i / Format::kElements, static_cast<int>(row)),
                           sink);
        }
        to += Format::kElements / 32 * CodeLayout<Format, Products>::kRowWords;
        rows += kSize;
    }
}

/// Up to sixteen rows, a strip of repacked ones: see `StripKernel::pack_rows`.
template <class Format, class Products>
void unpack_rows(const Panel& panel, std::int64_t begin, std::int64_t count, std::byte* to) {
    constexpr std::int64_t kPiece = 256;
    constexpr std::size_t kSize = sizeof(typename Format::Block);
    constexpr std::int64_t kWords = CodeLayout<Format, Products>::kRowWords;
    auto* words = reinterpret_cast<std::uint32_t*>(to);
    const std::int64_t pitch = count / 32 * kWords;
    const std::int64_t present = HWY_MIN(panel.count, kRepackRows);
    const auto at = [&](std::int64_t element) {
        return panel.rows + static_cast<std::size_t>(element / Format::kElements * present) * kSize;
    };
    if (present == kRepackRows) {
        const std::size_t next = panel.pitch * kRepackRows;  // the same elements of the next strip
        return unpack_strip<Format, Products>(at(begin), count, next, words, pitch);
    }
    for (std::int64_t i = 0; i < count; i += kPiece, words += kPiece / 32 * kWords) {
        const std::int64_t length = HWY_MIN(kPiece, count - i);
        alignas(64) std::byte wide[kPiece / Format::kElements * kRepackRows * kSize];
        widen_strip(*repack_layout_of(panel.type), at(begin + i), length / Format::kElements, wide);
        unpack_strip<Format, Products>(wide, length, 0, words, pitch);
    }
}

/// Sixteen rows may be several strips of products.
template <class Format, class Products>
void multiply_unpacked(const std::byte* rows, const std::byte* columns, std::int64_t count,
                       int width, float* const* out, bool add) {
    if constexpr (kCodeRows == kRepackRows) {
        return multiply_code_strips<Format, Products>(rows, columns, count, width, out, add);
    }
    float* to[kCodeColumns];
    for (std::int64_t row = 0; row < kRepackRows; row += kCodeRows) {
        for (int c = 0; c < kCodeColumns; ++c) to[c] = out[c] + row;
        multiply_code_strips<Format, Products>(rows, columns, count, width, to, add);
        rows += count / 32 * 4 * CodeLayout<Format, Products>::kRowWords;
    }
}

// ---- rows of a family's list -------------------------------------------------------------------

template <class Format, class Sum, class Products>
RepackKernel kernel_with() {
    using Layout = CodeLayout<Format, Products>;
    static_assert(Layout::kOffset == Format::kOffset, "both ways take the same codes");
    constexpr std::size_t kRowBytes = 4 * Layout::kRowWords / kCodeRows;
    constexpr std::size_t kColumnBytes = 4 * Layout::kColumnWords / kCodeColumns;
    static_assert(4 * kColumnWords<Format> <= kMostColumnBytes && kColumnBytes <= kMostColumnBytes);
    static_assert(kTileColumns <= kRepackColumns && kCodeColumns <= kRepackColumns);
    static_assert(kRowBytes <= kMostRowBytes && kCodeDepth <= kRepackDepth);
    return {.columns = kTileColumns,
            .medium = kMediumColumns,
            .straight_columns = kStraightColumns,
            .column_bytes = 4 * kColumnWords<Format>,
            .put_column = put_tile_column<Format>,
            .multiply = multiply_few<Format, Sum>,
            .multiply_in_turns = multiply_in_turns<Format, Sum>,
            .strips = {.rows = kRepackRows,
                       .columns = kCodeColumns,
                       .depth = kCodeDepth,
                       .row_bytes = kRowBytes,
                       .column_bytes = kColumnBytes,
                       .pack_rows = unpack_rows<Format, Products>,
                       .put_column = put_codes<Format, Products>,
                       .multiply = multiply_unpacked<Format, Products>}};
}

/// The kernel of a format, which hands on signed codes if it is told so.
template <template <bool> class Format>
RepackKernel strip_kernel() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // Without the instruction rows are as well read where they are.
    if (!FusedBytes::is_there()) return {};
    return kernel_with<Format<false>, FusedSum, DirectProducts<FusedBytes> >();
#else
    constexpr bool kIsSigned = Format<false>::kMostCode > 127;
#if HWY_ARCH_X86
    if constexpr (kIsSigned) {
        return kernel_with<Format<true>, SignedSum, WideProducts>();
    } else {
        return kernel_with<Format<false>, PairedSum<Format<false>::kMostCode>, PairProducts>();
    }
#else
#if HEDDLE_HAS_FUSED_BYTES
    if (SignedBytes::is_there()) {
        return kernel_with<Format<kIsSigned>, SignedSum<SignedBytes>,
                           DirectProducts<SignedBytes> >();
    }
#endif
    return kernel_with<Format<kIsSigned>, SignedSum<PairedBytes>, DirectProducts<PairedBytes> >();
#endif
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
