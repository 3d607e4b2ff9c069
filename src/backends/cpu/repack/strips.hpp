// Strips of repacked rows, multiplied by tiles of columns. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
//
// A format turns its blocks into codes, sixteen or 32 elements (a group) with one scale at a time,
// and hands them on to a sink: one that multiplies, or one that stores them for many columns. For
// 32 elements a strip of unpacked rows holds, for as many rows as a vector has lanes,
//     codes    [8][rows][4]
//     scales   [groups][rows]   f32
//     minima   [groups][rows]   f32, for formats that have them
// and a tile of columns
//     codes    [8][columns][4]
//     scales   [columns]           f32
//     sums     [groups][columns]   of codes: f32, times the scale, for formats with minima; else
//                                  whole numbers, times what codes of rows have too much, negative
#if defined(HEDDLE_CPU_REPACK_STRIPS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_STRIPS_HPP
#undef HEDDLE_CPU_REPACK_STRIPS_HPP
#else
#define HEDDLE_CPU_REPACK_STRIPS_HPP
#endif

#include <hwy/cache_control.h>

#include <type_traits>
#include <utility>

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/repack/byte_sums.hpp"
#include "backends/cpu/repack/strip_kernel.hpp"

#if HEDDLE_HAS_REPACK
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowLanes = hn::ScalableTag<float>;
using RowVec = hn::Vec<RowLanes>;
using PackedWords = hn::ScalableTag<std::uint32_t>;

constexpr int kLaneRows = static_cast<int>(hn::MaxLanes(RowLanes()));
constexpr int kLaneGroups = kRepackRows / kLaneRows;  ///< vectors for the rows of a strip

/// Columns of the widest tile: as many as leave a few registers for something else.
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
constexpr int kTileColumns = 6, kMediumColumns = 5;  // of 16 registers
constexpr int kFewTiles = 0;                         // unpacking takes registers too
#else
constexpr int kTileColumns = 12, kMediumColumns = 8;  // of 32
constexpr int kFewTiles = 4;
#endif
static_assert(kMediumColumns > kNarrowTile && kTileColumns > kMediumColumns);

/// Calls `body` with the numbers below `kCount`, each a constant.
template <int kCount, class Body>
HWY_INLINE void unrolled(Body body) {
    [&]<int... kNumbers>(std::integer_sequence<int, kNumbers...>) HWY_ATTR {
        (body(std::integral_constant<int, kNumbers>()), ...);
    }
    (std::make_integer_sequence<int, kCount>());
}

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

// ---- columns -----------------------------------------------------------------------------------

/// Words of 4 bytes that 32 elements of a column take.
template <class Format>
constexpr int kColumnWords = 8 + 1 + Format::kGroups;

/// The scale and the codes of 32 elements of a prepared column.
struct ColumnCodes {
    float scale;
    const std::int8_t* codes;

    template <class Other>
    static HWY_INLINE ColumnCodes of(const std::byte* from, std::int64_t number) {
        if constexpr (std::is_same_v<Other, block_q8_K>) {
            from += number / 8 * static_cast<std::int64_t>(sizeof(Other));
            return {read<float>(from + offsetof(Other, d)),
                    codes_at(from + offsetof(Other, qs) + 32 * (number % 8))};
        } else {
            from += number * static_cast<std::int64_t>(sizeof(Other));
            return {read_half(from + offsetof(Other, d)), codes_at(from + offsetof(Other, qs))};
        }
    }

private:
    static HWY_INLINE const std::int8_t* codes_at(const std::byte* from) {
        return reinterpret_cast<const std::int8_t*>(from);
    }
};

template <class Format>
void put_tile_column(const void* from, std::int64_t count, std::byte* to, int width, int column) {
    constexpr int kGroup = 32 / Format::kGroups;
    auto* words = reinterpret_cast<std::uint32_t*>(to) + column;
    for (std::int64_t i = 0; i < count / 32; ++i, words += kColumnWords<Format> * width) {
        const auto piece =
            ColumnCodes::of<typename Format::Other>(static_cast<const std::byte*>(from), i);
        for (int u = 0; u < 8; ++u) std::memcpy(words + u * width, piece.codes + 4 * u, 4);
        std::memcpy(words + 8 * width, &piece.scale, 4);
        for (int g = 0; g < Format::kGroups; ++g) {
            std::int32_t sum = 0;
            for (int j = g * kGroup; j < (g + 1) * kGroup; ++j) sum += piece.codes[j];
            const std::int32_t offset = -Format::kOffset * sum;
            const float scaled = piece.scale * static_cast<float>(sum);
            std::memcpy(words + (9 + g) * width,
                        Format::kHasMinima ? static_cast<const void*>(&scaled) : &offset, 4);
        }
    }
}

// ---- sinks -------------------------------------------------------------------------------------

/// Multiplies codes as they come.
template <class Format, class Sum, int kColumns>
struct Multiplying {
    static constexpr int kUnits = 8 / Format::kGroups;  ///< four elements each, of a group
    static constexpr int kPieceWords = kColumnWords<Format> * kColumns;

    const std::int32_t* tile;
    RowVec total[kColumns];
    Sum sum[kColumns];

    HWY_INLINE Multiplying() {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) total[c] = hn::Zero(RowLanes());
    }

    /// Four codes of each row: number `unit` of the block, and number `unit % kUnits` of its group.
    HWY_INLINE void put(int unit, ByteVec codes) {
        const std::int32_t* four = tile + unit / 8 * kPieceWords + unit % 8 * kColumns;
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            if (unit % kUnits == 0) sum[c] = Sum();
            sum[c].add(unit % kUnits, codes, four + c);
        }
    }

    /// All codes of a group have come.
    HWY_INLINE void end(int group, RowVec scale) {
        const std::int32_t* scales = tile + group / Format::kGroups * kPieceWords + 8 * kColumns;
        const std::int32_t* sums = scales + (1 + group % Format::kGroups) * kColumns;
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            auto words = sum[c].get(kUnits);
            if constexpr (Format::kOffset != 0) {
                words = hn::Add(words, hn::Set(WordLanes(), sums[c]));
            }
            const auto unit = hn::Mul(scale, hn::Set(RowLanes(), as_floats(scales)[c]));
            total[c] = hn::MulAdd(hn::ConvertTo(RowLanes(), words), unit, total[c]);
        }
    }
    HWY_INLINE void end(int group, RowVec scale, RowVec minimum) {
        end(group, scale);
        const std::int32_t* sums =
            tile + group / Format::kGroups * kPieceWords + (9 + group % Format::kGroups) * kColumns;
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            total[c] = hn::NegMulAdd(minimum, hn::Set(RowLanes(), as_floats(sums)[c]), total[c]);
        }
    }

    HWY_INLINE void write(float* const* out, int row, bool add) const {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) {
            float* to = out[c] + row;
            hn::StoreU(add ? hn::Add(hn::LoadU(RowLanes(), to), total[c]) : total[c], RowLanes(),
                       to);
        }
    }

private:
    static HWY_INLINE const float* as_floats(const std::int32_t* words) {
        return reinterpret_cast<const float*>(words);
    }
};

/// Keeps codes for later.
template <class Format>
struct Storing {
    static constexpr int kScales = 8 * kLaneRows;
    static constexpr int kMinima = kScales + Format::kGroups * kLaneRows;
    static constexpr int kPieceWords =
        kMinima + (Format::kHasMinima ? Format::kGroups * kLaneRows : 0);

    std::uint32_t* to;  ///< of the block

    HWY_INLINE void put(int unit, ByteVec codes) {
        hn::StoreU(hn::BitCast(PackedWords(), codes), PackedWords(),
                   to + unit / 8 * kPieceWords + unit % 8 * kLaneRows);
    }
    HWY_INLINE void end(int group, RowVec scale) { put_floats(kScales, group, scale); }
    HWY_INLINE void end(int group, RowVec scale, RowVec minimum) {
        put_floats(kScales, group, scale);
        put_floats(kMinima, group, minimum);
    }

private:
    HWY_INLINE void put_floats(int part, int group, RowVec values) {
        hn::StoreU(hn::BitCast(PackedWords(), values), PackedWords(),
                   to + group / Format::kGroups * kPieceWords + part +
                       group % Format::kGroups * kLaneRows);
    }
};

// ---- rows --------------------------------------------------------------------------------------

/// Asks for what is read a little later. With one or two columns the processor does as well by
/// itself.
template <std::size_t kSize>
HWY_INLINE void fetch_ahead(const std::byte* from) {
    constexpr std::size_t kAhead = 8192;
    for (std::size_t i = 0; i < kSize; i += 64) hwy::Prefetch(from + kAhead + i);
}

/// Straight from the repacked rows: each byte of them is read once.
template <class Format, class Sum, int kColumns>
HWY_FLATTEN void multiply_strip(const std::byte* rows, const std::int32_t* tile, std::int64_t count,
                                float* const* out, bool add) {
    Multiplying<Format, Sum, kColumns> sinks[kLaneGroups];
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
    for (int g = 0; g < kLaneGroups; ++g) sinks[g].write(out, g * kLaneRows, add);
}

template <class Format, class Sum>
void multiply_few(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                  float* const* out, bool add) {
    const auto* tile = reinterpret_cast<const std::int32_t*>(columns);
    if (width == 1) return multiply_strip<Format, Sum, 1>(rows, tile, count, out, add);
    if (width == 2) return multiply_strip<Format, Sum, 2>(rows, tile, count, out, add);
    if constexpr (kFewTiles > 0) {
        if (width == kMediumColumns) {
            return multiply_strip<Format, Sum, kMediumColumns>(rows, tile, count, out, add);
        }
        if (width == kTileColumns) {
            return multiply_strip<Format, Sum, kTileColumns>(rows, tile, count, out, add);
        }
    }
    multiply_strip<Format, Sum, kNarrowTile>(rows, tile, count, out, add);
}

template <class Format>
HWY_FLATTEN void unpack_strip(const std::byte* rows, std::int64_t count, std::byte* to) {
    auto* words = reinterpret_cast<std::uint32_t*>(to);
    for (int g = 0; g < kLaneGroups; ++g) {
        const std::byte* block = rows;
        for (std::int64_t i = 0; i < count; i += Format::kElements) {
            Storing<Format> sink{words};
            Format::unpack(Place::of<Format>(block, i / Format::kElements, g * kLaneRows), sink);
            words += Format::kElements / 32 * Storing<Format>::kPieceWords;
            block += sizeof(typename Format::Block) * kRepackRows;
        }
    }
}

template <class Format, class Sum, int kColumns>
HWY_FLATTEN void multiply_unpacked_strip(const std::int32_t* rows, const std::int32_t* tile,
                                         std::int64_t count, float* const* out, bool add) {
    using Strip = Storing<Format>;
    for (int g = 0; g < kLaneGroups; ++g) {
        Multiplying<Format, Sum, kColumns> sink;
        sink.tile = tile;
        for (std::int64_t i = 0; i < count; i += 32, rows += Strip::kPieceWords) {
            const auto floats = [&](int at) HWY_ATTR {
                return hn::LoadU(RowLanes(), reinterpret_cast<const float*>(rows) + at);
            };
            HWY_UNROLL(2)
            for (int group = 0; group < Format::kGroups; ++group) {
                HWY_UNROLL(8)
                for (int u = 0; u < sink.kUnits; ++u) {
                    const int unit = group * sink.kUnits + u;
                    sink.put(unit, hn::BitCast(ByteLanes(),
                                               hn::LoadU(WordLanes(), rows + unit * kLaneRows)));
                }
                const auto scale = floats(Strip::kScales + group * kLaneRows);
                if constexpr (Format::kHasMinima) {
                    sink.end(group, scale, floats(Strip::kMinima + group * kLaneRows));
                } else {
                    sink.end(group, scale);
                }
            }
            sink.tile += sink.kPieceWords;
        }
        sink.write(out, g * kLaneRows, add);
    }
}

template <class Format, class Sum>
void multiply_many(const std::byte* rows, const std::byte* columns, std::int64_t count, int width,
                   float* const* out, bool add) {
    const auto* a = reinterpret_cast<const std::int32_t*>(rows);
    const auto* tile = reinterpret_cast<const std::int32_t*>(columns);
    if (width == kMediumColumns) {
        return multiply_unpacked_strip<Format, Sum, kMediumColumns>(a, tile, count, out, add);
    }
    multiply_unpacked_strip<Format, Sum, kTileColumns>(a, tile, count, out, add);
}

// ---- rows of a family's list -------------------------------------------------------------------

template <class Format, class Sum>
RepackKernel kernel_with() {
    static_assert(4 * kColumnWords<Format> <= kMostColumnBytes);
    constexpr std::size_t kRowBytes = 4 * Storing<Format>::kPieceWords / kLaneRows;
    static_assert(kRowBytes <= kMostRowBytes && kTileColumns <= kRepackColumns);
    return {.columns = kTileColumns,
            .few_tiles = kFewTiles,
            .medium = kMediumColumns,
            .column_bytes = 4 * kColumnWords<Format>,
            .row_bytes = kRowBytes,
            .put_column = put_tile_column<Format>,
            .multiply = multiply_few<Format, Sum>,
            .unpack = unpack_strip<Format>,
            .multiply_unpacked = multiply_many<Format, Sum>};
}

/// The kernel of a format, which hands on signed codes if it is told so.
template <template <bool> class Format>
RepackKernel strip_kernel() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    // Without the instruction rows are as well read where they are.
    if (!FusedBytes::is_there()) return {};
    return kernel_with<Format<false>, FusedSum>();
#else
    constexpr bool kIsSigned = Format<false>::kMostCode > 127;
#if HWY_ARCH_X86
    using Sum = std::conditional_t<kIsSigned, SignedSum, PairedSum<Format<false>::kMostCode> >;
    return kernel_with<Format<kIsSigned>, Sum>();
#else
#if HEDDLE_HAS_FUSED_BYTES
    if (SignedBytes::is_there()) return kernel_with<Format<kIsSigned>, SignedSum<SignedBytes> >();
#endif
    return kernel_with<Format<kIsSigned>, SignedSum<PairedBytes> >();
#endif
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
