// Where the codes of repacked rows go: sinks that multiply them by a tile of columns, or store them
// as the micro-panels of dot/gemm_codes.hpp, for many columns. Included once per instruction
// set, inside a file that is compiled by foreach_target.h.
//
// For 32 elements a tile of a few columns holds
//     codes    [8][columns][4]
//     scales   [columns]           f32
//     sums     [groups][columns]   of codes, for formats with minima: whole numbers, or f32, times
//                                  the scale; else whole numbers, times the zero points of rows'
//                                  codes, negative
#if defined(HEDDLE_CPU_REPACK_SINKS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_REPACK_SINKS_HPP
#undef HEDDLE_CPU_REPACK_SINKS_HPP
#else
#define HEDDLE_CPU_REPACK_SINKS_HPP
#endif

#include <type_traits>
#include <utility>

#include "backends/cpu/dot/gemm_codes.hpp"
#include "backends/cpu/repack/byte_sums.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"

#if HEDDLE_HAS_REPACK
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLaneRows = static_cast<int>(hn::MaxLanes(RowLanes()));
constexpr int kLaneGroups = kRepackRows / kLaneRows;  ///< vectors for the rows of a micro-panel

/// Columns of the widest tile that is multiplied straight from repacked rows: as many as leave a
/// few registers for unpacking. And how many columns are multiplied so, in several tiles.
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
constexpr int kMediumColumns = kNarrowTile, kTileColumns = kNarrowTile;  // of 16 registers
constexpr int kStraightColumns = kNarrowTile;
#else
constexpr int kMediumColumns = 8, kTileColumns = 12;  // of 32
constexpr int kStraightColumns = 4 * kTileColumns;
#endif

// ---- columns -----------------------------------------------------------------------------------

/// Words of 4 bytes that 32 elements of a column take.
template <class Format>
constexpr int kColumnWords = 8 + 1 + Format::kGroups;

/// Whether scales of groups are multiplied as whole numbers, and those of super-blocks come in
/// once: where pairs of products are multiplied by something on their way to 32 bits anyway.
template <class Format>
constexpr bool kScalesStayWhole = HWY_TARGET == HWY_AVX2 ? Format::kHasMinima : false;

template <class Format>
void put_tile_column(const void* from, std::int64_t count, std::byte* to, int width, int column) {
    constexpr int kGroup = 32 / Format::kGroups;
    auto* words = reinterpret_cast<std::uint32_t*>(to) + column;
    for (std::int64_t i = 0; i < count / 32; ++i, words += kColumnWords<Format> * width) {
        const ColumnPiece<typename Format::Other> piece(static_cast<const std::byte*>(from), i);
        for (int u = 0; u < 8; ++u) std::memcpy(words + u * width, piece.codes + 4 * u, 4);
        std::memcpy(words + 8 * width, &piece.scale, 4);
        for (int g = 0; g < Format::kGroups; ++g) {
            const std::int32_t sum = piece.sum(g * kGroup, kGroup);
            const std::int32_t whole = Format::kHasMinima ? sum : -Format::kOffset * sum;
            const float scaled = piece.scale * static_cast<float>(sum);
            constexpr bool kIsWhole = !Format::kHasMinima || kScalesStayWhole<Format>;
            std::memcpy(words + (9 + g) * width,
                        kIsWhole ? static_cast<const void*>(&whole) : &scaled, 4);
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

    template <int kGroup, class Scales>
    HWY_INLINE void end(std::integral_constant<int, kGroup> group, const Scales& scales) {
        end(group, scales.template scale<kGroup>(), scales.template minimum<kGroup>());
    }

    HWY_INLINE void write(float* const* out, int row, bool add) const {
        HWY_UNROLL(12)
        for (int c = 0; c < kColumns; ++c) put_sum(RowLanes(), total[c], out[c] + row, add);
    }
};

#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
/// The same for super-blocks, whose scales of groups stay whole numbers.
template <class Format, int kColumns>
struct WholeMultiplying {
    static constexpr int kUnits = 8 / Format::kGroups;
    static constexpr int kLastGroup = 8 * Format::kGroups - 1;
    static constexpr int kPieceWords = kColumnWords<Format> * kColumns;
    static_assert(PairProducts::safe_units(Format::kMostCode, kUnits) == kUnits);

    const std::int32_t* tile;
    RowVec total[kColumns];
    WordVec words[kColumns];
    PairVec pairs[kColumns];

    HWY_INLINE WholeMultiplying() {
        HWY_UNROLL(4)
        for (int c = 0; c < kColumns; ++c) total[c] = hn::Zero(RowLanes());
    }

    HWY_INLINE void put(int unit, ByteVec codes) {
        const std::int32_t* four = tile + unit / 8 * kPieceWords + unit % 8 * kColumns;
        HWY_UNROLL(4)
        for (int c = 0; c < kColumns; ++c) {
            const auto products = multiply_bytes(codes, hn::Set(WordLanes(), four[c]));
            pairs[c] = unit % kUnits == 0 ? products : add_opaque(pairs[c], products);
        }
    }

    template <int kGroup, class Scales>
    HWY_INLINE void end(std::integral_constant<int, kGroup>, const Scales& scales) {
        const auto scale = scales.template scale_pairs<kGroup>();
        HWY_UNROLL(4)
        for (int c = 0; c < kColumns; ++c) {
            const auto scaled = multiply_pairs(pairs[c], scale);
            words[c] = kGroup == 0 ? scaled : add_opaque(words[c], scaled);
        }
        if constexpr (kGroup == kLastGroup) finish(scales);
    }

    HWY_INLINE void write(float* const* out, int row, bool add) const {
        HWY_UNROLL(4)
        for (int c = 0; c < kColumns; ++c) put_sum(RowLanes(), total[c], out[c] + row, add);
    }

private:
    /// All groups of a block have come.
    template <class Scales>
    HWY_INLINE void finish(const Scales& scales) {
        const auto add = [&](RowVec unit) HWY_ATTR {
            HWY_UNROLL(4)
            for (int c = 0; c < kColumns; ++c) {
                const auto scale = hn::Set(RowLanes(), as_floats(tile + 8 * kColumns)[c]);
                total[c] =
                    hn::MulAdd(hn::ConvertTo(RowLanes(), words[c]), hn::Mul(unit, scale), total[c]);
            }
        };
        add(scales.d);
        unrolled<kLastGroup + 1>([&](auto group) HWY_ATTR {
            // What stands above 16 bits of the sums is multiplied by zero.
            const auto minimum = scales.template minimum_pairs<group>();
            const std::int32_t* sums = tile + group / Format::kGroups * kPieceWords +
                                       (9 + group % Format::kGroups) * kColumns;
            HWY_UNROLL(4)
            for (int c = 0; c < kColumns; ++c) {
                const auto sum = hn::BitCast(PairLanes(), hn::Set(WordLanes(), sums[c]));
                const auto scaled = multiply_pairs(minimum, sum);
                words[c] = group == 0 ? scaled : hn::Add(words[c], scaled);
            }
        });
        add(hn::Neg(scales.dmin));
    }
};

template <class Format, class Sum, int kColumns>
using StraightSink =
    std::conditional_t<kScalesStayWhole<Format>, WholeMultiplying<Format, kColumns>,
                       Multiplying<Format, Sum, kColumns> >;
#else
template <class Format, class Sum, int kColumns>
using StraightSink = Multiplying<Format, Sum, kColumns>;
#endif

/// Keeps codes for later, in micro-panels.
template <class Format, class Products>
struct Storing {
    CodePlace<Format, Products> to;  ///< of the block

    HWY_INLINE void put(int unit, ByteVec codes) {
        hn::StoreU(hn::BitCast(WordLanes(), codes), WordLanes(),
                   to.codes(unit / 4) + unit % 4 * kCodeRows);
    }
    HWY_INLINE void end(int group, RowVec scale) {
        hn::StoreU(scale, RowLanes(), to.scales(group));
    }
    HWY_INLINE void end(int group, RowVec scale, RowVec minimum) {
        end(group, scale);
        hn::StoreU(minimum, RowLanes(), to.minima(group));
    }
    template <int kGroup, class Scales>
    HWY_INLINE void end(std::integral_constant<int, kGroup> group, const Scales& scales) {
        end(group, scales.template scale<kGroup>(), scales.template minimum<kGroup>());
    }
};

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
