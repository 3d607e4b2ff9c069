// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
//
// `scales` reads a block's scales. `codes` unpacks one of `kParts` parts of a block and hands on up
// to `kSlots` times sixteen codes; `group` says which sixteen of the block a slot of a part is. A
// source is one block, or stands for blocks at the same place of several rows.
//
// Most formats need no more than bytes at the same place of a few sixteens of them: those say where
// these are (`kLoads` of them, `load_at`), and what codes they hold (`decode`).
#if defined(HEDDLE_CPU_DOT_K_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_K_FORMATS_HPP
#undef HEDDLE_CPU_DOT_K_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_K_FORMATS_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/levels.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

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

/// `decode` of the sixteens that a part of a block is made of.
template <class Format, class Source, class Put>
HWY_INLINE void load_and_decode(const Source& from, int part, Put put) {
    const auto load = [&](int i) HWY_ATTR { return load_bytes(from + Format::load_at(part, i)); };
    if constexpr (Format::kLoads == 1) Format::decode(part, put, load(0));
    if constexpr (Format::kLoads == 2) Format::decode(part, put, load(0), load(1));
    if constexpr (Format::kLoads == 3) Format::decode(part, put, load(0), load(1), load(2));
}

/// Place number `number` of sixteen bytes behind `offset`.
constexpr std::size_t sixteen_at(std::size_t offset, int number) {
    return offset + 16 * static_cast<std::size_t>(number);
}

struct Q2K : TwoBitParts {
    using Block = block_q2_K;
    static constexpr bool kHasMinima = true;
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        to.dmin = read_half(from + offsetof(Block, dmin));
        const auto both = load_bytes(from + offsetof(Block, scales));
        hn::Store(low_nibbles(both), Codes(), to.scales);
        hn::Store(high_nibbles(both), Codes(), to.minima);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Q2K>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        for_bit_pairs(bytes, [&](int pair, auto codes) HWY_ATTR { put(pair, as_codes(codes)); });
    }
};

struct Q3K : TwoBitParts {
    using Block = block_q3_K;
    static constexpr bool kHasMinima = false;
    static constexpr int kLoads = 2;
    static constexpr std::size_t load_at(int part, int i) {
        return i == 0 ? sixteen_at(offsetof(Block, qs), part)
                      : sixteen_at(offsetof(Block, hmask), part % 2);
    }

    /// Scales of six bits, less 32, eight to a word: nibbles, and under them pairs of bits.
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        const auto nibbles = read<std::uint64_t>(from + offsetof(Block, scales));
        const std::uint64_t pairs = read<std::uint32_t>(from + offsetof(Block, scales) + 8);
        constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f, kPairs = 0x0303030303030303;
        const std::uint64_t low_pairs = pairs | pairs >> 2 << 32;
        const std::uint64_t codes[2] = {
            (nibbles & kNibbles) | (low_pairs & kPairs) << 4,
            (nibbles >> 4 & kNibbles) | ((pairs >> 4 | pairs >> 6 << 32) & kPairs) << 4};
        constexpr std::uint64_t kTop = 0x8080808080808080, kMiddle = 0x2020202020202020;
        for (int i = 0; i < 2; ++i) {  // the top bits keep bytes from borrowing of each other
            const std::uint64_t less = ((codes[i] | kTop) - kMiddle) ^ kTop;
            std::memcpy(to.scales + 8 * i, &less, sizeof less);
        }
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Q3K>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int part, Put put, V pairs, V high) {
        for_bit_pairs(pairs, [&](int pair, auto codes) HWY_ATTR {
            const auto bit = all_bytes(codes, 1 << (4 * (part / 2) + pair));
            const auto upper = where_bits(high, bit, 4);
            put(pair, less(hn::Add(as_codes(codes), upper), 4));
        });
    }
};

/// The six-bit scales and minima of q4_K and q5_K.
template <class Block>
HWY_INLINE void unpack_scales(const std::byte* from, SuperScales& to) {
    to.d = read_half(from + offsetof(Block, d));
    to.dmin = read_half(from + offsetof(Block, dmin));
    const std::byte* packed = from + offsetof(Block, scales);
    const auto a = read<std::uint32_t>(packed), b = read<std::uint32_t>(packed + 4);
    const auto c = read<std::uint32_t>(packed + 8);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
    const std::uint64_t scales = (c & kFour) | (a >> 6 & kTwo) << 4;
    const std::uint64_t minima = (c >> 4 & kFour) | (b >> 6 & kTwo) << 4;
    put_twice(scales << 32 | (a & kSix), to.scales);
    put_twice(minima << 32 | (b & kSix), to.minima);
}

struct Q4K : NibbleParts {
    using Block = block_q4_K;
    static constexpr bool kHasMinima = true;
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        unpack_scales<Block>(from, to);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Q4K>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        put(0, low_nibbles(bytes));
        put(1, high_nibbles(bytes));
    }
};

struct Q5K : NibbleParts {
    using Block = block_q5_K;
    static constexpr bool kHasMinima = true;
    static constexpr int kLoads = 2;
    static constexpr std::size_t load_at(int part, int i) {
        return i == 0 ? sixteen_at(offsetof(Block, qs), part)
                      : sixteen_at(offsetof(Block, qh), part % 2);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        unpack_scales<Block>(from, to);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Q5K>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int part, Put put, V bytes, V bits) {
        const int pair = part / 2;
        const auto low_bit = where_bits(bits, all_bytes(bits, 1 << (2 * pair)), 16);
        const auto high_bit = where_bits(bits, all_bytes(bits, 2 << (2 * pair)), 16);
        put(0, hn::Or(low_nibbles(bytes), low_bit));
        put(1, hn::Or(high_nibbles(bytes), high_bit));
    }
};

struct Q6K : TwoBitParts {
    using Block = block_q6_K;
    static constexpr bool kHasMinima = false;
    static constexpr int kLoads = 3;
    static constexpr std::size_t load_at(int part, int i) {
        return i < 2 ? sixteen_at(offsetof(Block, ql), part / 2 * 4 + part % 2 + 2 * i)
                     : sixteen_at(offsetof(Block, qh), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memcpy(to.scales, from + offsetof(Block, scales), sizeof to.scales);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Q6K>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V low0, V low1, V high) {
        // The upper two bits of each quarter, where they belong.
        const auto put_quarter = [&](int quarter, auto lower, auto upper) HWY_ATTR {
            const auto bits = as_codes(hn::And(upper, all_bytes(upper, 0x30)));
            put(quarter, less(hn::Or(lower, bits), 32));
        };
        put_quarter(0, low_nibbles(low0), hn::ShiftLeft<4>(high));
        put_quarter(1, low_nibbles(low1), hn::ShiftLeft<2>(high));
        put_quarter(2, high_nibbles(low0), high);
        put_quarter(3, high_nibbles(low1), hn::ShiftRight<2>(high));
    }
};

struct Iq4Xs {
    using Block = block_iq4_xs;
    static constexpr bool kHasMinima = false;
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }
    static constexpr int kParts = 8, kSlots = 2;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int slot) { return 2 * part + slot; }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        const unsigned high = read<std::uint16_t>(from + offsetof(Block, scales_h));
        const auto low = read<std::uint32_t>(from + offsetof(Block, scales_l));
        for (int g = 0; g < 8; ++g) {
            const unsigned code = (low >> 4 * g & 15u) | (high >> 2 * g & 3u) << 4;
            const auto scale = static_cast<std::int8_t>(static_cast<int>(code) - 32);
            to.scales[2 * g] = to.scales[2 * g + 1] = scale;
        }
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Iq4Xs>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        put(0, look_up(kNonlinearLevels, low_nibbles(bytes)));
        put(1, look_up(kNonlinearLevels, high_nibbles(bytes)));
    }
};

struct Tq2 : TwoBitParts {
    using Block = block_tq2_0;
    static constexpr bool kHasMinima = false;
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memset(to.scales, 1, sizeof to.scales);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        load_and_decode<Tq2>(from, part, put);
    }
    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        for_bit_pairs(bytes,
                      [&](int pair, auto codes) HWY_ATTR { put(pair, less(as_codes(codes), 1)); });
    }
};

/// Trits, five to a byte: parts 0 and 1 are 16 bytes each with every other sixteen of the first 160
/// elements, part 2 has the next 80, part 3 the sixteen elements of the last four bytes.
struct Tq1 {
    using Block = block_tq1_0;
    static constexpr bool kHasMinima = false;
    static constexpr int kParts = 4, kSlots = 5;
    static constexpr int slots(int part) { return part < 3 ? kSlots : 1; }
    static constexpr int group(int part, int slot) {
        return part < 2 ? part + 2 * slot : 5 * part + slot;
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memset(to.scales, 1, sizeof to.scales);
    }

    template <class Source, class Put>
    static HWY_INLINE void codes(const Source& from, int part, Put put) {
        if (part == 3) return put(0, top_trits(last_digits(from)));
        auto digits = load_bytes(from + offsetof(Block, qs) + 16 * static_cast<std::size_t>(part));
        for (int slot = 0; slot < kSlots; ++slot) {
            put(slot, top_trits(digits));
            digits = hn::Add(hn::Add(digits, digits), digits);
        }
    }

private:
    /// A byte is a fraction of 256 in base three; the digit above the point when it is multiplied
    /// by three, less 1.
    template <class V>
    static HWY_INLINE auto top_trits(V bytes) {
        const auto at_least = [&](int value) HWY_ATTR {
            const auto is_more = hn::Eq(hn::Max(bytes, all_bytes(bytes, value)), bytes);
            return as_codes(hn::VecFromMask(hn::DFromV<V>(), is_more));
        };
        // Lanes that compare true are -1.
        return hn::Neg(hn::Add(less(at_least(86), -1), at_least(171)));
    }

    /// The last four bytes in lanes 0 .. 3, three times them in lanes 4 .. 7, and so on.
    template <class Source>
    static HWY_INLINE auto last_digits(const Source& from) {
        constexpr int kFirst = 10;  // of the block's last sixteen bytes
        static_assert(offsetof(Block, qh) + 16 - kFirst == sizeof(Block));
        alignas(16) static constexpr std::uint8_t kOrder[16] = {
            kFirst, kFirst + 1, kFirst + 2, kFirst + 3, kFirst, kFirst + 1, kFirst + 2, kFirst + 3,
            kFirst, kFirst + 1, kFirst + 2, kFirst + 3, kFirst, kFirst + 1, kFirst + 2, kFirst + 3};
        alignas(16) static constexpr std::uint8_t kFrom[3][16] = {
            {0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
            {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255},
            {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255}};
        const auto bytes = load_bytes(from + (offsetof(Block, qh) - kFirst));
        const hn::DFromV<decltype(bytes)> d;
        auto digits = hn::TableLookupBytes(bytes, hn::LoadDup128(d, kOrder));
        for (const auto& lanes : kFrom) {
            digits = hn::Add(digits, hn::And(hn::Add(digits, digits), hn::LoadDup128(d, lanes)));
        }
        return digits;
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
