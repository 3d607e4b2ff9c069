// Formats that name rows of a codebook, multiplied by q8_K, in the form of those in k_formats.hpp:
// each part of a block is one sixteen. A scale code s stands for 2s + 1. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_GRID_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_GRID_FORMATS_HPP
#undef HEDDLE_CPU_DOT_GRID_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_GRID_FORMATS_HPP
#endif

#include "backends/cpu/dot/block_dot.hpp"
#include "quant/codebooks.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

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

HWY_INLINE std::int8_t odd_scale(unsigned code) { return static_cast<std::int8_t>(2 * code + 1); }

/// Sixteen codes from two words.
HWY_INLINE CodeVec two_words(std::uint64_t low, std::uint64_t high) {
    const hn::FixedTag<std::uint64_t, 2> words;
    return hn::BitCast(Codes(),
                       hn::InterleaveLower(words, hn::Set(words, low), hn::Set(words, high)));
}

/// Bit j of `signs` makes code j negative.
HWY_INLINE CodeVec with_signs(CodeVec codes, unsigned signs) {
    const auto pairs = hn::BitCast(
        Bytes(), hn::Set(hn::FixedTag<std::uint16_t, 8>(), static_cast<std::uint16_t>(signs)));
    const auto all = where_bits(spread_two(pairs, 0), each_bit(Bytes()), 255);
    return hn::Sub(hn::Xor(codes, all), all);
}

/// A format whose rows have `kElements` elements, 4 or 8, as large as `kMost` at most.
template <class Format, Type kType, class B, int kElements, int kMost>
struct Grid {
    using Block = B;
    static constexpr bool kHasMinima = false;
    static constexpr int kMostValue = kMost;
    static constexpr int kParts = 16, kSlots = 1;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int) { return part; }

    const std::int8_t* values = quant::codebook_of(kType).values.data();

    template <class Source, class Put>
    HWY_INLINE void codes(const Source& from, int part, Put put) const {
        const auto unpack = [&](const std::byte* block) HWY_ATTR {
            return hn::BitCast(Bytes(), static_cast<const Format*>(this)->sixteen(block, part));
        };
        put(0, as_codes(for_each_row(from, unpack)));
    }

    /// Eight elements: a row, or two of four.
    HWY_INLINE std::uint64_t row(unsigned index) const {
        static_assert(kElements == 8);
        return word<std::uint64_t>(index);
    }
    HWY_INLINE std::uint64_t rows(unsigned first, unsigned second) const {
        static_assert(kElements == 4);
        return word<std::uint32_t>(first) | std::uint64_t{word<std::uint32_t>(second)} << 32;
    }

private:
    template <class Word>
    HWY_INLINE Word word(unsigned index) const {
        Word elements;
        std::memcpy(&elements, values + sizeof elements * index, sizeof elements);
        return elements;
    }
};

struct Iq2Xxs : Grid<Iq2Xxs, GGML_TYPE_IQ2_XXS, block_iq2_xxs, 8, 43> {
    /// Four row numbers, then signs and a scale, for 32 elements.
    static HWY_INLINE std::uint64_t words(const std::byte* from, int thirty_two) {
        return read<std::uint64_t>(from + offsetof(Block, qs) + 8 * thirty_two);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from) * 0.125f;
        for (int g = 0; g < 16; ++g) {
            to.scales[g] = odd_scale(static_cast<unsigned>(words(from, g / 2) >> 60));
        }
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::uint64_t all = words(from, part / 2);
        const auto indices = static_cast<unsigned>(all >> 16 * (part % 2) & 0xffff);
        const auto signs = static_cast<unsigned>(all >> (32 + 14 * (part % 2)));
        return with_signs(two_words(row(indices & 255), row(indices >> 8)),
                          even_signs(signs) | even_signs(signs >> 7) << 8);
    }
};

struct Iq2Xs : Grid<Iq2Xs, GGML_TYPE_IQ2_XS, block_iq2_xs, 8, 43> {
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from) * 0.125f;
        for (int g = 0; g < 16; ++g) {
            to.scales[g] = odd_scale(nibble(from + offsetof(Block, scales), g));
        }
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const auto both = read<std::uint32_t>(from + offsetof(Block, qs) + 4 * part);
        return with_signs(two_words(row(both & 511), row(both >> 16 & 511)),
                          even_signs(both >> 9) | even_signs(both >> 25) << 8);
    }
};

struct Iq2S : Grid<Iq2S, GGML_TYPE_IQ2_S, block_iq2_s, 8, 43> {
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from) * 0.125f;
        for (int g = 0; g < 16; ++g) {
            to.scales[g] = odd_scale(nibble(from + offsetof(Block, scales), g));
        }
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte *indices = from + offsetof(Block, qs), *signs = indices + QK_K / 8;
        const unsigned high = nibble(from + offsetof(Block, qh), part);
        return with_signs(two_words(row(byte_at(indices, 2 * part) | (high & 3) << 8),
                                    row(byte_at(indices, 2 * part + 1) | (high >> 2) << 8)),
                          read<std::uint16_t>(signs + 2 * part));
    }
};

struct Iq3Xxs : Grid<Iq3Xxs, GGML_TYPE_IQ3_XXS, block_iq3_xxs, 4, 62> {
    /// Signs and a scale for 32 elements.
    static HWY_INLINE std::uint32_t word(const std::byte* from, int thirty_two) {
        return read<std::uint32_t>(from + offsetof(Block, qs) + QK_K / 4 + 4 * thirty_two);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from) * 0.25f;
        for (int g = 0; g < 16; ++g) to.scales[g] = odd_scale(word(from, g / 2) >> 28);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 4 * part;
        const unsigned signs = word(from, part / 2) >> 14 * (part % 2);
        return with_signs(two_words(rows(byte_at(indices, 0), byte_at(indices, 1)),
                                    rows(byte_at(indices, 2), byte_at(indices, 3))),
                          even_signs(signs) | even_signs(signs >> 7) << 8);
    }
};

struct Iq3S : Grid<Iq3S, GGML_TYPE_IQ3_S, block_iq3_s, 4, 15> {
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from);
        for (int g = 0; g < 16; ++g) {
            to.scales[g] = odd_scale(nibble(from + offsetof(Block, scales), g / 2));
        }
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 4 * part;
        const unsigned high = nibble(from + offsetof(Block, qh), part);
        const auto index = [&](int i) { return byte_at(indices, i) | (high >> i & 1) << 8; };
        return with_signs(two_words(rows(index(0), index(1)), rows(index(2), index(3))),
                          read<std::uint16_t>(from + offsetof(Block, signs) + 2 * part));
    }
};

/// Eight times elements of -1, 0 and 1.
HWY_INLINE CodeVec eightfold(CodeVec codes) {
    const auto two = hn::Add(codes, codes), four = hn::Add(two, two);
    return hn::Add(four, four);
}

/// Eight lanes of -1 or 1.
constexpr std::uint64_t kUp = 0x0101010101010101, kDown = 0xffffffffffffffff;

// Rows are shifted by an eighth up or down: codes are in units of an eighth.

struct Iq1S : Grid<Iq1S, GGML_TYPE_IQ1_S, block_iq1_s, 8, 9> {
    static HWY_INLINE unsigned head(const std::byte* from, int thirty_two) {
        return read<std::uint16_t>(from + offsetof(Block, qh) + 2 * thirty_two);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from) * 0.125f;
        for (int g = 0; g < 16; ++g) to.scales[g] = odd_scale(head(from, g / 2) >> 12 & 7);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 2 * part;
        const unsigned all = head(from, part / 2), high = all >> 6 * (part % 2);
        const auto codes = two_words(row(byte_at(indices, 0) | (high & 7) << 8),
                                     row(byte_at(indices, 1) | (high >> 3 & 7) << 8));
        const std::uint64_t shift = (all & 0x8000) != 0 ? kDown : kUp;
        return hn::Add(eightfold(codes), two_words(shift, shift));
    }
};

struct Iq1M : Grid<Iq1M, GGML_TYPE_IQ1_M, block_iq1_m, 8, 9> {
    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        std::uint16_t words[4];
        std::memcpy(words, from + offsetof(Block, scales), sizeof words);
        unsigned d = 0;
        for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(words[i] >> 12) << (4 * i);
        to.d = half_to_float(static_cast<std::uint16_t>(d)) * 0.125f;
        for (int g = 0; g < 16; ++g) to.scales[g] = odd_scale(words[g / 4] >> (3 * (g % 4)) & 7);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 2 * part;
        const unsigned heads = byte_at(from + offsetof(Block, qh), part);
        const auto codes = two_words(row(byte_at(indices, 0) | (heads & 7) << 8),
                                     row(byte_at(indices, 1) | (heads >> 4 & 7) << 8));
        const auto shift =
            two_words((heads & 8) != 0 ? kDown : kUp, (heads & 128) != 0 ? kDown : kUp);
        return hn::Add(eightfold(codes), shift);
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
