#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemv_simple.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/formats/simple.hpp"

/// Blocks with scales of their own, 128 elements at a time.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_BYTE_PRODUCTS

GemvKernel gemv_simple(Type) { return {}; }

#else
namespace {

/// The column for a group, of which a row has so many scales.
template <int kScales>
struct ColumnGroup {
    std::int8_t low[16 * kGroupBlocks];   ///< elements 0 .. 15 of each block
    std::int8_t high[16 * kGroupBlocks];  ///< elements 16 .. 31
    float scales[kScales];
    float sums[kScales];  ///< what the rows' minima, or scales, are multiplied with
};

/// A vector from 4 floats, those from `kFirst` on: each fills the lanes of its block.
template <int kFirst>
HWY_INLINE hn::Vec<FloatLanes> spread_four(hn::Vec<Quad> values) {
#if HWY_MAX_BYTES >= 32
    HWY_ALIGN static constexpr std::int32_t kOrder[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                          2, 2, 2, 2, 3, 3, 3, 3};
    const auto order = hn::SetTableIndices(FloatLanes(), kOrder + 4 * kFirst);
    const hn::FixedTag<float, 8> eight;
    const auto wide = hn::ZeroExtendVector(eight, values);
#if HWY_MAX_BYTES >= 64
    return hn::TableLookupLanes(hn::ZeroExtendVector(FloatLanes(), wide), order);
#else
    return hn::TableLookupLanes(wide, order);
#endif
#else
    return hn::Broadcast<kFirst>(values);
#endif
}

/// A vector from 8 floats, two for each block from `kFirst` on.
template <int kFirst>
HWY_INLINE hn::Vec<FloatLanes> spread_eight(hn::Vec<Quad> low, hn::Vec<Quad> high) {
#if HWY_MAX_BYTES >= 32
    HWY_ALIGN static constexpr std::int32_t kOrder[16] = {0, 0, 1, 1, 2, 2, 3, 3,
                                                          4, 4, 5, 5, 6, 6, 7, 7};
    const auto order = hn::SetTableIndices(FloatLanes(), kOrder);
    const hn::FixedTag<float, 8> eight;
#if HWY_MAX_BYTES >= 64
    return hn::TableLookupLanes(hn::ZeroExtendVector(FloatLanes(), hn::Combine(eight, high, low)),
                                order);
#else
    return hn::TableLookupLanes(hn::ZeroExtendVector(eight, kFirst < 2 ? low : high), order);
#endif
#else
    const auto values = kFirst < 2 ? low : high;
    return kFirst % 2 == 0 ? hn::InterleaveLower(Quad(), values, values)
                           : hn::InterleaveUpper(Quad(), values, values);
#endif
}

/// The scales of a group, or those times the scales of a column.
template <class Format, int kScales = Format::kScales>
struct Units {
    hn::Vec<Quad> all;

    HWY_INLINE explicit Units(const std::byte* from) : all(Format::scales(from)) {}
    HWY_INLINE explicit Units(hn::Vec<Quad> values) : all(values) {}

    HWY_INLINE Units times(const float* column) const {
        return Units(hn::Mul(all, hn::LoadU(Quad(), column)));
    }
    template <int kFirst>
    HWY_INLINE hn::Vec<FloatLanes> spread() const {
        return spread_four<kFirst>(all);
    }
    HWY_INLINE hn::Vec<Quad> multiply_add(const float* sums, hn::Vec<Quad> rest) const {
        return hn::MulAdd(all, hn::LoadU(Quad(), sums), rest);
    }
};

template <class Format>
struct Units<Format, 8> {
    Units<Format, 4> low, high;

    HWY_INLINE explicit Units(const std::byte* from)
        : low(from), high(from + sizeof(typename Format::Block)) {}
    HWY_INLINE Units(Units<Format, 4> first, Units<Format, 4> second) : low(first), high(second) {}

    HWY_INLINE Units times(const float* column) const {
        return {low.times(column), high.times(column + 4)};
    }
    template <int kFirst>
    HWY_INLINE hn::Vec<FloatLanes> spread() const {
        return spread_eight<kFirst>(low.all, high.all);
    }
    HWY_INLINE hn::Vec<Quad> multiply_add(const float* sums, hn::Vec<Quad> rest) const {
        return high.multiply_add(sums + 4, low.multiply_add(sums, rest));
    }
};

/// Codes of the blocks of the column from `kFirst` of a group on.
template <class Format, int kFirst>
HWY_INLINE auto codes_of(const std::byte* group) {
    if constexpr (Format::kElements == 32) {
        return Format::codes(group + kFirst * sizeof(typename Format::Block));
    } else {
        return Format::template codes<kFirst>(group);
    }
}

// ---- products ----------------------------------------------------------------------------------

template <class Format>
struct Paired {
    static constexpr int kOffset = Format::kOffset;

    template <class V>
    static HWY_INLINE hn::Vec<WordLanes> multiply(Halves<V> codes, const std::int8_t* low_column,
                                                  const std::int8_t* high_column) {
        const auto low = multiply_bytes(codes.low, load_column(low_column));
        const auto high = multiply_bytes(codes.high, load_column(high_column));
        const auto none = hn::Zero(WordLanes());
        if constexpr (Format::kIsSmall) return Pairs::add(hn::Add(low, high), none);
        return Pairs::add(high, Pairs::add(low, none));
    }
};

#if HEDDLE_HAS_FUSED_BYTES
/// Signed codes are made unsigned.
template <class Format>
struct Fused {
    static constexpr int kOffset = Format::kIsSigned ? 128 : Format::kOffset;

    template <class V>
    static HWY_INLINE hn::Vec<WordLanes> multiply(Halves<V> codes, const std::int8_t* low_column,
                                                  const std::int8_t* high_column) {
        const auto add = [](V half, const std::int8_t* column, auto sum) HWY_ATTR {
            auto bytes = hn::BitCast(ByteLanes(), half);
            if constexpr (Format::kIsSigned) bytes = hn::Xor(bytes, hn::Set(ByteLanes(), 128));
            return FusedBytes::multiply_add(bytes, hn::BitCast(WordLanes(), load_column(column)),
                                            sum);
        };
        return add(codes.high, high_column, add(codes.low, low_column, hn::Zero(WordLanes())));
    }
};
#endif

/// Sums of codes, so many for each scale, as they are to be multiplied with scales.
template <int kOffset>
float offset_sum(const std::byte* codes, int count) {
    std::int32_t sum = 0;
    for (int i = 0; i < count; ++i) sum += static_cast<std::int8_t>(codes[i]);
    return static_cast<float>(-kOffset * sum);
}

template <class Format, class Products>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    using Other = typename Format::Other;
    using Group = ColumnGroup<Format::kScales>;
    static_assert(sizeof(Group) <= 2 * 32 * kGroupBlocks);
    const auto* blocks = static_cast<const std::byte*>(from);
    auto* groups = reinterpret_cast<Group*>(to);
    const std::int64_t count = depth / 32;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::byte* block = blocks + i * static_cast<std::int64_t>(sizeof(Other));
        const std::byte* codes = block + offsetof(Other, qs);
        Group& group = groups[i / kGroupBlocks];
        const std::int64_t place = i % kGroupBlocks;
        if (place == 0) std::memset(&group, 0, sizeof group);  // the last may be in part
        std::int8_t *low = group.low + 16 * place, *high = group.high + 16 * place;
        if constexpr (Format::kScales == 2 * kGroupBlocks) {
            for (int part = 0; part < 2; ++part, codes += 16) {
                std::memcpy(low + 8 * part, codes, 8);
                std::memcpy(high + 8 * part, codes + 8, 8);
                group.scales[2 * place + part] = read_half(block);
                group.sums[2 * place + part] = offset_sum<Products::kOffset>(codes, 16);
            }
        } else {
            std::memcpy(low, codes, 16);
            std::memcpy(high, codes + 16, 16);
            group.scales[place] = read_half(block);
            group.sums[place] = Format::kHasMinimum ? read_half(block + offsetof(block_q8_1, s))
                                                    : offset_sum<Products::kOffset>(codes, 32);
        }
    }
}

/// Products of a row with a few columns.
template <class Format, class Products, int kColumns>
struct RowSums {
    using Group = ColumnGroup<Format::kScales>;

    ColumnSums<FloatLanes, kColumns> total;
    ColumnSums<Quad, kColumns> rest;

    HWY_INLINE RowSums() {}  // for the instruction set: a default one would not be

    /// Group `g` of each column; `from` is that of the row.
    HWY_INLINE void add(const std::byte* from, const Group* const (&columns)[kColumns],
                        std::int64_t g) {
        const Units<Format> own(from);
        for (int c = 0; c < kColumns; ++c) {
            const Units<Format> units = own.times(columns[c][g].scales);
            add_vectors(from, columns[c][g], units, total[c]);
            if constexpr (Format::kHasMinimum) {
                using Block = typename Format::Block;
                rest[c] = hn::MulAdd(gather_halves<Block>(from + offsetof(Block, m)),
                                     hn::LoadU(Quad(), columns[c][g].sums), rest[c]);
            } else if constexpr (Products::kOffset != 0) {
                rest[c] = units.multiply_add(columns[c][g].sums, rest[c]);
            }
        }
    }

    HWY_INLINE void put(float* const* out, std::int64_t row) const {
        for (int c = 0; c < kColumns; ++c) {
            out[c][row] = hn::GetLane(hn::SumOfLanes(FloatLanes(), total[c])) +
                          hn::GetLane(hn::SumOfLanes(Quad(), rest[c]));
        }
    }

private:
    /// What is unpacked is the same for all columns, and the compiler sees that.
    template <int kFirst = 0>
    static HWY_INLINE void add_vectors(const std::byte* from, const Group& group,
                                       const Units<Format>& units, hn::Vec<FloatLanes>& sum) {
        if constexpr (kFirst < kGroupBlocks) {
            const auto products = Products::multiply(
                codes_of<Format, kFirst>(from), group.low + 16 * kFirst, group.high + 16 * kFirst);
            sum = hn::MulAdd(hn::ConvertTo(FloatLanes(), products), units.template spread<kFirst>(),
                             sum);
            add_vectors<kFirst + kVectorBlocks>(from, group, units, sum);
        }
    }
};

template <class Format, class Products>
struct Gemv {
    template <int kColumns>
    static void multiply(const MatrixView& view, Turns turns, const std::byte* const* columns,
                         float* const* out) {
        using Sums = RowSums<Format, Products, kColumns>;
        constexpr std::size_t kSize =
            sizeof(typename Format::Block) * (32 * kGroupBlocks / Format::kElements);
        const typename Sums::Group* groups[kColumns];
        for (int c = 0; c < kColumns; ++c) {
            groups[c] = reinterpret_cast<const typename Sums::Group*>(columns[c]);
        }
        const std::int64_t count = view.depth / 32 / kGroupBlocks,
                           left = view.depth / 32 % kGroupBlocks;
        for_rows_in_thirds(view, turns, [&](const RowsInThirds& rows) HWY_ATTR {
            const std::byte *row0 = rows.row[0], *row1 = rows.row[1], *row2 = rows.row[2];
            Sums sums0, sums1, sums2;
            for (std::int64_t g = 0; g < count; ++g, row0 += kSize, row1 += kSize, row2 += kSize) {
                prefetch_rows<kColumns, kSize>(row0, row1, row2);
                sums0.add(row0, groups, g);
                sums1.add(row1, groups, g);
                sums2.add(row2, groups, g);
            }
            const auto finish = [&](const std::byte* rest, Sums& sums, std::int64_t row) HWY_ATTR {
                if (left > 0) {  // no byte behind the row is read
                    std::byte last[kSize] = {};
                    std::memcpy(last, rest, static_cast<std::size_t>(left) * kSize / kGroupBlocks);
                    sums.add(last, groups, count);
                }
                sums.put(out, row);
            };
            finish(row0, sums0, rows.at[0]);
            finish(row1, sums1, rows.at[1]);
            finish(row2, sums2, rows.at[2]);
        });
    }
};

template <class Format, class Products, std::int64_t kColumns>
constexpr GemvKernel kKernel{.arrange = arrange<Format, Products>,
                             .multiply = multiply_columns<2, Gemv<Format, Products> >,
                             .most_columns = kColumns};

template <class Format>
GemvKernel kernel() {
#if HEDDLE_HAS_FUSED_BYTES
    if (FusedBytes::is_there()) return kKernel<Format, Fused<Format>, kMostFusedColumns>;
#endif
    return kKernel<Format, Paired<Format>, kMostPairedColumns>;
}

}  // namespace

GemvKernel gemv_simple(Type type) {
    return find_by_type<GemvKernel, Family::simple>(
        type, []<Type kType>() { return kernel<typename BlockFormat<kType>::Gemv>(); });
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemv_simple);

GemvKernel gemv_simple_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemv_simple)(type); }

}  // namespace heddle::cpu
#endif
