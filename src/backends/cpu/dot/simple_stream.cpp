#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/simple_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/dot/stream_lanes.hpp"

/// Blocks of 32 elements with one scale, four at a time. A vector has the first, or second, half of
/// as many blocks as it has room for.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if !HEDDLE_HAS_BYTE_PRODUCTS

StreamKernel simple_stream(Type) { return {}; }

#else
namespace {

constexpr int kGroup = 4;             ///< blocks of a group
constexpr int kBlocks = kBytes / 16;  ///< of a vector
static_assert(kGroup % kBlocks == 0);

/// The column for a group.
struct ColumnGroup {
    std::int8_t low[16 * kGroup];   ///< elements 0 .. 15 of each block
    std::int8_t high[16 * kGroup];  ///< elements 16 .. 31
    float scales[kGroup];
    float sums[kGroup];  ///< what the rows' minima, or scales, are multiplied with
};

// ---- several blocks at once --------------------------------------------------------------------

/// Sixteen bytes of each block of a vector.
template <class Block>
HWY_INLINE hn::Vec<ByteLanes> gather(const std::byte* from) {
#if HWY_MAX_BYTES >= 32
    constexpr std::size_t kStride = sizeof(Block);
    const hn::FixedTag<std::uint8_t, 32> two;
    const auto first = hn::Combine(two, load_bytes(from + kStride), load_bytes(from));
#if HWY_MAX_BYTES >= 64
    const auto second =
        hn::Combine(two, load_bytes(from + 3 * kStride), load_bytes(from + 2 * kStride));
    return hn::Combine(ByteLanes(), second, first);
#else
    return first;
#endif
#else
    return load_bytes(from);
#endif
}

/// An unsigned number of each of so many blocks, one beside the other.
template <class Block, class T, std::size_t kCount>
HWY_INLINE std::uint64_t gather_numbers(const std::byte* from) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        all |= std::uint64_t{read<T>(from + i * sizeof(Block))} << 8 * sizeof(T) * i;
    }
    return all;
}

/// A half of each block of a group.
template <class Block>
HWY_INLINE hn::Vec<Quad> gather_halves(const std::byte* from) {
    return four_halves(gather_numbers<Block, std::uint16_t, kGroup>(from));
}

/// A vector from 4 floats, those from `kFirst` on: each fills the lanes of its block.
template <int kFirst>
HWY_INLINE hn::Vec<FloatLanes> spread(hn::Vec<Quad> values) {
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

// ---- formats -----------------------------------------------------------------------------------

/// Codes of a vector of blocks, those of elements 0 .. 15 and the rest.
template <class V>
struct Halves {
    V low, high;
};
using ByteHalves = Halves<hn::Vec<ByteLanes> >;
using CodeHalves = Halves<hn::Vec<CodeLanes> >;

template <class B>
struct Format {
    using Block = B;
    using Other = block_q8_0;
    static constexpr int kOffset = 0;           ///< what unsigned codes have too much
    static constexpr bool kIsSigned = false;    ///< codes are
    static constexpr bool kIsSmall = true;      ///< four products fit into 16 bits
    static constexpr bool kHasMinimum = false;  ///< besides the scale

    /// Of a group.
    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        return gather_halves<B>(from + offsetof(B, d));
    }

    // The rest is for a vector of blocks.

    static HWY_INLINE ByteHalves nibbles(const std::byte* from) {
        const auto bytes = gather<B>(from + offsetof(B, qs));
        return {hn::And(bytes, hn::Set(ByteLanes(), 15)), hn::ShiftRight<4>(bytes)};
    }

    /// With a fifth bit.
    static HWY_INLINE ByteHalves five_bits(const std::byte* from) {
        const auto with = [](hn::Vec<ByteLanes> codes, const std::byte* bits) HWY_ATTR {
            const auto all = gather_numbers<B, std::uint16_t, kBlocks>(bits);
            std::uint8_t bytes[8];
            std::memcpy(bytes, &all, sizeof bytes);
            const auto is_set = hn::LoadMaskBits(ByteLanes(), bytes);
            return hn::Or(codes, hn::IfThenElseZero(is_set, hn::Set(ByteLanes(), 16)));
        };
        const auto codes = nibbles(from);
        const std::byte* bits = from + offsetof(B, qh);
        return {with(codes.low, bits), with(codes.high, bits + 2)};
    }

    static HWY_INLINE CodeHalves levels(const std::int8_t (&table)[16], const std::byte* from) {
        const auto codes = nibbles(from);
        return {look_up_lanes(table, codes.low), look_up_lanes(table, codes.high)};
    }
};

struct StreamQ4_0 : Format<block_q4_0> {
    static constexpr int kOffset = 8;

    static HWY_INLINE ByteHalves codes(const std::byte* from) { return nibbles(from); }
};

struct StreamQ4_1 : Format<block_q4_1> {
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;

    static HWY_INLINE ByteHalves codes(const std::byte* from) { return nibbles(from); }
};

struct StreamQ5_0 : Format<block_q5_0> {
    static constexpr int kOffset = 16;

    static HWY_INLINE ByteHalves codes(const std::byte* from) { return five_bits(from); }
};

struct StreamQ5_1 : Format<block_q5_1> {
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;

    static HWY_INLINE ByteHalves codes(const std::byte* from) { return five_bits(from); }
};

struct StreamQ8_0 : Format<block_q8_0> {
    static constexpr bool kIsSigned = true, kIsSmall = false;

    static HWY_INLINE CodeHalves codes(const std::byte* from) {
        const std::byte* first = from + offsetof(Block, qs);
        return {hn::BitCast(CodeLanes(), gather<Block>(first)),
                hn::BitCast(CodeLanes(), gather<Block>(first + 16))};
    }
};

struct StreamIq4Nl : Format<block_iq4_nl> {
    static constexpr bool kIsSigned = true, kIsSmall = false;

    static HWY_INLINE CodeHalves codes(const std::byte* from) {
        return levels(kNonlinearLevels, from);
    }
};

struct StreamMxfp4 : Format<block_mxfp4> {
    static constexpr bool kIsSigned = true;

    static HWY_INLINE CodeHalves codes(const std::byte* from) { return levels(kFp4Levels, from); }

    /// Half of a power of two each; the two smallest are denormal numbers.
    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        const hn::FixedTag<std::uint32_t, 4> words;
        const auto bytes = gather_numbers<Block, std::uint8_t, kGroup>(from + offsetof(Block, e));
        const auto four = hn::BitCast(
            hn::FixedTag<std::uint8_t, 4>(),
            hn::Set(hn::FixedTag<std::uint32_t, 1>(), static_cast<std::uint32_t>(bytes)));
        const auto exponent = hn::PromoteTo(words, four);
        const auto usual = hn::ShiftLeft<23>(hn::Sub(exponent, hn::Set(words, 1)));
        const auto small = hn::Shl(hn::Set(words, 0x00200000), exponent);
        return hn::BitCast(Quad(),
                           hn::IfThenElse(hn::Gt(exponent, hn::Set(words, 1)), usual, small));
    }
};

// ---- products ----------------------------------------------------------------------------------

template <class Format>
struct Paired {
    static constexpr int kOffset = Format::kOffset;

    template <class V>
    static HWY_INLINE hn::Vec<WordLanes> multiply(Halves<V> codes, const std::int8_t* low_column,
                                                  const std::int8_t* high_column) {
        const auto one = hn::Set(PairLanes(), 1);
        const auto low = multiply_pairs(codes.low, load_column(low_column));
        const auto high = multiply_pairs(codes.high, load_column(high_column));
        const auto none = hn::Zero(WordLanes());
        if constexpr (Format::kIsSmall) return Pairs::add_scaled(hn::Add(low, high), one, none);
        return Pairs::add_scaled(high, one, Pairs::add_scaled(low, one, none));
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

template <class Format, class Products>
void arrange(const void* from, std::int64_t depth, std::byte* to) {
    using Other = typename Format::Other;
    const auto* blocks = static_cast<const std::byte*>(from);
    auto* groups = reinterpret_cast<ColumnGroup*>(to);
    const std::int64_t count = depth / 32;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::byte* block = blocks + i * static_cast<std::int64_t>(sizeof(Other));
        const std::byte* codes = block + offsetof(Other, qs);
        ColumnGroup& group = groups[i / kGroup];
        const std::int64_t place = i % kGroup;
        if (place == 0) std::memset(&group, 0, sizeof group);  // the last may be in part
        std::memcpy(group.low + 16 * place, codes, 16);
        std::memcpy(group.high + 16 * place, codes + 16, 16);
        group.scales[place] = read_half(block);
        if constexpr (Format::kHasMinimum) {
            group.sums[place] = read_half(block + offsetof(block_q8_1, s));
        } else {
            std::int32_t sum = 0;
            for (int j = 0; j < 32; ++j) sum += static_cast<std::int8_t>(codes[j]);
            group.sums[place] = static_cast<float>(-Products::kOffset * sum);
        }
    }
}

template <class Format, class Products>
struct RowSum {
    hn::Vec<FloatLanes> total;
    hn::Vec<Quad> rest;

    HWY_INLINE RowSum() : total(hn::Zero(FloatLanes())), rest(hn::Zero(Quad())) {}

    HWY_INLINE void add(const std::byte* from, const ColumnGroup& group) {
        const auto unit = hn::Mul(Format::scales(from), hn::LoadU(Quad(), group.scales));
        add_vectors(from, group, unit);
        if constexpr (Format::kHasMinimum) {
            using Block = typename Format::Block;
            rest = hn::MulAdd(gather_halves<Block>(from + offsetof(Block, m)),
                              hn::LoadU(Quad(), group.sums), rest);
        } else if constexpr (Products::kOffset != 0) {
            rest = hn::MulAdd(unit, hn::LoadU(Quad(), group.sums), rest);
        }
    }

    template <int kFirst = 0>
    HWY_INLINE void add_vectors(const std::byte* from, const ColumnGroup& group,
                                hn::Vec<Quad> unit) {
        if constexpr (kFirst < kGroup) {
            const auto codes = Format::codes(from + kFirst * sizeof(typename Format::Block));
            const auto sum =
                Products::multiply(codes, group.low + 16 * kFirst, group.high + 16 * kFirst);
            total = hn::MulAdd(hn::ConvertTo(FloatLanes(), sum), spread<kFirst>(unit), total);
            add_vectors<kFirst + kBlocks>(from, group, unit);
        }
    }

    HWY_INLINE float get() const {
        return hn::GetLane(hn::SumOfLanes(FloatLanes(), total)) +
               hn::GetLane(hn::SumOfLanes(Quad(), rest));
    }
};

template <class Format, class Products>
void stream(const Panel& panel, const std::byte* column, float* out) {
    constexpr std::size_t kSize = sizeof(typename Format::Block) * kGroup;
    const auto* groups = reinterpret_cast<const ColumnGroup*>(column);
    const std::int64_t count = panel.depth / 32 / kGroup, left = panel.depth / 32 % kGroup;
    for_rows_in_thirds(panel, [&](const RowsInThirds& rows) HWY_ATTR {
        const std::byte *row0 = rows.row[0], *row1 = rows.row[1], *row2 = rows.row[2];
        RowSum<Format, Products> sum0, sum1, sum2;
        for (std::int64_t g = 0; g < count; ++g, row0 += kSize, row1 += kSize, row2 += kSize) {
            sum0.add(row0, groups[g]);
            sum1.add(row1, groups[g]);
            sum2.add(row2, groups[g]);
        }
        const auto finish = [&](const std::byte* rest, RowSum<Format, Products>& sum) HWY_ATTR {
            if (left > 0) {  // no byte behind the row is read
                std::byte last[kSize] = {};
                std::memcpy(last, rest, static_cast<std::size_t>(left) * (kSize / kGroup));
                sum.add(last, groups[count]);
            }
            return sum.get();
        };
        out[rows.at[0]] = finish(row0, sum0);
        out[rows.at[1]] = finish(row1, sum1);
        out[rows.at[2]] = finish(row2, sum2);
    });
}

template <class Format, class Products, std::int64_t kColumns>
constexpr StreamKernel kKernel{.arrange = arrange<Format, Products>,
                               .multiply = stream<Format, Products>,
                               .most_columns = kColumns};

template <class Format>
StreamKernel kernel() {
#if HEDDLE_HAS_FUSED_BYTES
    if (FusedBytes::is_there()) return kKernel<Format, Fused<Format>, kMostFusedColumns>;
#endif
    return kKernel<Format, Paired<Format>, kMostStreamColumns>;
}

}  // namespace

StreamKernel simple_stream(Type type) {
    if (type == GGML_TYPE_Q4_0) return kernel<StreamQ4_0>();
    if (type == GGML_TYPE_Q4_1) return kernel<StreamQ4_1>();
    if (type == GGML_TYPE_Q5_0) return kernel<StreamQ5_0>();
    if (type == GGML_TYPE_Q5_1) return kernel<StreamQ5_1>();
    if (type == GGML_TYPE_Q8_0) return kernel<StreamQ8_0>();
    if (type == GGML_TYPE_IQ4_NL) return kernel<StreamIq4Nl>();
    if (type == GGML_TYPE_MXFP4) return kernel<StreamMxfp4>();
    return {};
}

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(simple_stream);

StreamKernel simple_stream_of(Type type) { return HWY_DYNAMIC_DISPATCH(simple_stream)(type); }

}  // namespace heddle::cpu
#endif
