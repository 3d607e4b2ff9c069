// Formats of one or two scales for 32 elements, or one for more, as streams of one column unpack
// them: 128 elements at a time, four blocks of the column and of most formats. A vector has the
// first, or second, half of as many of them as it has room for. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_SIMPLE_STREAM_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_SIMPLE_STREAM_FORMATS_HPP
#undef HEDDLE_CPU_DOT_SIMPLE_STREAM_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_SIMPLE_STREAM_FORMATS_HPP
#endif

#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/dot/stream_lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HEDDLE_HAS_BYTE_PRODUCTS

constexpr int kGroup = 4;             ///< blocks of a group
constexpr int kBlocks = kBytes / 16;  ///< of a vector
static_assert(kGroup % kBlocks == 0);

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

/// So many unsigned numbers, `kStride` bytes apart, one beside the other.
template <std::size_t kStride, class T, std::size_t kCount>
HWY_INLINE std::uint64_t gather_numbers(const std::byte* from) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        all |= std::uint64_t{read<T>(from + i * kStride)} << 8 * sizeof(T) * i;
    }
    return all;
}

/// `value` where the bits for elements are set, those of each block at `from` and `kStride` bytes
/// behind the ones before.
template <std::size_t kStride>
HWY_INLINE hn::Vec<ByteLanes> where_set(const std::byte* from, std::uint8_t value) {
    const auto all = gather_numbers<kStride, std::uint16_t, kBlocks>(from);
    std::uint8_t bytes[8];
    std::memcpy(bytes, &all, sizeof bytes);
    return hn::IfThenElseZero(hn::LoadMaskBits(ByteLanes(), bytes), hn::Set(ByteLanes(), value));
}

/// A half of each block of a group.
template <class Block>
HWY_INLINE hn::Vec<Quad> gather_halves(const std::byte* from) {
    return four_halves(gather_numbers<sizeof(Block), std::uint16_t, kGroup>(from));
}

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
    static constexpr int kElements = 32;        ///< of a block
    static constexpr int kScales = kGroup;      ///< of a group: one or two for each 32 elements
    static constexpr int kOffset = 0;           ///< zero point of unsigned codes
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
        const auto codes = nibbles(from);
        const std::byte* bits = from + offsetof(B, qh);
        return {hn::Or(codes.low, where_set<sizeof(B)>(bits, 16)),
                hn::Or(codes.high, where_set<sizeof(B)>(bits + 2, 16))};
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

/// `kFp4Levels` of low and high nibbles, each raised by 12: not negative.
HWY_INLINE ByteHalves raised_fp4(hn::Vec<ByteLanes> bytes) {
    alignas(16) static constexpr std::uint8_t kLevels[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                             12, 11, 10, 9,  8,  6,  4,  0};
    const auto table = hn::LoadDup128(ByteLanes(), kLevels);
    return {hn::TableLookupBytes(table, hn::And(bytes, hn::Set(ByteLanes(), 15))),
            hn::TableLookupBytes(table, hn::ShiftRight<4>(bytes))};
}

struct StreamMxfp4 : Format<block_mxfp4> {
    static constexpr int kOffset = 12;

    static HWY_INLINE ByteHalves codes(const std::byte* from) {
        return raised_fp4(gather<Block>(from + offsetof(Block, qs)));
    }

    /// Half of a power of two each; the two smallest are denormal numbers.
    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        const hn::FixedTag<std::uint32_t, 4> words;
        const auto bytes =
            gather_numbers<sizeof(Block), std::uint8_t, kGroup>(from + offsetof(Block, e));
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

/// Codes of the blocks from `kFirst` of a group on.
template <class Format, int kFirst>
HWY_INLINE auto codes_of(const std::byte* group) {
    if constexpr (Format::kElements == 32) {
        return Format::codes(group + kFirst * sizeof(typename Format::Block));
    } else {
        return Format::template codes<kFirst>(group);
    }
}

// Blocks of more than 32 elements: `codes` is for blocks of the column, from `kFirst` of a group
// on.

/// A bit is 0 or 2 here, less 1.
struct StreamQ1_0 : Format<block_q1_0> {
    static constexpr int kElements = QK1_0, kOffset = 1;

    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        return hn::Set(Quad(), read_half(from + offsetof(Block, d)));
    }

    template <int kFirst>
    static HWY_INLINE ByteHalves codes(const std::byte* from) {
        const std::byte* bits = from + offsetof(Block, qs) + 4 * kFirst;
        return {where_set<4>(bits, 2), where_set<4>(bits + 2, 2)};
    }
};

/// Sixteen bytes of each block of 64 elements, of the two that a group has: as many as a vector of
/// `codes<kFirst>` comes from.
template <class Block, int kFirst>
HWY_INLINE hn::Vec<ByteLanes> duplicated_sixteens(const std::byte* from) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(from + kFirst / 2 * sizeof(Block));
#if HWY_MAX_BYTES >= 64
    const hn::FixedTag<std::uint8_t, 32> half;
    return hn::Combine(ByteLanes(), hn::LoadDup128(half, bytes + sizeof(Block)),
                       hn::LoadDup128(half, bytes));
#else
    return hn::LoadDup128(ByteLanes(), bytes);
#endif
}

struct StreamQ2_0 : Format<block_q2_0> {
    static constexpr int kElements = QK2_0, kOffset = 1;

    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        const std::uint64_t first = read<std::uint16_t>(from + offsetof(Block, d));
        const std::uint64_t second = read<std::uint16_t>(from + sizeof(Block) + offsetof(Block, d));
        return four_halves((first | second << 32) * 0x10001);
    }

    template <int kFirst>
    static HWY_INLINE ByteHalves codes(const std::byte* from) {
        const auto bytes = duplicated_sixteens<Block, kFirst>(from + offsetof(Block, qs));
        return {four_bytes(bytes, 8 * (kFirst % 2)), four_bytes(bytes, 8 * (kFirst % 2) + 4)};
    }

private:
    /// The codes of four bytes, from `first` of the bytes of each block on.
    static HWY_INLINE hn::Vec<ByteLanes> four_bytes(hn::Vec<ByteLanes> bytes, int first) {
        HWY_ALIGN static constexpr std::uint8_t kOrder[64] = {
            0, 0, 0,  0,  1,  1,  1,  1,  2,  2,  2, 2, 3,  3,  3,  3,  8,  8,  8,  8, 9, 9,
            9, 9, 10, 10, 10, 10, 11, 11, 11, 11, 0, 0, 0,  0,  1,  1,  1,  1,  2,  2, 2, 2,
            3, 3, 3,  3,  8,  8,  8,  8,  9,  9,  9, 9, 10, 10, 10, 10, 11, 11, 11, 11};
        alignas(16) static constexpr std::uint8_t kPlaces[16] = {3, 12, 48, 192, 3, 12, 48, 192,
                                                                 3, 12, 48, 192, 3, 12, 48, 192};
        // What is in bits 0 and 1, or else in 2 and 3.
        alignas(16) static constexpr std::uint8_t kValues[16] = {0, 1, 2, 3, 1, 0, 0, 0,
                                                                 2, 0, 0, 0, 3, 0, 0, 0};
        const ByteLanes d;
        const auto order =
            hn::Add(hn::Load(d, kOrder), hn::Set(d, static_cast<std::uint8_t>(first)));
        const auto pairs = hn::And(hn::TableLookupBytes(bytes, order), hn::LoadDup128(d, kPlaces));
        const auto nibbles = hn::And(hn::Or(pairs, hn::ShiftRight<4>(pairs)), hn::Set(d, 15));
        return hn::TableLookupBytes(hn::LoadDup128(d, kValues), nibbles);
    }
};

/// Two scales for 32 elements. Eight bytes hold sixteen elements, j and j + 8 together: `arrange`
/// lays the column out to match.
struct StreamNvfp4 : Format<block_nvfp4> {
    static constexpr int kElements = QK_NVFP4, kScales = 8, kOffset = 12;

    /// Of a block.
    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        const hn::FixedTag<std::uint8_t, 4> bytes;
        const hn::FixedTag<std::uint16_t, 4> words;
        const auto codes =
            hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, d)));
        const auto bits = hn::And(hn::PromoteTo(words, codes), hn::Set(words, 255));
        const auto valid = hn::IfThenZeroElse(hn::Eq(bits, hn::Set(words, 0x7f)), bits);
        // The exponent of a half is one bit longer, and 8 more; half the value is asked for.
        const auto halves = hn::ShiftLeft<7>(hn::And(valid, hn::Set(words, 0x7f)));
        return hn::Mul(
            hn::PromoteTo(Quad(), hn::BitCast(hn::FixedTag<hwy::float16_t, 4>(), halves)),
            hn::Set(Quad(), 128.0f));
    }

    template <int kFirst>
    static HWY_INLINE ByteHalves codes(const std::byte* from) {
        return raised_fp4(bytes<kFirst>(from + offsetof(Block, qs)));
    }

private:
    template <int kFirst>
    static HWY_INLINE hn::Vec<ByteLanes> bytes(const std::byte* from) {
#if HWY_MAX_BYTES >= 64
        const hn::FixedTag<std::uint8_t, 32> half;
        const auto* at = reinterpret_cast<const std::uint8_t*>(from);
        return hn::Combine(ByteLanes(), hn::LoadU(half, at + sizeof(Block)), hn::LoadU(half, at));
#else
        return load_lanes(from + kFirst / 2 * sizeof(Block) + kFirst % 2 * 16);
#endif
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
