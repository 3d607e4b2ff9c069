// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K. Each hands its codes on,
// sixteen at a time, with the whole number that is their scale. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
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
template <int kPair>
HWY_INLINE hn::Vec<Bytes> bit_pairs(hn::Vec<Bytes> bytes) {
    return hn::And(hn::ShiftRight<2 * kPair>(bytes), hn::Set(Bytes(), 3));
}

/// Calls `body` with each of four pairs of bits, and its number as a constant.
template <class Body>
HWY_INLINE void for_bit_pairs(hn::Vec<Bytes> bytes, Body body) {
    body(bit_pairs<0>(bytes), 0);
    body(bit_pairs<1>(bytes), 1);
    body(bit_pairs<2>(bytes), 2);
    body(bit_pairs<3>(bytes), 3);
}

HWY_INLINE hn::Vec<Bytes> all_bytes(int value) {
    return hn::Set(Bytes(), static_cast<std::uint8_t>(value));
}

struct Q2K {
    using Block = block_q2_K;
    static constexpr bool kHasMinima = true;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        to.d = read_half(from + offsetof(Block, d));
        to.dmin = read_half(from + offsetof(Block, dmin));
        std::uint8_t scales[16];
        std::memcpy(scales, from + offsetof(Block, scales), sizeof scales);
        to.put_minima(high_nibbles(load_bytes(from + offsetof(Block, scales))));
        for (int part = 0; part < 4; ++part) {  // 16 bytes, of each half two
            const int first = 8 * (part / 2) + part % 2;
            for_bit_pairs(load_bytes(from + offsetof(Block, qs) + 16 * part),
                          [&](auto codes, int pair) HWY_ATTR {
                              const int group = first + 2 * pair;
                              to.put(group, as_codes(codes), scales[group] & 15);
                          });
        }
    }
};

struct Q3K {
    using Block = block_q3_K;
    static constexpr bool kHasMinima = false;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        to.d = read_half(from + offsetof(Block, d));
        // Scales of six bits, eight to a word: nibbles, and under them pairs of bits.
        const auto nibbles = read<std::uint64_t>(from + offsetof(Block, scales));
        const std::uint64_t pairs = read<std::uint32_t>(from + offsetof(Block, scales) + 8);
        constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f, kPairs = 0x0303030303030303;
        const std::uint64_t low_pairs = pairs | pairs >> 2 << 32;
        const std::uint64_t scales[2] = {
            (nibbles & kNibbles) | (low_pairs & kPairs) << 4,
            (nibbles >> 4 & kNibbles) | ((pairs >> 4 | pairs >> 6 << 32) & kPairs) << 4};
        for (int part = 0; part < 4; ++part) {
            const int first = 8 * (part / 2) + part % 2;
            const auto high = load_bytes(from + offsetof(Block, hmask) + 16 * (part % 2));
            for_bit_pairs(load_bytes(from + offsetof(Block, qs) + 16 * part),
                          [&](auto codes, int pair) HWY_ATTR {
                              const int g = first + 2 * pair;
                              const int scale =
                                  static_cast<int>(scales[g / 8] >> 8 * (g % 8) & 63) - 32;
                              const auto upper = where_bits(high, all_bytes(1 << (g / 2)), 4);
                              const auto level =
                                  hn::Sub(hn::Add(as_codes(codes), upper), hn::Set(Codes(), 4));
                              to.put(g, level, scale);
                          });
        }
    }
};

/// The six-bit scales of q4_K and q5_K, one in each byte of the result; and their minima, each of
/// which counts for two groups of 16.
template <class Block, class Unpacked>
HWY_INLINE std::uint64_t unpack_scales(const std::byte* from, Unpacked& to) {
    to.d = read_half(from + offsetof(Block, d));
    to.dmin = read_half(from + offsetof(Block, dmin));
    const std::byte* packed = from + offsetof(Block, scales);
    const auto a = read<std::uint32_t>(packed), b = read<std::uint32_t>(packed + 4);
    const auto c = read<std::uint32_t>(packed + 8);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
    const std::uint64_t scales = (c & kFour) | (a >> 6 & kTwo) << 4;
    const std::uint64_t minima = (c >> 4 & kFour) | (b >> 6 & kTwo) << 4;
    const hn::FixedTag<std::uint64_t, 2> words;
    const auto bytes = hn::BitCast(Codes(), hn::Set(words, minima << 32 | (b & kSix)));
    to.put_minima(hn::InterleaveLower(Codes(), bytes, bytes));
    return scales << 32 | (a & kSix);
}

struct Q4K {
    using Block = block_q4_K;
    static constexpr bool kHasMinima = true;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        const std::uint64_t scales = unpack_scales<Block>(from, to);
        const auto scale = [&](int g) { return static_cast<int>(scales >> 8 * g & 255); };
        for (int part = 0; part < 8; ++part) {  // 16 bytes hold elements j and j + 32
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * part);
            const int pair = part / 2;
            const int group = 4 * pair + part % 2;
            to.put(group, low_nibbles(bytes), scale(2 * pair));
            to.put(group + 2, high_nibbles(bytes), scale(2 * pair + 1));
        }
    }
};

struct Q5K {
    using Block = block_q5_K;
    static constexpr bool kHasMinima = true;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        const std::uint64_t scales = unpack_scales<Block>(from, to);
        const auto scale = [&](int g) { return static_cast<int>(scales >> 8 * g & 255); };
        for (int part = 0; part < 8; ++part) {
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * part);
            const auto bits = load_bytes(from + offsetof(Block, qh) + 16 * (part % 2));
            const int pair = part / 2;
            const int group = 4 * pair + part % 2;
            const auto low_bit = where_bits(bits, all_bytes(1 << (2 * pair)), 16);
            const auto high_bit = where_bits(bits, all_bytes(2 << (2 * pair)), 16);
            to.put(group, hn::Or(low_nibbles(bytes), low_bit), scale(2 * pair));
            to.put(group + 2, hn::Or(high_nibbles(bytes), high_bit), scale(2 * pair + 1));
        }
    }
};

struct Q6K {
    using Block = block_q6_K;
    static constexpr bool kHasMinima = false;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        to.d = read_half(from + offsetof(Block, d));
        std::int8_t scales[16];
        std::memcpy(scales, from + offsetof(Block, scales), sizeof scales);
        const auto middle = hn::Set(Codes(), 32);
        for (int part = 0; part < 4; ++part) {
            const int half = part / 2, odd = part % 2;
            const std::byte* low = from + offsetof(Block, ql) + 64 * half + 16 * odd;
            const auto low0 = load_bytes(low), low1 = load_bytes(low + 32);
            for_bit_pairs(load_bytes(from + offsetof(Block, qh) + 32 * half + 16 * odd),
                          [&](auto upper, int quarter) HWY_ATTR {
                              const auto bytes = quarter % 2 == 0 ? low0 : low1;
                              const auto lower =
                                  quarter < 2 ? low_nibbles(bytes) : high_nibbles(bytes);
                              const auto codes = hn::Or(lower, as_codes(hn::ShiftLeft<4>(upper)));
                              const int group = 8 * half + 2 * quarter + odd;
                              to.put(group, hn::Sub(codes, middle), scales[group]);
                          });
        }
    }
};

struct Iq4Xs {
    using Block = block_iq4_xs;
    static constexpr bool kHasMinima = false;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        to.d = read_half(from + offsetof(Block, d));
        const unsigned scales_h = read<std::uint16_t>(from + offsetof(Block, scales_h));
        const auto scales_l = read<std::uint32_t>(from + offsetof(Block, scales_l));
        for (int g = 0; g < 8; ++g) {
            const unsigned code = (scales_l >> 4 * g & 15u) | (scales_h >> 2 * g & 3u) << 4;
            const int scale = static_cast<int>(code) - 32;
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * g);
            to.put(2 * g, look_up(kNonlinearLevels, low_nibbles(bytes)), scale);
            to.put(2 * g + 1, look_up(kNonlinearLevels, high_nibbles(bytes)), scale);
        }
    }
};

struct Tq2 {
    using Block = block_tq2_0;
    static constexpr bool kHasMinima = false;

    template <class Unpacked>
    HWY_INLINE void unpack(const std::byte* from, Unpacked& to) const {
        to.d = read_half(from + offsetof(Block, d));
        const auto one = hn::Set(Codes(), 1);
        for (int part = 0; part < 4; ++part) {
            const int group = 8 * (part / 2) + part % 2;
            for_bit_pairs(load_bytes(from + offsetof(Block, qs) + 16 * part),
                          [&](auto pairs, int pair) HWY_ATTR {
                              to.put(group + 2 * pair, hn::Sub(as_codes(pairs), one), 1);
                          });
        }
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
