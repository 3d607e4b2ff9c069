// What super-blocks of evenly spaced levels (and iq4_xs) have in common. They are multiplied by
// q8_K. Included once per instruction set, inside a file that is compiled by foreach_target.h.
//
// `scales` reads a block's scales. `codes` unpacks one of `kParts` parts of a block and hands on up
// to `kSlots` times sixteen codes; `group` says which sixteen of the block a slot of a part is. A
// source is one block, or stands for blocks at the same place of several rows. Formats whose scales
// can be unpacked for many rows at a time have `row_scales` besides, for GEMM.
//
// Most formats need no more than bytes at the same place of a few sixteens of them: those say where
// these are (`kLoads` of them, `load_at`), and what codes they hold (`decode`).
#if defined(HEDDLE_CPU_DOT_FORMATS_SUPER_BLOCK_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_SUPER_BLOCK_HPP
#undef HEDDLE_CPU_DOT_FORMATS_SUPER_BLOCK_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_SUPER_BLOCK_HPP
#endif

#include <type_traits>

#include "backends/cpu/dot/formats/block_format.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// `kElements` elements share a scale. Codes go up to `kMost` once they are unsigned; `kZero` of
/// them then stands for 0.
template <class B, int kElements, int kZero, int kMost>
struct KBlock {
    using Facts = KBlock;
    using Block = B;
    static constexpr int kGroup = kElements;
    static constexpr int kZeroPoint = kZero;
    static constexpr int kMostCode = kMost;
    static constexpr bool kHasMinima = requires { &B::dmin; };
};

// ---- sixteen elements at a time -----------------------------------------------------------------

/// Bits 2 * kPair and above it of each byte.
template <int kPair, class V>
HWY_INLINE V bit_pairs(V bytes) {
    return hn::And(hn::ShiftRight<2 * kPair>(bytes), hn::Set(hn::DFromV<V>(), 3));
}

/// Calls `body` with the number of each of four pairs of bits, and the pairs.
template <class V, class Body>
HWY_INLINE void for_bit_pairs(V bytes, Body body) {
    body(0, bit_pairs<0>(bytes));
    body(1, bit_pairs<1>(bytes));
    body(2, bit_pairs<2>(bytes));
    body(3, bit_pairs<3>(bytes));
}

template <class V>
HWY_INLINE V all_bytes(V, int value) {
    return hn::Set(hn::DFromV<V>(), static_cast<std::uint8_t>(value));
}

/// Codes of two bits: 16 bytes hold four times sixteen, two parts for each half of a block.
struct TwoBitParts {
    static constexpr int kParts = 4, kSlots = 4;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 8 * (part / 2) + part % 2 + 2 * slot; }
};

/// Nibbles: 16 bytes hold sixteen elements and those that lie 32 further on.
struct NibbleParts {
    static constexpr int kParts = 8, kSlots = 2;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 4 * (part / 2) + part % 2 + 2 * slot; }
};

/// `codes` of formats that have `decode`: of the sixteens that a part of a block is made of.
template <class Format>
struct Decoding {
    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        const auto load = [&](int i)
                              HWY_ATTR { return load_bytes(from + Format::load_at(part, i)); };
        if constexpr (Format::kLoads == 1) Format::decode(part, put, load(0));
        if constexpr (Format::kLoads == 2) Format::decode(part, put, load(0), load(1));
        if constexpr (Format::kLoads == 3) Format::decode(part, put, load(0), load(1), load(2));
    }
};

/// Place number `number` of sixteen bytes behind `offset`.
constexpr std::size_t sixteen_at(std::size_t offset, int number) {
    return offset + 16 * static_cast<std::size_t>(number);
}

// ---- words of a block, or vectors with a word of each of several --------------------------------

using ScaleLanes = hn::ScalableTag<std::int32_t>;

template <class W>
HWY_INLINE W masked(W words, std::uint32_t mask) {
    if constexpr (std::is_integral_v<W>) {
        return words & mask;
    } else {
        using Lane = hn::TFromD<hn::DFromV<W> >;
        return hn::And(words, hn::Set(hn::DFromV<W>(), static_cast<Lane>(mask)));
    }
}

/// Bits may come from above: they are for the caller to mask off.
template <int kShift, class W>
HWY_INLINE W moved_right(W words) {
    if constexpr (std::is_integral_v<W>) {
        return words >> kShift;
    } else {
        return hn::ShiftRight<kShift>(words);
    }
}

template <class W>
HWY_INLINE W both_of(W a, W b) {
    if constexpr (std::is_integral_v<W>) {
        return a | b;
    } else {
        return hn::Or(a, b);
    }
}

/// Eight bytes below 128, each less `zero`. The top bits keep bytes from borrowing of each other.
HWY_INLINE std::uint64_t less_each(std::uint64_t bytes, std::uint64_t zero) {
    constexpr std::uint64_t kTop = 0x8080808080808080, kEach = 0x0101010101010101;
    return ((bytes | kTop) - kEach * zero) ^ kTop;
}

#if HEDDLE_HAS_BYTE_PRODUCTS
// ---- GEMV: a vector of bytes at a time ----------------------------------------------------------
// A format has vectors of codes, the elements that are in them, and a scale for `kGroup` elements,
// which `put_scales` stores. The zero point of codes is a minimum for each group, or `kOffset`
// times its scale: `put_scales` returns what the sums of the column's groups are to be multiplied
// with. With 8 groups these are the upper 8.

template <class Facts>
struct KGemv {
    using Block = typename Facts::Block;
    static constexpr int kGroup = Facts::kGroup;
    static constexpr int kOffset = wants_signs(Facts::kMostCode) ? 0 : Facts::kZeroPoint;
    static constexpr bool kHasMinima = Facts::kHasMinima;
    static constexpr int element(int place) { return place; }
};

using EightWords = hn::FixedTag<std::int16_t, 8>;

/// Sixteen whole numbers of a super-block, from bytes.
#if HWY_MAX_BYTES >= 32
class SixteenWords {
public:
    using Parts = hn::FixedTag<float, 8>;

    template <class V>
    HWY_INLINE explicit SixteenWords(V bytes) : all_(hn::PromoteTo(Words(), bytes)) {}

    HWY_INLINE void store(std::int16_t* to) const { hn::Store(all_, Words(), to); }

    /// In parts, the sum of the products with others.
    HWY_INLINE hn::Vec<Parts> multiply(const std::int16_t* others) const {
        const hn::FixedTag<std::int32_t, 8> sums;
        auto rest = hn::Zero(sums);
        return hn::ConvertTo(Parts(),
                             hn::ReorderWidenMulAccumulate(sums, all_, hn::LoadU(Words(), others),
                                                           hn::Zero(sums), rest));
    }

private:
    using Words = hn::FixedTag<std::int16_t, 16>;
    hn::Vec<Words> all_;
};
#else
class SixteenWords {
public:
    using Parts = Quad;

    template <class V>
    HWY_INLINE explicit SixteenWords(V bytes)
        : low_(hn::PromoteTo(EightWords(), hn::LowerHalf(hn::Half<hn::DFromV<V> >(), bytes))),
          high_(hn::PromoteTo(EightWords(), hn::UpperHalf(hn::Half<hn::DFromV<V> >(), bytes))) {}

    HWY_INLINE void store(std::int16_t* to) const {
        hn::Store(low_, EightWords(), to);
        hn::Store(high_, EightWords(), to + 8);
    }

    HWY_INLINE hn::Vec<Parts> multiply(const std::int16_t* others) const {
        const hn::FixedTag<std::int32_t, 4> sums;
        auto rest = hn::Zero(sums);
        auto sum = hn::ReorderWidenMulAccumulate(sums, low_, hn::LoadU(EightWords(), others),
                                                 hn::Zero(sums), rest);
        sum = hn::ReorderWidenMulAccumulate(sums, high_, hn::LoadU(EightWords(), others + 8), sum,
                                            rest);
        return hn::ConvertTo(Parts(), hn::Add(sum, rest));
    }

private:
    hn::Vec<EightWords> low_, high_;
};
#endif

HWY_INLINE SixteenWords stored(SixteenWords words, std::int16_t* to) {
    words.store(to);
    return words;
}

HWY_INLINE hn::Vec<Bytes> word_bytes(std::uint64_t low, std::uint64_t high) {
    const hn::FixedTag<std::uint64_t, 1> one;
    const hn::FixedTag<std::uint64_t, 2> two;
    return hn::BitCast(Bytes(), hn::Combine(two, hn::Set(one, high), hn::Set(one, low)));
}

/// Bits that lie in planes of 32 bytes, each `kStep` bits above the one before: those of elements
/// from `kPlace` on, the lowest of each at bit `kBit`. The caller masks off what else is there.
template <int kStep, int kPlace, int kBit>
HWY_INLINE hn::Vec<ByteLanes> planes(const std::byte* from) {
    constexpr int kShift = kStep * (kPlace / 32) - kBit;
#if HWY_MAX_BYTES >= 64
    const hn::FixedTag<std::uint8_t, 32> plane;
    const auto bits = hn::LoadU(plane, reinterpret_cast<const std::uint8_t*>(from));
    const auto next = shifted_right<kStep>(plane, bits);
    return shifted_right<kShift>(ByteLanes(), hn::Combine(ByteLanes(), next, bits));
#else
    return shifted_right<kShift>(ByteLanes(), load_lanes(from + kPlace % 32));
#endif
}

/// Pairs of bits, those of 128 elements in 32 bytes.
template <int kVector>
HWY_INLINE hn::Vec<ByteLanes> pair_planes(const std::byte* from) {
    constexpr int kPlace = kVector * kBytes;
    return hn::And(planes<2, kPlace % 128, 0>(from + kPlace / 128 * 32), hn::Set(ByteLanes(), 3));
}

/// Of one vector of bytes after the other the low nibbles, then the high ones.
template <int kVector>
HWY_INLINE hn::Vec<ByteLanes> nibble_lanes(const std::byte* from) {
    const auto bytes = load_lanes(from + kVector / 2 * kBytes);
    return kVector % 2 == 0 ? hn::And(bytes, hn::Set(ByteLanes(), 15)) : hn::ShiftRight<4>(bytes);
}

/// The element at a place of such nibbles. `run` bytes hold as many elements in their low nibbles,
/// and the next ones in their high nibbles.
constexpr int element_of_nibbles(int place, int run) {
    const int vector = place / (2 * kBytes), high = place / kBytes % 2, lane = place % kBytes;
    const int byte = vector * kBytes + lane;
    return 2 * run * (byte / run) + run * high + byte % run;
}

/// Bytes before those of a vector of nibbles.
constexpr int nibble_bytes(int vector) { return vector / 2 * kBytes; }
#endif

#if HEDDLE_HAS_REPACK
// ---- repacked rows ------------------------------------------------------------------------------

template <class Facts>
struct KRepacked {
    using Block = typename Facts::Block;
    using Scale = float;
    using Other = block_q8_K;
    static constexpr int kElements = QK_K;
    static constexpr int kGroups = 32 / Facts::kGroup;
    static constexpr bool kHasMinima = Facts::kHasMinima;
    static constexpr int kOffset = Facts::kZeroPoint;
    static constexpr int kMostCode = Facts::kMostCode;
    static constexpr int kLast = 0;  ///< units of the scales come first
    static_assert(kMostCode <= 127);
};
#endif

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
