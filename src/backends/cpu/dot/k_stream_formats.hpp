// Formats of super-blocks as streams of one column unpack them, a vector of bytes at a time.
// Included once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_K_STREAM_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_K_STREAM_FORMATS_HPP
#undef HEDDLE_CPU_DOT_K_STREAM_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_K_STREAM_FORMATS_HPP
#endif

#include <type_traits>

#include "backends/cpu/dot/levels.hpp"
#include "backends/cpu/dot/stream_lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HEDDLE_HAS_BYTE_PRODUCTS

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

// ---- formats -----------------------------------------------------------------------------------
// Each has vectors of codes, the elements that are in them, and a scale for `kGroup` elements,
// which `put_scales` stores. The zero point of codes is a minimum for each group, or `kOffset`
// times its scale: `put_scales` returns what the sums of the column's groups are to be multiplied
// with. With 8 groups these are the upper 8.

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
HWY_INLINE hn::Vec<ByteLanes> bit_pairs(const std::byte* from) {
    constexpr int kPlace = kVector * kBytes;
    return hn::And(planes<2, kPlace % 128, 0>(from + kPlace / 128 * 32), hn::Set(ByteLanes(), 3));
}

/// Of one vector of bytes after the other the low nibbles, then the high ones.
template <int kVector>
HWY_INLINE hn::Vec<ByteLanes> nibbles(const std::byte* from) {
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

struct StreamQ2K {
    using Block = block_q2_K;
    static constexpr int kGroup = 16, kOffset = 0;
    static constexpr int element(int place) { return place; }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto bytes = load_bytes(from + offsetof(Block, scales));
        SixteenWords(hn::And(bytes, hn::Set(Bytes(), 15))).store(to);
        return SixteenWords(hn::ShiftRight<4>(bytes));
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return bit_pairs<kVector>(from + offsetof(Block, qs));
    }
};

struct StreamQ3K {
    using Block = block_q3_K;
    static constexpr int kGroup = 16, kOffset = 4;
    static constexpr int element(int place) { return place; }

    /// Six bits each: nibbles, and under them pairs of bits.
    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto four = read<std::uint64_t>(from + offsetof(Block, scales));
        const std::uint64_t two = read<std::uint32_t>(from + offsetof(Block, scales) + 8);
        constexpr std::uint64_t kFour = 0x0f0f0f0f0f0f0f0f, kTwo = 0x3030303030303030;
        const std::uint64_t low = (four & kFour) | ((two << 4 | two << 34) & kTwo);
        const std::uint64_t high = (four >> 4 & kFour) | ((two | two >> 2 << 32) & kTwo);
        const auto scales = as_codes(word_bytes(low, high));
        return stored(SixteenWords(hn::Sub(scales, hn::Set(Codes(), 32))), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        const auto high = planes<1, kVector * kBytes, 2>(from + offsetof(Block, hmask));
        return hn::OrAnd(bit_pairs<kVector>(from + offsetof(Block, qs)), high,
                         hn::Set(ByteLanes(), 4));
    }
};

/// The six-bit scales and minima of q4_K and q5_K.
HWY_INLINE SixteenWords put_six_bits(const std::byte* from, std::int16_t* to) {
    const auto a = read<std::uint32_t>(from), b = read<std::uint32_t>(from + 4);
    const auto c = read<std::uint32_t>(from + 8);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
    const std::uint64_t scales = (c & kFour) | (a >> 2 & kTwo);
    const std::uint64_t minima = (c >> 4 & kFour) | (b >> 2 & kTwo);
    return stored(SixteenWords(word_bytes(scales << 32 | (a & kSix), minima << 32 | (b & kSix))),
                  to);
}

struct StreamQ4K {
    using Block = block_q4_K;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 32); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        return put_six_bits(from + offsetof(Block, scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return nibbles<kVector>(from + offsetof(Block, qs));
    }
};

struct StreamQ5K {
    using Block = block_q5_K;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 32); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        return put_six_bits(from + offsetof(Block, scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        const auto high =
            planes<2, nibble_bytes(kVector), 4 - kVector % 2>(from + offsetof(Block, qh));
        return hn::OrAnd(nibbles<kVector>(from + offsetof(Block, qs)), high,
                         hn::Set(ByteLanes(), 16));
    }
};

struct StreamQ6K {
    using Block = block_q6_K;
    static constexpr int kGroup = 16, kOffset = 32;
    static constexpr int element(int place) { return element_of_nibbles(place, 64); }

    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        const auto scales = load_codes(from + offsetof(Block, scales));
        return stored(SixteenWords(scales), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        constexpr int kByte = nibble_bytes(kVector);
        const std::byte* pairs = from + offsetof(Block, qh) + kByte / 64 * 32;
        const auto high = planes<2, kByte % 64 + kVector % 2 * 64, 4>(pairs);
        return hn::OrAnd(nibbles<kVector>(from + offsetof(Block, ql)), high,
                         hn::Set(ByteLanes(), 0x30));
    }
};

/// Codes are signed here.
struct StreamIq4Xs {
    using Block = block_iq4_xs;
    static constexpr int kGroup = 32, kOffset = 0;
    static constexpr int element(int place) { return element_of_nibbles(place, 16); }

    /// Nibbles and pairs of bits, spread over bytes by halving distances.
    static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
        std::uint64_t four = read<std::uint32_t>(from + offsetof(Block, scales_l));
        std::uint64_t two = read<std::uint16_t>(from + offsetof(Block, scales_h));
        four = (four | four << 16) & 0x0000ffff0000ffff;
        four = (four | four << 8) & 0x00ff00ff00ff00ff;
        four = (four | four << 4) & 0x0f0f0f0f0f0f0f0f;
        two = (two | two << 24) & 0x000000ff000000ff;
        two = (two | two << 12) & 0x000f000f000f000f;
        two = (two | two << 6) & 0x0303030303030303;
        const auto scales = as_codes(word_bytes(four | two << 4, 0));
        return stored(SixteenWords(hn::Sub(scales, hn::Set(Codes(), 32))), to);
    }

    template <int kVector>
    static HWY_INLINE hn::Vec<CodeLanes> codes(const std::byte* from) {
        return look_up_lanes(kNonlinearLevels, nibbles<kVector>(from + offsetof(Block, qs)));
    }
};

// Blocks without scales but their unit: all elements are one group.

struct StreamTq2 {
    using Block = block_tq2_0;
    static constexpr int kGroup = QK_K, kOffset = 1;
    static constexpr int element(int place) { return place; }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        return bit_pairs<kVector>(from + offsetof(Block, qs));
    }
};

/// A byte is a fraction of 256 in base three. Its digits come above the point one by one when it is
/// multiplied by three again and again.
struct StreamTq1 {
    using Block = block_tq1_0;
    static constexpr int kGroup = QK_K, kOffset = 1;
    static constexpr int element(int place) { return place; }

    template <int kVector>
    static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
        const auto digits = fractions<kVector * kBytes, kBytes>(from);
        const auto is_above = [&](std::uint8_t value) HWY_ATTR {
            return hn::Min(hn::SaturatedSub(digits, hn::Set(ByteLanes(), value)),
                           hn::Set(ByteLanes(), 1));
        };
        return hn::Add(is_above(85), is_above(170));
    }

private:
    /// Times three to the power of `kPower`.
    template <int kPower, class V>
    static HWY_INLINE V shifted(V bytes) {
        if constexpr (kPower == 0) {
            return bytes;
        } else {
            const V less = shifted<kPower - 1>(bytes);
            return hn::Add(hn::Add(less, less), less);
        }
    }

    /// Those that elements from `kFirst` on have above the point.
    template <int kFirst, int kCount>
    static HWY_INLINE auto fractions(const std::byte* from) {
        const hn::FixedTag<std::uint8_t, kCount> lanes;
        if constexpr (kCount == 32 && kFirst < 160) {
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, qs));
            return shifted<kFirst / 32>(hn::LoadU(lanes, bytes));
        } else if constexpr (kCount > 16) {
            const auto low = fractions<kFirst, kCount / 2>(from);
            return hn::Combine(lanes, fractions<kFirst + kCount / 2, kCount / 2>(from), low);
        } else if constexpr (kFirst < 160) {
            return shifted<kFirst / 32>(load_bytes(from + offsetof(Block, qs) + kFirst % 32));
        } else if constexpr (kFirst < 240) {
            return shifted<(kFirst - 160) / 16>(load_bytes(from + offsetof(Block, qs) + 32));
        } else {
            return last_fractions(read<std::uint32_t>(from + offsetof(Block, qh)));
        }
    }

    /// Four bytes, and three, nine and 27 times each.
    static HWY_INLINE hn::Vec<Bytes> last_fractions(std::uint32_t four) {
        alignas(16) static constexpr std::uint8_t kThree[16] = {0, 0, 0, 0, 255, 255, 255, 255,
                                                                0, 0, 0, 0, 255, 255, 255, 255};
        alignas(16) static constexpr std::uint8_t kNine[16] = {
            0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
        const auto one = hn::BitCast(Bytes(), hn::Set(hn::FixedTag<std::uint32_t, 4>(), four));
        const auto three = hn::Or(hn::And(shifted<1>(one), hn::Load(Bytes(), kThree)),
                                  hn::AndNot(hn::Load(Bytes(), kThree), one));
        return hn::Or(hn::And(shifted<2>(three), hn::Load(Bytes(), kNine)),
                      hn::AndNot(hn::Load(Bytes(), kNine), three));
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
