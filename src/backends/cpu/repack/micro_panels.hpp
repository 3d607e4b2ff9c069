// Micro-panels of repacked rows, multiplied by tiles of columns. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
//
// A format turns its blocks into codes, sixteen or 32 elements (a group) with one scale at a time,
// and hands them on to a sink.
#if defined(HEDDLE_CPU_REPACK_MICRO_PANELS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_MICRO_PANELS_HPP
#undef HEDDLE_CPU_REPACK_MICRO_PANELS_HPP
#else
#define HEDDLE_CPU_REPACK_MICRO_PANELS_HPP
#endif

#include <type_traits>
#include <utility>

#include "backends/cpu/dot/prefetch.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"
#include "backends/cpu/repack/sinks.hpp"

#if HEDDLE_HAS_REPACK
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- rows --------------------------------------------------------------------------------------

/// Asks for what is read a little later. With one or two columns the CPU does as well by
/// itself.
template <std::size_t kSize>
HWY_INLINE void prefetch_rows(const std::byte* from) {
    constexpr std::size_t kAhead = 8192;
    for (std::size_t i = 0; i < kSize; i += 64) prefetch_l2(from + kAhead + i);
}

/// Adds the products of `count` elements to those in `sinks`.
template <class Format, class Sum, int kColumns>
HWY_INLINE void multiply_blocks(const std::byte* rows, const std::int32_t* tile, std::int64_t count,
                                StraightSink<Format, Sum, kColumns> (&sinks)[kLaneGroups]) {
    for (std::int64_t i = 0; i < count; i += Format::kElements) {
        if constexpr (kColumns >= kNarrowTile) {
            prefetch_rows<sizeof(typename Format::Block) * kRepackRows>(rows);
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
HWY_FLATTEN void multiply_micro_panel(const std::byte* rows, const std::int32_t* tile,
                                      std::int64_t count, float* const* out, bool add) {
    StraightSink<Format, Sum, kColumns> sinks[kLaneGroups];
    multiply_blocks<Format, Sum, kColumns>(rows, tile, count, sinks);
    for (int g = 0; g < kLaneGroups; ++g) sinks[g].write(out, g * kLaneRows, add);
}

/// The same for several micro-panels and a single column, a piece of each micro-panel in turn.
template <class Format, class Sum>
HWY_FLATTEN void multiply_interleaved(const std::byte* const* rows, const std::byte* column,
                                      std::int64_t count, float* const* out) {
    constexpr std::int64_t kPiece = 256;  // longer ones leave memory waiting
    const auto* tile = reinterpret_cast<const std::int32_t*>(column);
    HWY_ALIGN float totals[kInterleavedMicroPanels][kRepackRows] = {};
    std::size_t offset = 0;
    for (std::int64_t i = 0; i < count; i += kPiece) {
        const std::int64_t length = HWY_MIN(kPiece, count - i);
        for (int s = 0; s < kInterleavedMicroPanels; ++s) {
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
    for (int s = 0; s < kInterleavedMicroPanels; ++s)
        std::memcpy(out[s], totals[s], sizeof totals[s]);
}

template <class Format, class Sum>
void multiply_few(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                  float* const* out, bool add) {
    const auto* tile = reinterpret_cast<const std::int32_t*>(columns);
    if (width == 1) return multiply_micro_panel<Format, Sum, 1>(rows, tile, count, out, add);
    if (width == 2) return multiply_micro_panel<Format, Sum, 2>(rows, tile, count, out, add);
    if constexpr (kTileColumns > kNarrowTile) {
        if (width == kMediumColumns) {
            return multiply_micro_panel<Format, Sum, kMediumColumns>(rows, tile, count, out, add);
        }
        if (width == kTileColumns) {
            return multiply_micro_panel<Format, Sum, kTileColumns>(rows, tile, count, out, add);
        }
    }
    multiply_micro_panel<Format, Sum, kNarrowTile>(rows, tile, count, out, add);
}

// ---- many columns ------------------------------------------------------------------------------

static_assert(kRepackRows % kCodeRows == 0 && kCodeLanes == kLaneRows);

/// `count` elements of sixteen rows, as micro-panels for products that lie `pitch` words apart.
/// Asks for what is `ahead` bytes further on.
template <class Format, class Products>
HWY_FLATTEN void unpack_micro_panel(const std::byte* rows, std::int64_t count, std::size_t ahead,
                                    std::uint32_t* to, std::int64_t pitch) {
    constexpr std::size_t kSize = sizeof(typename Format::Block) * kRepackRows;
    for (std::int64_t i = 0; i < count; i += Format::kElements) {
        for (std::size_t at = 0; at < kSize; at += 64) prefetch_l2(rows + ahead + at);
        for (std::int64_t row = 0; row < kRepackRows; row += kLaneRows) {
            Storing<Format, Products> sink{{to + row / kCodeRows * pitch, row % kCodeRows}};
            Format::unpack(Place::of<Format>(rows, i / Format::kElements, static_cast<int>(row)),
                           sink);
        }
        to += Format::kElements / 32 * CodeLayout<Format, Products>::kRowWords;
        rows += kSize;
    }
}

/// Up to sixteen rows, a micro-panel of repacked ones: see `GemmKernel::pack_rows`.
template <class Format, class Products>
void unpack_rows(const MatrixView& view, std::int64_t begin, std::int64_t count, std::byte* to) {
    constexpr std::int64_t kPiece = 256;
    constexpr std::size_t kSize = sizeof(typename Format::Block);
    constexpr std::int64_t kWords = CodeLayout<Format, Products>::kRowWords;
    auto* words = reinterpret_cast<std::uint32_t*>(to);
    const std::int64_t pitch = count / 32 * kWords;
    const std::int64_t present = HWY_MIN(view.count, kRepackRows);
    const auto at = [&](std::int64_t element) {
        return view.rows + static_cast<std::size_t>(element / Format::kElements * present) * kSize;
    };
    if (present == kRepackRows) {
        const std::size_t next =
            view.pitch * kRepackRows;  // the same elements of the next micro-panel
        return unpack_micro_panel<Format, Products>(at(begin), count, next, words, pitch);
    }
    for (std::int64_t i = 0; i < count; i += kPiece, words += kPiece / 32 * kWords) {
        const std::int64_t length = HWY_MIN(kPiece, count - i);
        alignas(64) std::byte wide[kPiece / Format::kElements * kRepackRows * kSize];
        widen_micro_panel(*repack_layout_of(view.type), at(begin + i), length / Format::kElements,
                          wide);
        unpack_micro_panel<Format, Products>(wide, length, 0, words, pitch);
    }
}

/// Sixteen rows may be several micro-panels of products.
template <class Format, class Products>
void multiply_unpacked(const std::byte* rows, const std::byte* columns, std::int64_t count,
                       int width, float* const* out, bool add) {
    if constexpr (kCodeRows == kRepackRows) {
        return multiply_codes<Format, Products>(rows, columns, count, width, out, add);
    }
    float* to[kCodeColumns];
    for (std::int64_t row = 0; row < kRepackRows; row += kCodeRows) {
        for (int c = 0; c < kCodeColumns; ++c) to[c] = out[c] + row;
        multiply_codes<Format, Products>(rows, columns, count, width, to, add);
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
            .multiply_interleaved = multiply_interleaved<Format, Sum>,
            .micro_panels = {.rows = kRepackRows,
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
RepackKernel repack_kernel() {
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

namespace {

/// Repacked formats, once more for each file: compilers inline what no other file can call, and a
/// single column of super-blocks is a tenth slower where they do not.
template <class Format>
struct InThisFile {
    template <bool kIsSigned>
    struct Repacked : Format::template Repacked<kIsSigned> {};
};

}  // namespace

/// The kernel of a format, if it is repacked.
template <class Format>
RepackKernel repack_kernel_of_format() {
    if constexpr (requires { typename Format::template Repacked<false>; }) {
        return repack_kernel<InThisFile<Format>::template Repacked>();
    } else {
        return {};
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
