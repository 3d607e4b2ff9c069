#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemv_k.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/dot/formats/k.hpp"

/// Super-blocks, as many bytes at once as a vector has. Their scales are whole numbers, so a
/// block's sum is one too, and exact; floats come in once per block.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_BYTE_PRODUCTS

GemvKernel gemv_k(Type) { return {}; }

#else
namespace {

constexpr int kVectors = QK_K / kBytes;  ///< of a super-block

/// The column for a super-block.
struct ColumnBlock {
    std::int8_t codes[QK_K];       ///< in the order in which the format unpacks its own
    std::int16_t sums[QK_K / 16];  ///< of codes, one for each scale; if there are 8, the upper 8
    float scale;
    float padding[7];
};
static_assert(sizeof(ColumnBlock) % 64 == 0 && sizeof(ColumnBlock) <= 2 * QK_K);

// ---- sums --------------------------------------------------------------------------------------

/// Which of the eight scales from `first` on belongs to each lane of a vector, as bytes of words.
template <class Format>
struct Lookup {
    HWY_ALIGN std::uint8_t order[kVectors][kBytes] = {};

    constexpr Lookup() {
        for (int place = 0; place < QK_K; ++place) {
            const int group = Format::element(place / 16 * 16) / Format::kGroup % 8;
            order[place / kBytes][place % kBytes] =
                static_cast<std::uint8_t>(2 * group + place % 2);
        }
    }

    static constexpr int first(int vector) {
        return Format::element(vector * kBytes) / Format::kGroup / 8 * 8;
    }
};

template <class Format>
constexpr Lookup<Format> kLookup;

/// A block of each of a few columns.
template <int kColumns>
using ColumnBlocks = const ColumnBlock* const (&)[kColumns];

template <class Format, class Products, int kVector = 0, int kColumns>
HWY_INLINE void add_vectors(const std::byte* from, ColumnBlocks<kColumns> columns, std::int64_t i,
                            const std::int16_t* scales, ColumnSums<WordLanes, kColumns>& sums) {
    if constexpr (kVector < kVectors) {
        const auto eight = hn::LoadDup128(PairLanes(), scales + Lookup<Format>::first(kVector));
        const auto order = hn::Load(ByteLanes(), kLookup<Format>.order[kVector]);
        const auto spread = hn::TableLookupBytes(eight, hn::BitCast(PairLanes(), order));
        const auto codes = Format::template codes<kVector>(from);
        for (int c = 0; c < kColumns; ++c) {
            const auto pairs =
                multiply_bytes(codes, load_column(columns[c][i].codes + kVector * kBytes));
            sums[c] = Products::add_scaled(pairs, spread, sums[c]);
        }
        add_vectors<Format, Products, kVector + 1>(from, columns, i, scales, sums);
    }
}

/// The sum of all pairs of a block, whose codes are so small that it fits into 16 bits.
template <class Format, int kVector = 0>
HWY_INLINE hn::Vec<PairLanes> sum_pairs(const std::byte* from, const ColumnBlock& column) {
    const auto pairs = multiply_bytes(Format::template codes<kVector>(from),
                                      load_column(column.codes + kVector * kBytes));
    if constexpr (kVector + 1 < kVectors) {
        return hn::Add(pairs, sum_pairs<Format, kVector + 1>(from, column));
    } else {
        return pairs;
    }
}

/// A row's sums, one for each of a few columns: of products, and of zero points.
template <class Format, class Products, int kColumns>
struct RowSums {
    using Block = typename Format::Block;
    using Parts = SixteenWords::Parts;
    static constexpr bool kHasMinima = Format::kHasMinima;

    ColumnSums<FloatLanes, kColumns> total;
    ColumnSums<Parts, kColumns> rest;

    HWY_INLINE RowSums() {}  // for the instruction set: a default one would not be

    /// Block `i` of each column; `from` is that of the row.
    HWY_INLINE void add(const std::byte* from, ColumnBlocks<kColumns> columns, std::int64_t i) {
        ColumnSums<WordLanes, kColumns> sums;
        if constexpr (Format::kGroup == QK_K) {
            for (int c = 0; c < kColumns; ++c) {
                sums[c] = Products::add_scaled(sum_pairs<Format>(from, columns[c][i]),
                                               hn::Set(PairLanes(), 1), sums[c]);
            }
            add(from, columns, i, sums, SixteenWords(hn::Set(Codes(), 1)));
        } else {
            HWY_ALIGN std::int16_t scales[16];
            const SixteenWords below = Format::put_scales(from, scales);
            add_vectors<Format, Products>(from, columns, i, scales, sums);
            add(from, columns, i, sums, below);
        }
    }

    HWY_INLINE void put(float* const* out, std::int64_t row) const {
        constexpr float kFactor = kHasMinima ? 1 : Format::kOffset;
        for (int c = 0; c < kColumns; ++c) {
            out[c][row] = hn::GetLane(hn::SumOfLanes(FloatLanes(), total[c])) -
                          kFactor * hn::GetLane(hn::SumOfLanes(Parts(), rest[c]));
        }
    }

private:
    HWY_INLINE void add(const std::byte* from, ColumnBlocks<kColumns> columns, std::int64_t i,
                        const ColumnSums<WordLanes, kColumns>& sums, SixteenWords below) {
        const auto own = units_of(from);
        for (int c = 0; c < kColumns; ++c) {
            const auto units = hn::Mul(own, hn::Set(Quad(), columns[c][i].scale));
            const auto d = hn::Set(FloatLanes(), hn::GetLane(units));
            total[c] = hn::MulAdd(hn::ConvertTo(FloatLanes(), sums[c]), d, total[c]);
            if constexpr (kHasMinima || Format::kOffset != 0) {
                const float unit = hn::GetLane(kHasMinima ? hn::Broadcast<1>(units) : units);
                rest[c] =
                    hn::MulAdd(below.multiply(columns[c][i].sums), hn::Set(Parts(), unit), rest[c]);
            }
        }
    }

    /// The unit of the scales, and behind it that of the minima.
    static HWY_INLINE hn::Vec<Quad> units_of(const std::byte* from) {
        using Number = std::conditional_t<kHasMinima, std::uint32_t, std::uint16_t>;
        return four_halves(read<Number>(from + offsetof(Block, d)));
    }
};

template <class Format, class Products>
struct Gemv {
    template <int kColumns>
    static void multiply(const MatrixView& view, Turns turns, const std::byte* const* from,
                         float* const* out) {
        const ColumnBlock* columns[kColumns];
        for (int c = 0; c < kColumns; ++c)
            columns[c] = reinterpret_cast<const ColumnBlock*>(from[c]);
        const std::int64_t count = view.depth / QK_K;
        for_rows_in_thirds(view, turns, [&](const RowsInThirds& rows) HWY_ATTR {
            const std::byte *row0 = rows.row[0], *row1 = rows.row[1], *row2 = rows.row[2];
            RowSums<Format, Products, kColumns> sums0, sums1, sums2;
            constexpr std::size_t kSize = sizeof(typename Format::Block);
            for (std::int64_t i = 0; i < count; ++i) {
                const std::size_t block = static_cast<std::size_t>(i) * kSize;
                prefetch_rows<kColumns, kSize>(row0 + block, row1 + block, row2 + block);
                sums0.add(row0 + block, columns, i);
                sums1.add(row1 + block, columns, i);
                sums2.add(row2 + block, columns, i);
            }
            sums0.put(out, rows.at[0]);
            sums1.put(out, rows.at[1]);
            sums2.put(out, rows.at[2]);
        });
    }
};

template <class Format>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    const auto* block = static_cast<const std::byte*>(from);
    auto* column = reinterpret_cast<ColumnBlock*>(to);
    for (std::int64_t i = 0; i < depth; i += QK_K, block += sizeof(block_q8_K), ++column) {
        column->scale = read<float>(block + offsetof(block_q8_K, d));
        const std::byte* codes = block + offsetof(block_q8_K, qs);
        for (int place = 0; place < QK_K; place += 16) {  // sixteens stay together
            std::memcpy(column->codes + place, codes + Format::element(place), 16);
        }
        const std::byte* sums = block + offsetof(block_q8_K, bsums);
        std::fill_n(column->sums, 16, std::int16_t{0});
        std::int16_t* to_sums = column->sums + 16 - QK_K / Format::kGroup;
        for (int group = 0; group < QK_K / Format::kGroup; ++group) {
            int sum = 0;
            for (int part = 0; part < Format::kGroup / 16; ++part, sums += 2) {
                sum += read<std::int16_t>(sums);
            }
            to_sums[group] = static_cast<std::int16_t>(sum);
        }
    }
}

template <class Format>
GemvKernel kernel() {
#if HEDDLE_HAS_FUSED_BYTES && HWY_ARCH_X86
    if (FusedBytes::is_there()) {
        return {.arrange = arrange<Format>,
                .multiply = multiply_columns<2, Gemv<Format, FusedPairs> >,
                .most_columns = kMostFusedColumns};
    }
#endif
    return {.arrange = arrange<Format>,
            .multiply = multiply_columns<2, Gemv<Format, Pairs> >,
            .most_columns = kMostPairedColumns};
}

}  // namespace

GemvKernel gemv_k(Type type) {
    return find_by_type<GemvKernel, Family::k>(
        type, []<Type kType>() { return kernel<typename BlockFormat<kType>::Gemv>(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemv_k);

GemvKernel gemv_k_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemv_k)(type); }

}  // namespace heddle::cpu
#endif
