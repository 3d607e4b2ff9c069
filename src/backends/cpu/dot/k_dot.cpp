#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/k_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_dot.hpp"
#include "backends/cpu/dot/levels.hpp"

/// Super-blocks of evenly spaced levels (and iq4_xs), multiplied by q8_K.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

using Codes = std::int16_t* HWY_RESTRICT;

/// to[i] = code(i) * scale, for `kCount` elements.
template <int kCount, class Code>
HWY_INLINE void put_scaled(int scale, Code code, Codes to) {
    for (int i = 0; i < kCount; ++i) {
        to[i] = static_cast<std::int16_t>(static_cast<std::int16_t>(code(i)) *
                                          static_cast<std::int16_t>(scale));
    }
}

struct Q2K {
    using Block = block_q2_K;
    static constexpr bool kHasMinima = true;

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        to.dmin = half_to_float(block.dmin);
        for (int g = 0; g < 16; ++g) {
            const std::uint8_t* bytes = block.qs + 32 * (g / 8) + 16 * (g % 2);
            const int shift = 2 * (g / 2 % 4);
            put_scaled<16>(
                block.scales[g] & 15, [=](int i) { return bytes[i] >> shift & 3; },
                to.codes + 16 * g);
            to.minima[g] = block.scales[g] >> 4;
        }
    }
};

struct Q3K {
    using Block = block_q3_K;
    static constexpr bool kHasMinima = false;

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        for (int g = 0; g < 16; ++g) {
            const int low = g < 8 ? block.scales[g] & 15 : block.scales[g - 8] >> 4;
            const int scale = (low | (block.scales[8 + g % 4] >> 2 * (g / 4) & 3) << 4) - 32;
            const std::uint8_t* bytes = block.qs + 32 * (g / 8) + 16 * (g % 2);
            const std::uint8_t* high = block.hmask + 16 * (g % 2);
            const int shift = 2 * (g / 2 % 4), bit = g / 2;
            put_scaled<16>(
                scale,
                [=](int i) { return (bytes[i] >> shift & 3) + 4 * (high[i] >> bit & 1) - 4; },
                to.codes + 16 * g);
        }
    }
};

/// The six-bit scales and minima of q4_K and q5_K; a minimum counts for two groups of 16.
template <class Block>
HWY_INLINE void unpack_scales(const Block& block, int (&scale)[8], SuperBlock& to) {
    const std::uint8_t* s = block.scales;
    to.d = half_to_float(block.d);
    to.dmin = half_to_float(block.dmin);
    for (int j = 0; j < 4; ++j) {
        scale[j] = s[j] & 63;
        scale[j + 4] = (s[j + 8] & 15) | s[j] >> 6 << 4;
        const int minimum = s[j + 4] & 63, minimum4 = s[j + 8] >> 4 | s[j + 4] >> 6 << 4;
        to.minima[2 * j] = to.minima[2 * j + 1] = static_cast<std::int16_t>(minimum);
        to.minima[2 * j + 8] = to.minima[2 * j + 9] = static_cast<std::int16_t>(minimum4);
    }
}

struct Q4K {
    using Block = block_q4_K;
    static constexpr bool kHasMinima = true;

    void unpack(const Block& block, SuperBlock& to) const {
        int scale[8];
        unpack_scales(block, scale, to);
        for (int pair = 0; pair < 4; ++pair) {
            const std::uint8_t* bytes = block.qs + 32 * pair;
            Codes codes = to.codes + 64 * pair;
            put_scaled<32>(scale[2 * pair], [=](int i) { return bytes[i] & 15; }, codes);
            put_scaled<32>(scale[2 * pair + 1], [=](int i) { return bytes[i] >> 4; }, codes + 32);
        }
    }
};

struct Q5K {
    using Block = block_q5_K;
    static constexpr bool kHasMinima = true;

    void unpack(const Block& block, SuperBlock& to) const {
        int scale[8];
        unpack_scales(block, scale, to);
        for (int pair = 0; pair < 4; ++pair) {
            const std::uint8_t *bytes = block.qs + 32 * pair, *high = block.qh;
            const int bit = 2 * pair;
            Codes codes = to.codes + 64 * pair;
            put_scaled<32>(
                scale[bit],
                [=](int i) { return (bytes[i] & 15) | (high[i] >> bit & 1) << 4; }, codes);
            put_scaled<32>(
                scale[bit + 1],
                [=](int i) { return bytes[i] >> 4 | (high[i] >> (bit + 1) & 1) << 4; },
                codes + 32);
        }
    }
};

struct Q6K {
    using Block = block_q6_K;
    static constexpr bool kHasMinima = false;

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        for (int g = 0; g < 16; ++g) {
            const int half = g / 8, quarter = g / 2 % 4, odd = g % 2;
            const std::uint8_t* low = block.ql + 64 * half + 32 * (quarter % 2) + 16 * odd;
            const std::uint8_t* high = block.qh + 32 * half + 16 * odd;
            const int low_shift = quarter < 2 ? 0 : 4, high_shift = 2 * quarter;
            put_scaled<16>(
                block.scales[g],
                [=](int i) {
                    return ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32;
                },
                to.codes + 16 * g);
        }
    }
};

struct Iq4Xs {
    using Block = block_iq4_xs;
    static constexpr bool kHasMinima = false;

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        for (int g = 0; g < 8; ++g) {
            const int low = block.scales_l[g / 2] >> 4 * (g % 2) & 15;
            const int scale = (low | (block.scales_h >> 2 * g & 3) << 4) - 32;
            std::int16_t levels[32];
            look_up_nibbles<16>(kNonlinearLevels, block.qs + 16 * g, levels);
            put_scaled<32>(
                scale, [&](int i) { return levels[i]; }, to.codes + 32 * g);
        }
    }
};

struct Tq1 {
    using Block = block_tq1_0;
    static constexpr bool kHasMinima = false;

    /// Trit n of byte j is element j + kBytes * n: the digit that comes above the point when the
    /// byte, a fraction of 256 in base three, has been multiplied by 3^n.
    template <int kBytes, int kDigits>
    static void unpack_trits(const std::uint8_t* bytes, Codes to) {
        constexpr std::uint8_t kPower[5] = {1, 3, 9, 27, 81};
        for (int n = 0; n < kDigits; ++n) {
            for (int j = 0; j < kBytes; ++j) {
                const auto rest = static_cast<std::uint8_t>(bytes[j] * kPower[n]);
                const int trit = static_cast<std::uint16_t>(rest * 3) >> 8;
                to[kBytes * n + j] = static_cast<std::int16_t>(trit - 1);
            }
        }
    }

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        unpack_trits<32, 5>(block.qs, to.codes);
        unpack_trits<16, 5>(block.qs + 32, to.codes + 160);
        unpack_trits<4, 4>(block.qh, to.codes + 240);
    }
};

struct Tq2 {
    using Block = block_tq2_0;
    static constexpr bool kHasMinima = false;

    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        for (int g = 0; g < 8; ++g) {
            const std::uint8_t* bytes = block.qs + 32 * (g / 4);
            const int shift = 2 * (g % 4);
            put_scaled<32>(
                1, [=](int i) { return (bytes[i] >> shift & 3) - 1; }, to.codes + 32 * g);
        }
    }
};

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_Q2_K, dot_super_columns<Q2K>},     {GGML_TYPE_Q3_K, dot_super_columns<Q3K>},
    {GGML_TYPE_Q4_K, dot_super_columns<Q4K>},     {GGML_TYPE_Q5_K, dot_super_columns<Q5K>},
    {GGML_TYPE_Q6_K, dot_super_columns<Q6K>},     {GGML_TYPE_IQ4_XS, dot_super_columns<Iq4Xs>},
    {GGML_TYPE_TQ1_0, dot_super_columns<Tq1>},    {GGML_TYPE_TQ2_0, dot_super_columns<Tq2>},
};

}  // namespace

DotColumns k_dot(Type type) { return find_dot(kEntries, type); }

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(k_dot);

DotColumns k_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(k_dot)(type); }

}  // namespace heddle::cpu
#endif
