#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/grid_dot.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/block_dot.hpp"
#include "quant/codebooks.hpp"

/// Formats that name rows of a codebook, multiplied by q8_K. A scale code s stands for 2s + 1.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR

DotColumns grid_dot(Type) { return nullptr; }
DecodeRow grid_decode(Type) { return nullptr; }

#else
namespace {

/// A format whose rows have `kElements` elements.
template <Type kType, class B, int kElements>
struct Grid {
    using Block = B;
    static constexpr bool kHasMinima = false;
    const std::int8_t* values = quant::codebook_of(kType).values.data();

    const std::int8_t* row(unsigned index) const { return values + kElements * index; }
};

/// Eight elements of the codebook as words.
HWY_INLINE hn::Vec<Eight> load_row(const std::int8_t* row) {
    return hn::PromoteTo(Eight(), hn::LoadU(hn::FixedTag<std::int8_t, 8>(), row));
}

/// Eight elements times `scale`; bit j of `signs` makes element j negative.
HWY_INLINE hn::Vec<Eight> with_signs(hn::Vec<Eight> row, unsigned scale, unsigned signs) {
    alignas(16) static constexpr std::int16_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    const auto bits = hn::Load(Eight(), kBits);
    const auto set = hn::And(hn::Set(Eight(), static_cast<std::int16_t>(signs)), bits);
    const auto value = hn::Mul(row, hn::Set(Eight(), static_cast<std::int16_t>(scale)));
    return hn::IfThenElse(hn::Eq(set, bits), hn::Neg(value), value);
}

/// Calls `eight(g)` for the eights of a block and puts down what it gives, two at a time.
template <class GetEight>
HWY_INLINE void put_eights(GetEight eight, SuperBlock& to) {
    for (int g = 0; g < QK_K / 8; g += 2) put_halves(eight(g), eight(g + 1), to.codes + 8 * g);
}

/// `quant::even_signs` by table.
struct EvenSigns {
    std::uint8_t of[128];
    constexpr EvenSigns() : of() {
        for (unsigned i = 0; i < 128; ++i) of[i] = quant::even_signs(i);
    }
};
constexpr EvenSigns kEvenSigns;

HWY_INLINE unsigned even_signs(unsigned stored) { return kEvenSigns.of[stored & 127]; }

HWY_INLINE unsigned byte_at(const std::byte* bytes, int i) {
    return static_cast<unsigned>(bytes[i]);
}

HWY_INLINE unsigned nibble(const std::byte* bytes, int i) {
    return byte_at(bytes, i / 2) >> (4 * (i % 2)) & 15;
}

struct Iq2Xxs : Grid<GGML_TYPE_IQ2_XXS, block_iq2_xxs, 8> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from) * 0.125f;
        put_eights(
            [&](int g) HWY_ATTR {
                const auto words = read<std::uint64_t>(from + offsetof(Block, qs) + 8 * (g / 4));
                const auto rest = static_cast<std::uint32_t>(words >> 32);
                const auto index = static_cast<unsigned>(words >> 8 * (g % 4) & 255);
                return with_signs(load_row(row(index)), 2 * (rest >> 28) + 1,
                                  even_signs(rest >> 7 * (g % 4)));
            },
            to);
    }
};

struct Iq2Xs : Grid<GGML_TYPE_IQ2_XS, block_iq2_xs, 8> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from) * 0.125f;
        put_eights(
            [&](int g) HWY_ATTR {
                const unsigned q = read<std::uint16_t>(from + offsetof(Block, qs) + 2 * g);
                const unsigned scale = nibble(from + offsetof(Block, scales), g / 2);
                return with_signs(load_row(row(q & 511)), 2 * scale + 1, even_signs(q >> 9));
            },
            to);
    }
};

struct Iq2S : Grid<GGML_TYPE_IQ2_S, block_iq2_s, 8> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from) * 0.125f;
        const std::byte *indices = from + offsetof(Block, qs), *signs = indices + QK_K / 8;
        put_eights(
            [&](int g) HWY_ATTR {
                const unsigned high =
                    byte_at(from + offsetof(Block, qh), g / 4) >> (2 * (g % 4)) & 3;
                const unsigned scale = nibble(from + offsetof(Block, scales), g / 2);
                return with_signs(load_row(row(byte_at(indices, g) | high << 8)), 2 * scale + 1,
                                  byte_at(signs, g));
            },
            to);
    }
};

/// Two rows of four elements.
HWY_INLINE hn::Vec<Eight> load_rows(const std::int8_t* first, const std::int8_t* second) {
    std::uint32_t low, high;
    std::memcpy(&low, first, sizeof low);
    std::memcpy(&high, second, sizeof high);
    const auto both = hn::Set(hn::FixedTag<std::uint64_t, 1>(), std::uint64_t{high} << 32 | low);
    return hn::PromoteTo(Eight(), hn::BitCast(hn::FixedTag<std::int8_t, 8>(), both));
}

struct Iq3Xxs : Grid<GGML_TYPE_IQ3_XXS, block_iq3_xxs, 4> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from) * 0.25f;
        const std::byte* indices = from + offsetof(Block, qs);
        put_eights(
            [&](int g) HWY_ATTR {
                const auto word = read<std::uint32_t>(indices + QK_K / 4 + 4 * (g / 4));
                return with_signs(
                    load_rows(row(byte_at(indices, 2 * g)), row(byte_at(indices, 2 * g + 1))),
                    2 * (word >> 28) + 1, even_signs(word >> 7 * (g % 4)));
            },
            to);
    }
};

struct Iq3S : Grid<GGML_TYPE_IQ3_S, block_iq3_s, 4> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from);
        const std::byte* indices = from + offsetof(Block, qs);
        put_eights(
            [&](int g) HWY_ATTR {
                const unsigned high = byte_at(from + offsetof(Block, qh), g / 4) >> (2 * (g % 4));
                const unsigned scale = nibble(from + offsetof(Block, scales), g / 4);
                const auto rows =
                    load_rows(row(byte_at(indices, 2 * g) | (high & 1) << 8),
                              row(byte_at(indices, 2 * g + 1) | (high >> 1 & 1) << 8));
                return with_signs(rows, 2 * scale + 1, byte_at(from + offsetof(Block, signs), g));
            },
            to);
    }
};

/// A row of -1, 0 and 1, shifted by an eighth up or down: in units of an eighth.
HWY_INLINE hn::Vec<Eight> shifted(const std::int8_t* row, unsigned scale, bool down) {
    const auto factor = hn::Set(Eight(), static_cast<std::int16_t>(scale));
    const auto shift = hn::Set(Eight(), static_cast<std::int16_t>(down ? -1 : 1));
    return hn::Mul(hn::Add(hn::ShiftLeft<3>(load_row(row)), shift), factor);
}

struct Iq1S : Grid<GGML_TYPE_IQ1_S, block_iq1_s, 8> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        to.d = read_half(from) * 0.125f;
        put_eights(
            [&](int g) HWY_ATTR {
                const unsigned head = read<std::uint16_t>(from + offsetof(Block, qh) + 2 * (g / 4));
                const unsigned high = head >> (3 * (g % 4)) & 7;
                return shifted(row(byte_at(from + offsetof(Block, qs), g) | high << 8),
                               2 * (head >> 12 & 7) + 1, (head & 0x8000) != 0);
            },
            to);
    }
};

struct Iq1M : Grid<GGML_TYPE_IQ1_M, block_iq1_m, 8> {
    HWY_INLINE void unpack(const std::byte* from, SuperBlock& to) const {
        std::uint16_t words[4];
        std::memcpy(words, from + offsetof(Block, scales), sizeof words);
        unsigned d = 0;
        for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(words[i] >> 12) << (4 * i);
        to.d = half_to_float(static_cast<std::uint16_t>(d)) * 0.125f;
        put_eights(
            [&](int g) HWY_ATTR {
                const unsigned code = words[g / 8] >> (3 * (g / 2 % 4)) & 7;
                const unsigned head = nibble(from + offsetof(Block, qh), g);
                return shifted(row(byte_at(from + offsetof(Block, qs), g) | (head & 7) << 8),
                               2 * code + 1, (head & 8) != 0);
            },
            to);
    }
};

template <class Format>
constexpr DotEntry entry(Type type) {
    return {type, dot_super_columns<Format>, decode_super<Format>};
}

constexpr DotEntry kEntries[] = {
    entry<Iq2Xxs>(GGML_TYPE_IQ2_XXS), entry<Iq2Xs>(GGML_TYPE_IQ2_XS), entry<Iq2S>(GGML_TYPE_IQ2_S),
    entry<Iq3Xxs>(GGML_TYPE_IQ3_XXS), entry<Iq3S>(GGML_TYPE_IQ3_S),   entry<Iq1S>(GGML_TYPE_IQ1_S),
    entry<Iq1M>(GGML_TYPE_IQ1_M),
};

}  // namespace

DotColumns grid_dot(Type type) { return find_dot(kEntries, type); }
DecodeRow grid_decode(Type type) { return find_decode(kEntries, type); }

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(grid_dot);
HWY_EXPORT(grid_decode);

DotColumns grid_dot_of(Type type) { return HWY_DYNAMIC_DISPATCH(grid_dot)(type); }
DecodeRow grid_decode_of(Type type) { return HWY_DYNAMIC_DISPATCH(grid_decode)(type); }

}  // namespace heddle::cpu
#endif
