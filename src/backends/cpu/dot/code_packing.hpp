// Makes micro-panels of codes of 8 bits, with scales for 16 or 32 elements: gemm_codes.hpp
// multiplies them. Included once per instruction set, inside a file that is compiled by
// foreach_target.h.
//
// Codes are made unsigned by adding an offset, which is taken out again through the sums of the
// columns' codes; where products want signed codes, the offset is zero. For 32 elements a
// micro-panel of rows holds
//     codes    [8][rows][4]
//     scales   [groups][rows]   f32 or f16, as the format has it
//     minima   [groups][rows]   the same, for formats that have them
// and a micro-panel of columns
//     codes    [8][columns][4], or as the products want them
//     scales   [columns]           f32
//     sums     [groups][columns]   of codes: f32, times the scale, for formats with minima; else
//                                  whole numbers, times the offset, negative
#if defined(HEDDLE_CPU_DOT_CODE_PACKING_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_CODE_PACKING_HPP
#undef HEDDLE_CPU_DOT_CODE_PACKING_HPP
#else
#define HEDDLE_CPU_DOT_CODE_PACKING_HPP
#endif

#include <type_traits>
#include <utility>

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/micro_panel_products.hpp"
#include "simd/opaque.hpp"

#if HEDDLE_HAS_CODE_GEMM
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where the parts of 32 elements are, in words of 4 bytes.
template <class Format, class Products>
struct CodeLayout {
    static constexpr std::int64_t kGroups = Format::kGroups;
    using Scale = typename Format::Scale;
    static constexpr std::int64_t kScaleWords = kCodeRows * sizeof(Scale) / 4;
    static constexpr std::int64_t kScales = 8 * kCodeRows;
    static constexpr std::int64_t kMinima = kScales + kGroups * kScaleWords;
    static constexpr std::int64_t kRowEnd = kMinima + (Format::kHasMinima ? kMinima - kScales : 0);
    static constexpr std::int64_t kRowWords = (kRowEnd + kCodeLanes - 1) / kCodeLanes * kCodeLanes;

    static constexpr std::int64_t kUnit = Products::kWords * kCodeColumns;  ///< four codes
    static constexpr std::int64_t kColumnScales = 8 * kUnit;
    static constexpr std::int64_t kColumnSums = kColumnScales + kCodeColumns;
    static constexpr std::int64_t kColumnWords = kColumnSums + kGroups * kCodeColumns;

    static constexpr int kOffset = Products::kTakesSigned ? 0 : Format::kOffset;
};

/// Whether rows are packed and multiplied alternately: one takes what the other leaves of the
/// CPU. With 16 registers that is nothing.
constexpr bool kPacksBeside = !(HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2);

/// Sixteens of bytes that a part of a format is made of; 0 if it takes more than bytes at the same
/// place of each.
template <class Format>
constexpr int loads_of() {
    if constexpr (requires { Format::kLoads; }) {
        return Format::kLoads;
    } else {
        return 0;
    }
}

using FloatLanes = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatLanes>;

/// A half of each row.
HWY_INLINE FloatVec load_halves(MicroPanelRows rows) {
    HWY_ALIGN F16 halves[kCodeLanes];
    for (std::int64_t r = 0; r < kCodeLanes; ++r) {
        halves[r].bits = read<std::uint16_t>(rows.row(r));
    }
    return load_f32(FloatLanes(), halves);
}

/// Where what is known of some rows goes, as many as a vector has lanes.
template <class Format, class Products>
struct CodePlace {
    using Layout = CodeLayout<Format, Products>;
    using Scale = typename Layout::Scale;

    std::uint32_t* micro_panel;
    std::int64_t first;  ///< of these rows

    // Of part `group`, a value for each row.
    HWY_INLINE Scale* scales(int group) const { return at(Layout::kScales, group); }
    HWY_INLINE Scale* minima(int group) const { return at(Layout::kMinima, group); }

    /// Sixteen elements, four of each row at a time.
    HWY_INLINE std::int32_t* codes(int group) const {
        return reinterpret_cast<std::int32_t*>(micro_panel) + group / 2 * Layout::kRowWords +
               group % 2 * 4 * kCodeRows + first;
    }

private:
    HWY_INLINE Scale* at(std::int64_t place, int group) const {
        return reinterpret_cast<Scale*>(micro_panel + group / Layout::kGroups * Layout::kRowWords +
                                        place + group % Layout::kGroups * Layout::kScaleWords) +
               first;
    }
};

/// The same rows. Compilers would rather keep an address for every row from one part to the next,
/// for which there are not nearly enough registers, than compute addresses again.
HWY_INLINE MicroPanelRows opaque_rows(MicroPanelRows rows) {
    opaque(rows.first, rows.pitch);
    return rows;
}

/// Packs rows, up to 256 elements (a piece) of each at a time, and a piece in eight steps.
template <class Format, class Products>
class CodePacker {
    using Layout = CodeLayout<Format, Products>;
    using Place = CodePlace<Format, Products>;

public:
    static constexpr std::int64_t kElements = 256;
    static constexpr int kSteps = 8;

    explicit CodePacker(std::byte* micro_panel)
        : micro_panel_(reinterpret_cast<std::uint32_t*>(micro_panel)) {}

    /// One step of the piece that begins with element `begin` of the micro-panel, where `rows` are;
    /// it has `count` elements, in whole blocks.
    HWY_INLINE void pack_step(MicroPanelRows rows, std::int64_t begin, std::int64_t count,
                              int step) {
        const int parts = Format::parts(count);
        for (int part = step * parts / kSteps; part < (step + 1) * parts / kSteps; ++part) {
            pack_part(rows, begin, part);
        }
    }

    /// All of a piece. Calls `beside(step)` for each step on the way, if the piece has all
    /// elements.
    template <class Beside>
    HWY_INLINE void pack(MicroPanelRows rows, std::int64_t begin, std::int64_t count,
                         Beside beside) {
        constexpr int kAll = Format::parts(kElements);
        const int parts = Format::parts(count);
        for (int part = 0; part < parts; ++part) {
            for (int step = part * kSteps / kAll; step < (part + 1) * kSteps / kAll; ++step) {
                beside(step);
            }
            pack_part(rows, begin, part);
        }
    }
    HWY_INLINE void pack(MicroPanelRows rows, std::int64_t begin, std::int64_t count) {
        pack(rows, begin, count, [](int) {});
    }

private:
    HWY_INLINE void pack_part(MicroPanelRows rows, std::int64_t begin, int part) {
        std::uint32_t* micro_panel = micro_panel_ + begin / 32 * Layout::kRowWords;
        HWY_UNROLL(2)
        for (int v = 0; v < kCodeVectors; ++v) {
            const MicroPanelRows some{rows.row(v * kCodeLanes), rows.pitch};
            Place place{micro_panel, v * kCodeLanes};
            if (Format::has_scales(part)) format_.put_scales(opaque_rows(some), part, place);
            put_part(opaque_rows(some), part, place);
        }
    }

    HWY_INLINE void put_part(MicroPanelRows rows, int part, Place& to) const {
        if constexpr (Format::kLoads > 0) return put_loads(rows, part, to);
        const auto offset = hn::Set(ByteLanes(), Layout::kOffset);
        WordVec codes[4][Format::kSlots];
        HWY_UNROLL(4)
        for (int k = 0; k < 4; ++k) {
            format_.codes(RowBlocks(rows, k), part, [&](int slot, auto values) HWY_ATTR {
                const auto bytes = hn::Add(hn::BitCast(ByteLanes(), values), offset);
                codes[k][slot] = hn::BitCast(WordLanes(), bytes);
            });
        }
        for (int slot = 0; slot < Format::slots(part); ++slot) {
            store_transposed(WordLanes(), codes[0][slot], codes[1][slot], codes[2][slot],
                             codes[3][slot], to.codes(Format::group(part, slot)), kCodeRows);
        }
    }

    /// Bytes are turned into a lane per row before they are unpacked, as there are fewer of them.
    HWY_INLINE void put_loads(MicroPanelRows rows, int part, Place& to) const {
        const auto offset = hn::Set(ByteLanes(), Layout::kOffset);
        WordVec words[Format::kLoads][4];
        HWY_UNROLL(3)
        for (int i = 0; i < Format::kLoads; ++i) {
            load_transposed(WordLanes(), rows + Format::load_at(part, i), words[i]);
        }
        HWY_UNROLL(4)
        for (int k = 0; k < 4; ++k) {
            const auto put = [&](int slot, auto values) HWY_ATTR {
                const auto bytes = hn::Add(hn::BitCast(ByteLanes(), values), offset);
                hn::StoreU(hn::BitCast(WordLanes(), bytes), WordLanes(),
                           to.codes(Format::group(part, slot)) + k * kCodeRows);
            };
            [&]<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) HWY_ATTR {
                Format::decode(part, put, hn::BitCast(ByteLanes(), words[kNumbers][k])...);
            }
            (std::make_index_sequence<Format::kLoads>());
        }
    }

    const Format format_{};
    std::uint32_t* micro_panel_;
};

/// Asks for what is packed next: as many rows further on, `kSize` bytes of each. In eight steps.
template <std::size_t kSize>
HWY_INLINE void fetch_step(MicroPanelRows rows, int step) {
    constexpr std::int64_t kEach = HWY_MAX(kCodeRows / 8, 1);
    if constexpr (kCodeRows < 8) {
        if (step >= kCodeRows) return;
    }
    HWY_UNROLL(8)
    for (std::int64_t r = 0; r < kEach; ++r) {
        const std::byte* row = rows.row(kCodeRows + step * kEach + r);
        HWY_UNROLL(8)
        for (std::size_t at = 0; at < kSize; at += 64) prefetch_l2(row + at);
    }
}

/// Whether rows are asked for little by little while others are packed, or all before that.
/// Measured: super-blocks are packed up to a sixth faster so, small blocks from memory more slowly.
template <class Format>
constexpr bool kFetchesBeside = std::is_same_v<typename Format::Other, block_q8_K>;

template <class Format>
HWY_INLINE MicroPanelRows rows_of(const MatrixView& view, std::int64_t begin) {
    return {view.rows + Format::bytes(begin), view.pitch};
}

/// Elements of the piece that begins at `begin`, if there are `count` in all.
HWY_INLINE std::int64_t piece_length(std::int64_t begin, std::int64_t count) {
    return HWY_MIN(HWY_MAX(count - begin, 0), 256);
}

template <class Format, class Products>
void pack_codes(const MatrixView& view, std::int64_t begin, std::int64_t count, std::byte* to) {
    using Packer = CodePacker<Format, Products>;
    constexpr std::size_t kMostBytes = Format::bytes(Packer::kElements);
    Packer packer(to);
    for (std::int64_t i = 0; i < count; i += Packer::kElements) {
        const MicroPanelRows rows = rows_of<Format>(view, begin + i);
        const std::int64_t length = piece_length(i, count);
        const std::size_t size = Format::bytes(length);
        if (view.count >= kCodeRows) {
            const auto fetch = [&](int step) HWY_ATTR { fetch_step<kMostBytes>(rows, step); };
            if constexpr (kFetchesBeside<Format>) {
                packer.pack(rows, i, length, fetch);
            } else {
                for (int step = 0; step < Packer::kSteps; ++step) fetch(step);
                packer.pack(rows, i, length);
            }
            continue;
        }
        std::byte filled[kCodeRows * kMostBytes] = {};  // rows that are not there are zeros
        for (std::int64_t r = 0; r < view.count; ++r) {
            std::memcpy(filled + static_cast<std::size_t>(r) * kMostBytes, rows.row(r), size);
        }
        packer.pack({filled, kMostBytes}, i, length);
    }
}

/// The scale and the codes of 32 elements of a prepared column.
template <class Other>
struct ColumnPiece {
    float scale;
    const std::byte* codes;

    HWY_INLINE ColumnPiece(const std::byte* from, std::int64_t number) {
        if constexpr (std::is_same_v<Other, block_q8_K>) {
            from += number / 8 * static_cast<std::int64_t>(sizeof(Other));
            scale = read<float>(from + offsetof(Other, d));
            codes = from + offsetof(Other, qs) + 32 * (number % 8);
        } else {
            from += number * static_cast<std::int64_t>(sizeof(Other));
            scale = read_half(from + offsetof(Other, d));
            codes = from + offsetof(Other, qs);
        }
    }

    /// Of the codes from `begin` on.
    HWY_INLINE std::int32_t sum(int begin, int count) const {
        std::int32_t total = 0;
        for (int i = begin; i < begin + count; ++i) {
            total += static_cast<std::int8_t>(codes[i]);
        }
        return total;
    }
};

template <class Format, class Products>
void put_codes(const void* from, std::int64_t count, std::byte* to, int column) {
    using Layout = CodeLayout<Format, Products>;
    constexpr int kGroup = 32 / Format::kGroups;
    auto* words = reinterpret_cast<std::uint32_t*>(to) + column;
    for (std::int64_t i = 0; i < count / 32; ++i, words += Layout::kColumnWords) {
        const ColumnPiece<typename Format::Other> piece(static_cast<const std::byte*>(from), i);
        for (int u = 0; u < 8; ++u) {
            Products::put_four(piece.codes + 4 * u, words + u * Layout::kUnit, kCodeColumns);
        }
        const float scale = piece.scale * Products::kFactor;
        std::memcpy(words + Layout::kColumnScales, &scale, 4);
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t sum = piece.sum(g * kGroup, kGroup);
            const std::int32_t offset = -Layout::kOffset * sum;
            const float scaled = piece.scale * static_cast<float>(sum);
            std::memcpy(words + Layout::kColumnSums + g * kCodeColumns,
                        Format::kHasMinima ? static_cast<const void*>(&scaled) : &offset, 4);
        }
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
