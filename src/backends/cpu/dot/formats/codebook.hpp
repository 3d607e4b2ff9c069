// What formats that name rows of a codebook have in common. They are multiplied by q8_K. Included
// once per instruction set, inside a file that is compiled by foreach_target.h.
//
// Sixteen elements at a time they have the form of those in super_block.hpp: each part of a block
// is one sixteen. A scale code s stands for 2s + 1.
#if defined(HEDDLE_CPU_DOT_FORMATS_CODEBOOK_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_CODEBOOK_HPP
#undef HEDDLE_CPU_DOT_FORMATS_CODEBOOK_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_CODEBOOK_HPP
#endif

#include "backends/cpu/dot/formats/block_format.hpp"
#include "quant/codebooks.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// Rows of the codebook have `kRow` elements, 4 or 8, and `kElements` elements share a scale. An
/// element is at most `kMost` and at least as much below zero, in units of 1 / `kInverseUnit`.
template <Type kType, class B, int kRow, int kElements, int kMost, int kInverseUnit>
struct GridBlock {
    using Facts = GridBlock;
    using Block = B;
    static constexpr Type kBook = kType;
    static constexpr int kRowElements = kRow;
    static constexpr int kGroup = kElements;
    static constexpr int kZeroPoint = kMost;
    static constexpr int kMostCode = 2 * kMost;
    static constexpr bool kHasMinima = false;
    static constexpr float kUnit = 1.0f / kInverseUnit;

    static HWY_INLINE std::uint16_t half(const std::byte* from) {
        return read<std::uint16_t>(from + offsetof(Block, d));
    }
};

// ---- sixteen elements at a time -----------------------------------------------------------------

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

/// `Format` has `scale_code(from, g)`, that of sixteen elements, and `sixteen(from, part)`.
template <class Format, class GridFacts>
struct Grid : GridFacts {
    static constexpr int kParts = 16, kSlots = 1;
    static constexpr int slots(int) { return kSlots; }
    static constexpr int group(int part, int) { return part; }

    const std::int8_t* values = quant::codebook_of(GridFacts::kBook).values.data();

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = half_to_float(Format::half(from)) * GridFacts::kUnit;
        for (int g = 0; g < 16; ++g) to.scales[g] = odd_scale(Format::scale_code(from, g));
    }

    template <class Source, class Put>
    HWY_INLINE void codes(const Source& from, int part, Put put) const {
        const auto unpack = [&](const std::byte* block) HWY_ATTR {
            return hn::BitCast(Bytes(), static_cast<const Format*>(this)->sixteen(block, part));
        };
        put(0, as_codes(for_each_row(from, unpack)));
    }

    /// Eight elements: a row, or two of four.
    HWY_INLINE std::uint64_t row(unsigned index) const {
        static_assert(GridFacts::kRowElements == 8);
        return word<std::uint64_t>(index);
    }
    HWY_INLINE std::uint64_t rows(unsigned first, unsigned second) const {
        static_assert(GridFacts::kRowElements == 4);
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

#if HEDDLE_HAS_BYTE_PRODUCTS
// ---- GEMV: a whole super-block at once ----------------------------------------------------------

/// What a super-block holds. Formats fill in what they do not store in just this form.
struct UnpackedBlock {
    HWY_ALIGN std::int16_t scales[QK_K / 16];  ///< of sixteen elements each
    HWY_ALIGN std::uint16_t rows[QK_K / 4];    ///< numbers of rows of the codebook
    HWY_ALIGN std::uint8_t signs[QK_K / 8];    ///< bit set: the element is negative
    HWY_ALIGN std::int16_t offsets[QK_K / 8];  ///< what elements have too little, times a scale
};

template <class GridFacts>
struct GridGemv {
    using Block = typename GridFacts::Block;
    static constexpr Type kBook = GridFacts::kBook;
    static constexpr int kRowElements = GridFacts::kRowElements;
    static constexpr int kGroup = GridFacts::kGroup;
    static constexpr float kUnit = GridFacts::kUnit;
    static constexpr bool kHasSigns = true;  ///< besides rows, whose elements are positive then
    static constexpr int kOffsets = 0;       ///< how many there are; each is for as many elements

    static HWY_INLINE unsigned row(const std::byte*, const UnpackedBlock& to, int i) {
        return to.rows[i];
    }
    static HWY_INLINE const std::uint8_t* signs(const std::byte*, const UnpackedBlock& to) {
        return to.signs;
    }
    static HWY_INLINE std::uint16_t half(const std::byte* from) { return GridFacts::half(from); }
};

using Eight = hn::FixedTag<std::uint16_t, 8>;
using EightCodes = hn::FixedTag<std::int16_t, 8>;
using Four = hn::FixedTag<std::uint32_t, 4>;
using Two = hn::FixedTag<std::uint64_t, 2>;

/// Sixteen numbers of rows, from their low and their high bytes.
HWY_INLINE void put_rows(hn::Vec<Bytes> low, hn::Vec<Bytes> high, std::uint16_t* to) {
    hn::Store(hn::BitCast(Eight(), hn::InterleaveLower(Bytes(), low, high)), Eight(), to);
    hn::Store(hn::BitCast(Eight(), hn::InterleaveUpper(Bytes(), low, high)), Eight(), to + 8);
}

/// Eight scales, each for so many sixteens.
template <int kSixteens>
HWY_INLINE void put_scales(hn::Vec<EightCodes> codes, std::int16_t* to) {
    const auto scales = hn::Add(hn::Add(codes, codes), hn::Set(EightCodes(), 1));
    if constexpr (kSixteens == 1) {
        hn::Store(scales, EightCodes(), to);
    } else {
        hn::Store(hn::InterleaveLower(EightCodes(), scales, scales), EightCodes(), to);
        hn::Store(hn::InterleaveUpper(EightCodes(), scales, scales), EightCodes(), to + 8);
    }
}

/// From eight bytes of nibbles, a scale for every sixteen.
HWY_INLINE void put_nibble_scales(const std::byte* from, std::int16_t* to) {
    const hn::FixedTag<std::uint8_t, 8> half;
    const auto bytes = hn::LoadU(half, reinterpret_cast<const std::uint8_t*>(from));
    const auto low = hn::And(bytes, hn::Set(half, 15)), high = hn::ShiftRight<4>(bytes);
    const auto all =
        hn::BitCast(Bytes(), hn::InterleaveLower(Bytes(), hn::ZeroExtendVector(Bytes(), low),
                                                 hn::ZeroExtendVector(Bytes(), high)));
    put_scales<1>(hn::PromoteTo(EightCodes(), hn::LowerHalf(half, all)), to);
    put_scales<1>(hn::PromoteTo(EightCodes(), hn::UpperHalf(half, all)), to + 8);
}

/// Bytes of seven signs get an eighth, which makes the number of negative elements even.
HWY_INLINE hn::Vec<Bytes> with_even_signs(hn::Vec<Bytes> seven) {
    alignas(16) static constexpr std::uint8_t kOdd[16] = {0,   128, 128, 0,   128, 0,   0,   128,
                                                          128, 0,   0,   128, 0,   128, 128, 0};
    const auto folded = hn::And(hn::Xor(seven, hn::ShiftRight<4>(seven)), hn::Set(Bytes(), 15));
    return hn::Or(seven, hn::TableLookupBytes(hn::Load(Bytes(), kOdd), folded));
}

/// Words of four times seven signs and a scale, for 32 elements each: numbers `first` to
/// `first` + 3.
HWY_INLINE void put_words(hn::Vec<Four> words, int first, UnpackedBlock& to) {
    const auto mask = [](std::uint32_t bits) HWY_ATTR { return hn::Set(Four(), bits); };
    const auto even =
        hn::Or(hn::And(words, mask(0x7f)), hn::And(hn::ShiftLeft<1>(words), mask(0x7f00)));
    const auto odd = hn::Or(hn::And(hn::ShiftLeft<2>(words), mask(0x7f0000)),
                            hn::And(hn::ShiftLeft<3>(words), mask(0x7f000000)));
    hn::Store(with_even_signs(hn::BitCast(Bytes(), hn::Or(even, odd))), Bytes(),
              to.signs + 4 * first);
    const auto scales = hn::Or(hn::And(hn::ShiftRight<27>(words), mask(30)), mask(1));
    hn::Store(hn::BitCast(EightCodes(), hn::Or(scales, hn::ShiftLeft<16>(scales))), EightCodes(),
              to.scales + 2 * first);
}

/// Words of four times three bits, and others above: each three in 16 bits of its own.
HWY_INLINE hn::Vec<Eight> spread_threes(const std::byte* two_words) {
    const auto words =
        hn::BitCast(hn::FixedTag<std::uint16_t, 2>(),
                    hn::Set(hn::FixedTag<std::uint32_t, 1>(), read<std::uint32_t>(two_words)));
    const auto one = hn::PromoteTo(Two(), hn::PromoteTo(hn::FixedTag<std::uint32_t, 2>(), words));
    const auto two = hn::Or(one, hn::ShiftLeft<26>(one));
    const auto four = hn::Or(two, hn::ShiftLeft<13>(two));
    return hn::And(hn::BitCast(Eight(), four), hn::Set(Eight(), 7));
}
#endif

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
