// What formats with one or two scales for 32 elements, or one for more, have in common. They are
// multiplied by q8_0 or q8_1. Included once per instruction set, inside a file that is compiled by
// foreach_target.h.
//
// A format unpacks 32 elements, number `group` of its block, into two vectors; a source is one
// block, or stands for blocks at the same place of several rows. Most formats need no more than
// bytes at the same place of one or two sixteens of a block: those say where these are (`kLoads` of
// them, `load_at`), and what they hold (`decode`).
#if defined(HEDDLE_CPU_DOT_FORMATS_SIMPLE_BLOCK_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_SIMPLE_BLOCK_HPP
#undef HEDDLE_CPU_DOT_FORMATS_SIMPLE_BLOCK_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_SIMPLE_BLOCK_HPP
#endif

#include "backends/cpu/dot/formats/block_format.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// Codes go up to `kMost` once they are unsigned; `kZero` of them then stands for 0.
template <class B, int kCount, int kZero, int kMost>
struct SimpleBlock {
    using Facts = SimpleBlock;
    using Block = B;
    using Other = block_q8_0;
    static constexpr int kElements = kCount;
    static constexpr int kZeroPoint = kZero;
    static constexpr int kMostCode = kMost;
    static constexpr bool kHasTwoScales = false;  ///< for 16 elements each
    static constexpr bool kHasMinimum = false;

    static HWY_INLINE F16 stored_scale(const std::byte* block, int) {
        return {read<std::uint16_t>(block + offsetof(Block, d))};
    }
    static HWY_INLINE float scale(const std::byte* block, int) {
        return to_float(stored_scale(block, 0));
    }
};

template <class B, int kMost>
struct SimpleBlockWithMinimum : SimpleBlock<B, 32, 0, kMost> {
    using Facts = SimpleBlockWithMinimum;
    using Other = block_q8_1;
    static constexpr bool kHasMinimum = true;

    static HWY_INLINE F16 stored_minimum(const std::byte* block) {
        return {read<std::uint16_t>(block + offsetof(B, m))};
    }
    static HWY_INLINE float minimum(const std::byte* block) {
        return to_float(stored_minimum(block));
    }
};

/// Formats of `kCount` sixteens of bytes, from byte `kFirst` of a block on.
template <class Format, std::size_t kFirst, int kCount>
struct FromSixteens {
    static constexpr int kLoads = kCount;
    static constexpr std::size_t load_at(int i) {
        return kFirst + 16 * static_cast<std::size_t>(i);
    }

    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int, V& low, V& high) {
        if constexpr (kLoads == 1) {
            Format::decode(low, high, load_bytes(block + load_at(0)));
        } else {
            Format::decode(low, high, load_bytes(block + load_at(0)),
                           load_bytes(block + load_at(1)));
        }
    }
};

/// Bytes that hold elements j and j + 16, less `zero_point`.
template <class B, class V>
HWY_INLINE void unpack_nibbles(B bytes, std::int8_t zero_point, V& low, V& high) {
    low = minus(low_nibbles(bytes), zero_point);
    high = minus(high_nibbles(bytes), zero_point);
}

/// The same for bytes that name levels.
template <class B, class V>
HWY_INLINE void unpack_levels(const std::int8_t (&levels)[16], B bytes, V& low, V& high) {
    low = look_up(levels, low_nibbles(bytes));
    high = look_up(levels, high_nibbles(bytes));
}

#if HEDDLE_HAS_BYTE_PRODUCTS
// ---- GEMV: 128 elements at a time ---------------------------------------------------------------
// These are four blocks of the column and of most formats. A vector has the first, or second, half
// of as many of them as it has room for.

constexpr int kGroupBlocks = 4;             ///< blocks of a group
constexpr int kVectorBlocks = kBytes / 16;  ///< of a vector
static_assert(kGroupBlocks % kVectorBlocks == 0);

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
    const auto all = gather_numbers<kStride, std::uint16_t, kVectorBlocks>(from);
    std::uint8_t bytes[8];
    std::memcpy(bytes, &all, sizeof bytes);
    return hn::IfThenElseZero(hn::LoadMaskBits(ByteLanes(), bytes), hn::Set(ByteLanes(), value));
}

/// A half of each block of a group.
template <class Block>
HWY_INLINE hn::Vec<Quad> gather_halves(const std::byte* from) {
    return four_halves(gather_numbers<sizeof(Block), std::uint16_t, kGroupBlocks>(from));
}

/// Codes of a vector of blocks, those of elements 0 .. 15 and the rest.
template <class V>
struct Halves {
    V low, high;
};
using ByteHalves = Halves<hn::Vec<ByteLanes> >;
using CodeHalves = Halves<hn::Vec<CodeLanes> >;

/// What is the same for most formats, if blocks have 32 elements.
template <class Facts>
struct SimpleGemv {
    using Block = typename Facts::Block;
    using Other = typename Facts::Other;
    static constexpr int kElements = Facts::kElements;  ///< of a block
    static constexpr int kScales = kGroupBlocks;        ///< of a group: one or two for each 32
    static constexpr bool kIsSigned = wants_signs(Facts::kMostCode);   ///< codes are
    static constexpr int kOffset = kIsSigned ? 0 : Facts::kZeroPoint;  ///< of unsigned codes
    /// Four products fit into 16 bits.
    static constexpr bool kIsSmall = 4 * Facts::kMostCode * 128 <= 32767;
    static constexpr bool kHasMinimum = Facts::kHasMinimum;

    /// Of a group.
    static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
        return gather_halves<Block>(from + offsetof(Block, d));
    }

    // The rest is for a vector of blocks.

    static HWY_INLINE ByteHalves nibbles(const std::byte* from) {
        const auto bytes = gather<Block>(from + offsetof(Block, qs));
        return {hn::And(bytes, hn::Set(ByteLanes(), 15)), hn::ShiftRight<4>(bytes)};
    }
};
#endif

#if HEDDLE_HAS_REPACK
// ---- repacked rows ------------------------------------------------------------------------------

template <class Facts, bool kIsSigned>
struct SimpleRepacked {
    using Block = typename Facts::Block;
    using Scale = float;
    using Other = typename Facts::Other;
    static constexpr int kElements = Facts::kElements;
    static constexpr int kGroups = 1;
    static constexpr bool kHasMinima = false;
    static constexpr int kOffset = kIsSigned ? 0 : Facts::kZeroPoint;
    static constexpr int kMostCode = Facts::kMostCode;
    static constexpr int kLast = sizeof(Block) - sizeof(Block::qs);  ///< the scale
};

/// Bytes hold elements j and j + 16; `code(nibbles)` gives codes.
template <class Sink, class Code>
HWY_INLINE void put_nibbles(const Place& at, Sink& sink, Code code) {
    HWY_UNROLL(4)
    for (int u = 0; u < 4; ++u) sink.put(u, code(bits_of<0>(at.words(0, u), 15)));
    HWY_UNROLL(4)
    for (int u = 0; u < 4; ++u) sink.put(4 + u, code(bits_of<4>(at.words(0, u), 15)));
}

/// The same where they name levels, each of which `offset` is added to.
template <class Sink>
HWY_INLINE void put_levels(const std::int8_t (&levels)[16], int offset, const Place& at,
                           Sink& sink) {
    const auto stored = hn::LoadDup128(ByteLanes(), reinterpret_cast<const std::uint8_t*>(levels));
    const auto table = hn::Add(stored, hn::Set(ByteLanes(), static_cast<std::uint8_t>(offset)));
    put_nibbles(at, sink,
                [&](ByteVec codes) HWY_ATTR { return hn::TableLookupBytes(table, codes); });
}
#endif

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
