#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/grid_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_dot.hpp"
#include "quant/codebooks.hpp"

/// Formats that name rows of a codebook, multiplied by q8_K. A scale code s stands for 2s + 1.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

using Codes = std::int16_t* HWY_RESTRICT;

/// A format whose rows have `kElements` elements.
template <Type kType, class B, int kElements>
struct Grid {
    using Block = B;
    static constexpr bool kHasMinima = false;
    const std::int8_t* values = quant::codebook_of(kType).values.data();

    const std::int8_t* row(unsigned index) const { return values + kElements * index; }
};

/// A row times `scale`; bit j of `signs` makes element j negative.
template <int kElements>
HWY_INLINE void put_signed(const std::int8_t* row, unsigned scale, unsigned signs, Codes to) {
    constexpr std::int16_t kBit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const auto factor = static_cast<std::int16_t>(scale);
    const auto minus = static_cast<std::int16_t>(-factor), bits = static_cast<std::int16_t>(signs);
    for (int j = 0; j < kElements; ++j) {
        const std::int16_t signed_factor = (bits & kBit[j]) != 0 ? minus : factor;
        to[j] = static_cast<std::int16_t>(row[j] * signed_factor);
    }
}

HWY_INLINE unsigned nibble(const std::uint8_t* bytes, int i) {
    return bytes[i / 2] >> (4 * (i % 2)) & 15u;
}

struct Iq2Xxs : Grid<GGML_TYPE_IQ2_XXS, block_iq2_xxs, 8> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d) * 0.125f;
        for (int part = 0; part < QK_K / 32; ++part) {
            std::uint32_t words[2];
            std::memcpy(words, block.qs + 4 * part, sizeof words);
            const unsigned scale = 2 * (words[1] >> 28) + 1;
            for (int g = 0; g < 4; ++g) {
                put_signed<8>(row(words[0] >> (8 * g) & 255u), scale,
                              quant::even_signs(words[1] >> (7 * g)), to.codes + 32 * part + 8 * g);
            }
        }
    }
};

struct Iq2Xs : Grid<GGML_TYPE_IQ2_XS, block_iq2_xs, 8> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d) * 0.125f;
        for (int g = 0; g < QK_K / 8; ++g) {
            put_signed<8>(row(block.qs[g] & 511u), 2 * nibble(block.scales, g / 2) + 1,
                          quant::even_signs(block.qs[g] >> 9), to.codes + 8 * g);
        }
    }
};

struct Iq2S : Grid<GGML_TYPE_IQ2_S, block_iq2_s, 8> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d) * 0.125f;
        const std::uint8_t* signs = block.qs + QK_K / 8;
        for (int g = 0; g < QK_K / 8; ++g) {
            const unsigned high = block.qh[g / 4] >> (2 * (g % 4)) & 3u;
            put_signed<8>(row(block.qs[g] | high << 8), 2 * nibble(block.scales, g / 2) + 1,
                          signs[g], to.codes + 8 * g);
        }
    }
};

struct Iq3Xxs : Grid<GGML_TYPE_IQ3_XXS, block_iq3_xxs, 4> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d) * 0.25f;
        for (int part = 0; part < QK_K / 32; ++part) {
            std::uint32_t word;
            std::memcpy(&word, block.qs + QK_K / 4 + 4 * part, sizeof word);
            const unsigned scale = 2 * (word >> 28) + 1;
            for (int g = 0; g < 8; ++g) {
                const unsigned signs = quant::even_signs(word >> (7 * (g / 2)));
                put_signed<4>(row(block.qs[8 * part + g]), scale, signs >> (4 * (g % 2)),
                              to.codes + 32 * part + 4 * g);
            }
        }
    }
};

struct Iq3S : Grid<GGML_TYPE_IQ3_S, block_iq3_s, 4> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d);
        for (int g = 0; g < QK_K / 4; ++g) {
            const unsigned high = block.qh[g / 8] >> (g % 8) & 1u;
            put_signed<4>(row(block.qs[g] | high << 8), 2 * nibble(block.scales, g / 8) + 1,
                          nibble(block.signs, g), to.codes + 4 * g);
        }
    }
};

/// A row of -1, 0 and 1, shifted by an eighth up or down: in units of an eighth.
HWY_INLINE void put_shifted(const std::int8_t* row, unsigned scale, bool down, Codes to) {
    const int shift = down ? -1 : 1;
    for (int j = 0; j < 8; ++j) {
        to[j] = static_cast<std::int16_t>((8 * row[j] + shift) * static_cast<int>(scale));
    }
}

struct Iq1S : Grid<GGML_TYPE_IQ1_S, block_iq1_s, 8> {
    void unpack(const Block& block, SuperBlock& to) const {
        to.d = half_to_float(block.d) * 0.125f;
        for (int g = 0; g < QK_K / 8; ++g) {
            const unsigned head = block.qh[g / 4];
            const unsigned high = head >> (3 * (g % 4)) & 7u;
            put_shifted(row(block.qs[g] | high << 8), 2 * (head >> 12 & 7u) + 1,
                        (head & 0x8000u) != 0, to.codes + 8 * g);
        }
    }
};

struct Iq1M : Grid<GGML_TYPE_IQ1_M, block_iq1_m, 8> {
    void unpack(const Block& block, SuperBlock& to) const {
        std::uint16_t words[4];
        std::memcpy(words, block.scales, sizeof words);
        unsigned d = 0;
        for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(words[i] >> 12) << (4 * i);
        to.d = half_to_float(static_cast<std::uint16_t>(d)) * 0.125f;
        for (int g = 0; g < QK_K / 8; ++g) {
            const unsigned code = words[g / 8] >> (3 * (g / 2 % 4)) & 7u;
            const unsigned head = nibble(block.qh, g);
            put_shifted(row(block.qs[g] | (head & 7u) << 8), 2 * code + 1, (head & 8u) != 0,
                        to.codes + 8 * g);
        }
    }
};

constexpr DotEntry kEntries[] = {
    {GGML_TYPE_IQ2_XXS, dot_super_columns<Iq2Xxs>}, {GGML_TYPE_IQ2_XS, dot_super_columns<Iq2Xs>},
    {GGML_TYPE_IQ2_S, dot_super_columns<Iq2S>},     {GGML_TYPE_IQ3_XXS, dot_super_columns<Iq3Xxs>},
    {GGML_TYPE_IQ3_S, dot_super_columns<Iq3S>},     {GGML_TYPE_IQ1_S, dot_super_columns<Iq1S>},
    {GGML_TYPE_IQ1_M, dot_super_columns<Iq1M>},
};

}  // namespace

DotColumns grid_dot(Type type) { return find_dot(kEntries, type); }

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(grid_dot);

DotColumns grid_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(grid_dot)(type); }

}  // namespace heddle::cpu
#endif
