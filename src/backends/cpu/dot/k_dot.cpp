#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/levels.hpp"

/// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns k_dot(Type) { return nullptr; }

#else
namespace {

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

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        to.dmin = read_half(from + offsetof(Block, dmin));
        std::uint8_t scales[16];
        std::memcpy(scales, from + offsetof(Block, scales), sizeof scales);
        put_scaled(high_nibbles(load_bytes(from + offsetof(Block, scales))), 1, to.minima);
        for (int part = 0; part < 4; ++part) {  // 16 bytes, of each half two
            const int first = 8 * (part / 2) + part % 2;
            for_bit_pairs(load_bytes(from + offsetof(Block, qs) + 16 * part),
                          [&](auto codes, int pair) HWY_ATTR {
                              const int group = first + 2 * pair;
                              put_scaled(as_codes(codes), scales[group] & 15,
                                         to.codes + 16 * group);
                          });
        }
    }
};

struct Q3K {
    using Block = block_q3_K;
    static constexpr bool kHasMinima = false;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
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
                              put_scaled(level, scale, to.codes + 16 * g);
                          });
        }
    }
};

/// The six-bit scales of q4_K and q5_K, one in each byte of the result; and their minima, each of
/// which counts for two groups of 16.
template <class Block>
HWY_INLINE std::uint64_t unpack_scales(const std::byte* from, SuperBlock& to) {
    to.d = read_half(from + offsetof(Block, d));
    to.dmin = read_half(from + offsetof(Block, dmin));
    const std::byte* packed = from + offsetof(Block, scales);
    const auto a = read<std::uint32_t>(packed), b = read<std::uint32_t>(packed + 4);
    const auto c = read<std::uint32_t>(packed + 8);
    constexpr std::uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x03030303;
    const std::uint64_t scales = (c & kFour) | (a >> 6 & kTwo) << 4;
    const std::uint64_t minima = (c >> 4 & kFour) | (b >> 6 & kTwo) << 4;
    const hn::FixedTag<std::uint64_t, 1> word;
    const auto bytes =
        hn::BitCast(hn::FixedTag<std::int8_t, 8>(), hn::Set(word, minima << 32 | (b & kSix)));
    const auto words = hn::PromoteTo(Eight(), bytes);
    put_halves(hn::InterleaveLower(words, words), hn::InterleaveUpper(Eight(), words, words),
               to.minima);
    return scales << 32 | (a & kSix);
}

struct Q4K {
    using Block = block_q4_K;
    static constexpr bool kHasMinima = true;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        const std::uint64_t scales = unpack_scales<Block>(from, to);
        const auto scale = [&](int g) { return static_cast<int>(scales >> 8 * g & 255); };
        for (int part = 0; part < 8; ++part) {  // 16 bytes hold elements j and j + 32
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * part);
            const int pair = part / 2;
            std::int16_t* codes = to.codes + 64 * pair + 16 * (part % 2);
            put_scaled(low_nibbles(bytes), scale(2 * pair), codes);
            put_scaled(high_nibbles(bytes), scale(2 * pair + 1), codes + 32);
        }
    }
};

struct Q5K {
    using Block = block_q5_K;
    static constexpr bool kHasMinima = true;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        const std::uint64_t scales = unpack_scales<Block>(from, to);
        const auto scale = [&](int g) { return static_cast<int>(scales >> 8 * g & 255); };
        for (int part = 0; part < 8; ++part) {
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * part);
            const auto bits = load_bytes(from + offsetof(Block, qh) + 16 * (part % 2));
            const int pair = part / 2;
            std::int16_t* codes = to.codes + 64 * pair + 16 * (part % 2);
            const auto low_bit = where_bits(bits, all_bytes(1 << (2 * pair)), 16);
            const auto high_bit = where_bits(bits, all_bytes(2 << (2 * pair)), 16);
            put_scaled(hn::Or(low_nibbles(bytes), low_bit), scale(2 * pair), codes);
            put_scaled(hn::Or(high_nibbles(bytes), high_bit), scale(2 * pair + 1), codes + 32);
        }
    }
};

struct Q6K {
    using Block = block_q6_K;
    static constexpr bool kHasMinima = false;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        std::int8_t scales[16];
        std::memcpy(scales, from + offsetof(Block, scales), sizeof scales);
        const auto middle = hn::Set(Codes(), 32);
        for (int part = 0; part < 4; ++part) {
            const int half = part / 2, odd = part % 2;
            const std::byte* low = from + offsetof(Block, ql) + 64 * half + 16 * odd;
            const auto low0 = load_bytes(low), low1 = load_bytes(low + 32);
            for_bit_pairs(
                load_bytes(from + offsetof(Block, qh) + 32 * half + 16 * odd),
                [&](auto upper, int quarter) HWY_ATTR {
                    const auto bytes = quarter % 2 == 0 ? low0 : low1;
                    const auto lower = quarter < 2 ? low_nibbles(bytes) : high_nibbles(bytes);
                    const auto codes = hn::Or(lower, as_codes(hn::ShiftLeft<4>(upper)));
                    const int group = 8 * half + 2 * quarter + odd;
                    put_scaled(hn::Sub(codes, middle), scales[group], to.codes + 16 * group);
                });
        }
    }
};

struct Iq4Xs {
    using Block = block_iq4_xs;
    static constexpr bool kHasMinima = false;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        const unsigned scales_h = read<std::uint16_t>(from + offsetof(Block, scales_h));
        const auto scales_l = read<std::uint32_t>(from + offsetof(Block, scales_l));
        for (int g = 0; g < 8; ++g) {
            const unsigned code = (scales_l >> 4 * g & 15u) | (scales_h >> 2 * g & 3u) << 4;
            const int scale = static_cast<int>(code) - 32;
            const auto bytes = load_bytes(from + offsetof(Block, qs) + 16 * g);
            std::int16_t* codes = to.codes + 32 * g;
            put_scaled(look_up(kNonlinearLevels, low_nibbles(bytes)), scale, codes);
            put_scaled(look_up(kNonlinearLevels, high_nibbles(bytes)), scale, codes + 16);
        }
    }
};

struct Tq1 {
    using Block = block_tq1_0;
    static constexpr bool kHasMinima = false;

    /// Trit n of byte j is element j + kBytes * n: the digit that comes above the point when the
    /// byte, a fraction of 256 in base three, has been multiplied by 3^n.
    template <int kBytes, int kDigits>
    static HWY_INLINE void unpack_trits(const std::byte* bytes, std::int16_t* HWY_RESTRICT to) {
        constexpr std::uint8_t kPower[5] = {1, 3, 9, 27, 81};
        std::uint8_t packed[kBytes];
        std::memcpy(packed, bytes, sizeof packed);
        for (int n = 0; n < kDigits; ++n) {
            for (int j = 0; j < kBytes; ++j) {
                const auto rest = static_cast<std::uint8_t>(packed[j] * kPower[n]);
                const int trit = static_cast<std::uint16_t>(rest * 3) >> 8;
                to[kBytes * n + j] = static_cast<std::int16_t>(trit - 1);
            }
        }
    }

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        unpack_trits<32, 5>(from + offsetof(Block, qs), to.codes);
        unpack_trits<16, 5>(from + offsetof(Block, qs) + 32, to.codes + 160);
        unpack_trits<4, 4>(from + offsetof(Block, qh), to.codes + 240);
    }
};

struct Tq2 {
    using Block = block_tq2_0;
    static constexpr bool kHasMinima = false;

    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from + offsetof(Block, d));
        const auto one = hn::Set(Codes(), 1);
        for (int part = 0; part < 4; ++part) {
            std::int16_t* codes = to.codes + 128 * (part / 2) + 16 * (part % 2);
            for_bit_pairs(load_bytes(from + offsetof(Block, qs) + 16 * part),
                          [&](auto pairs, int pair) HWY_ATTR {
                              put_scaled(hn::Sub(as_codes(pairs), one), 1, codes + 32 * pair);
                          });
        }
    }
};

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q2_K, dot_super_columns<Q2K>},  {GGML_TYPE_Q3_K, dot_super_columns<Q3K>},
    {GGML_TYPE_Q4_K, dot_super_columns<Q4K>},  {GGML_TYPE_Q5_K, dot_super_columns<Q5K>},
    {GGML_TYPE_Q6_K, dot_super_columns<Q6K>},  {GGML_TYPE_IQ4_XS, dot_super_columns<Iq4Xs>},
    {GGML_TYPE_TQ1_0, dot_super_columns<Tq1>}, {GGML_TYPE_TQ2_0, dot_super_columns<Tq2>},
};

}  // namespace

DotColumns k_dot(Type type) { return find_dot(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_dot);

DotColumns k_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_dot)(type); }

}  // namespace heddle::cpu
#endif
