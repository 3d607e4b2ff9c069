// Formats that name rows of a codebook, as streams of one column unpack them: numbers of rows,
// signs and scales of a whole super-block side by side. A scale code s stands for 2s + 1. Included
// once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_GRID_STREAM_FORMATS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_GRID_STREAM_FORMATS_HPP
#undef HEDDLE_CPU_DOT_GRID_STREAM_FORMATS_HPP
#else
#define HEDDLE_CPU_DOT_GRID_STREAM_FORMATS_HPP
#endif

#include "backends/cpu/dot/stream_lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HEDDLE_HAS_BYTE_PRODUCTS

/// What a super-block holds. Formats fill in what they do not store in just this form.
struct Unpacked {
    HWY_ALIGN std::int16_t scales[QK_K / 16];  ///< of sixteen elements each
    HWY_ALIGN std::uint16_t rows[QK_K / 4];    ///< numbers of rows of the codebook
    HWY_ALIGN std::uint8_t signs[QK_K / 8];    ///< bit set: the element is negative
    HWY_ALIGN std::int16_t offsets[QK_K / 8];  ///< what elements have too little, times a scale
};

using Eight = hn::FixedTag<std::uint16_t, 8>;
using EightCodes = hn::FixedTag<std::int16_t, 8>;
using Four = hn::FixedTag<std::uint32_t, 4>;
using Two = hn::FixedTag<std::uint64_t, 2>;

HWY_INLINE unsigned byte_at(const std::byte* bytes, int i) {
    return static_cast<unsigned>(bytes[i]);
}

// ---- unpacking ---------------------------------------------------------------------------------

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
HWY_INLINE void put_words(hn::Vec<Four> words, int first, Unpacked& to) {
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

// ---- formats -----------------------------------------------------------------------------------

/// A format whose rows have `kCount` elements, 4 or 8.
template <Type kType, class B, int kCount>
struct NamedRows {
    using Block = B;
    static constexpr Type kBook = kType;
    static constexpr int kElements = kCount;
    static constexpr int kGroup = 16;        ///< elements that a scale is for
    static constexpr bool kHasSigns = true;  ///< besides rows, whose elements are positive then
    static constexpr int kOffsets = 0;       ///< how many there are; each is for as many elements
    static constexpr float kUnit = 0.125f;   ///< of elements

    static HWY_INLINE unsigned row(const std::byte*, const Unpacked& to, int i) {
        return to.rows[i];
    }
    static HWY_INLINE const std::uint8_t* signs(const std::byte*, const Unpacked& to) {
        return to.signs;
    }
    static HWY_INLINE std::uint16_t half(const std::byte* from) {
        return read<std::uint16_t>(from + offsetof(Block, d));
    }
};

struct StreamIq2Xxs : NamedRows<GGML_TYPE_IQ2_XXS, block_iq2_xxs, 8> {
    static constexpr int kGroup = 32;

    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        for (int i = 0; i < 8; i += 4) {
            const std::byte* at = from + offsetof(Block, qs) + 8 * i;
            const auto low = hn::BitCast(Four(), load_bytes(at));
            const auto high = hn::BitCast(Four(), load_bytes(at + 16));
            put_words(hn::ConcatOdd(Four(), high, low), i, to);
        }
    }

    static HWY_INLINE unsigned row(const std::byte* from, const Unpacked&, int i) {
        return byte_at(from + offsetof(Block, qs), i + i / 4 * 4);
    }
};

struct StreamIq2Xs : NamedRows<GGML_TYPE_IQ2_XS, block_iq2_xs, 8> {
    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        put_nibble_scales(from + offsetof(Block, scales), to.scales);
        const std::byte* words = from + offsetof(Block, qs);
        for (int i = 0; i < 2; ++i) {
            const auto high =
                hn::ConcatOdd(Bytes(), load_bytes(words + 32 * i + 16), load_bytes(words + 32 * i));
            hn::Store(with_even_signs(hn::ShiftRight<1>(high)), Bytes(), to.signs + 16 * i);
        }
    }

    static HWY_INLINE unsigned row(const std::byte* from, const Unpacked&, int i) {
        return read<std::uint16_t>(from + offsetof(Block, qs) + 2 * i) & 511u;
    }
};

struct StreamIq2S : NamedRows<GGML_TYPE_IQ2_S, block_iq2_s, 8> {
    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        put_nibble_scales(from + offsetof(Block, scales), to.scales);
        for (int i = 0; i < 2; ++i) {
            const auto bytes =
                hn::BitCast(hn::FixedTag<std::uint8_t, 4>(),
                            hn::Set(hn::FixedTag<std::uint32_t, 1>(),
                                    read<std::uint32_t>(from + offsetof(Block, qh) + 4 * i)));
            const auto one = hn::PromoteTo(Four(), bytes);
            const auto two = hn::Or(one, hn::ShiftLeft<12>(one));
            const auto four = hn::BitCast(Bytes(), hn::Or(two, hn::ShiftLeft<6>(two)));
            put_rows(load_bytes(from + offsetof(Block, qs) + 16 * i),
                     hn::And(four, hn::Set(Bytes(), 3)), to.rows + 16 * i);
        }
    }

    static HWY_INLINE const std::uint8_t* signs(const std::byte* from, const Unpacked&) {
        return reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, qs) + QK_K / 8);
    }
};

struct StreamIq3Xxs : NamedRows<GGML_TYPE_IQ3_XXS, block_iq3_xxs, 4> {
    static constexpr int kGroup = 32;
    static constexpr float kUnit = 0.25f;

    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        for (int i = 0; i < 8; i += 4) {
            put_words(
                hn::BitCast(Four(), load_bytes(from + offsetof(Block, qs) + QK_K / 4 + 4 * i)), i,
                to);
        }
    }

    static HWY_INLINE unsigned row(const std::byte* from, const Unpacked&, int i) {
        return byte_at(from + offsetof(Block, qs), i);
    }
};

struct StreamIq3S : NamedRows<GGML_TYPE_IQ3_S, block_iq3_s, 4> {
    static constexpr int kGroup = 32;
    static constexpr float kUnit = 1;

    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        const hn::FixedTag<std::uint8_t, 8> half;
        std::uint64_t nibbles = read<std::uint32_t>(from + offsetof(Block, scales));
        nibbles = (nibbles | nibbles << 16) & 0x0000ffff0000ffff;
        nibbles = (nibbles | nibbles << 8) & 0x00ff00ff00ff00ff;
        nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0f0f0f0f0f;
        const auto codes = hn::BitCast(half, hn::Set(hn::FixedTag<std::uint64_t, 1>(), nibbles));
        put_scales<2>(hn::PromoteTo(EightCodes(), codes), to.scales);
        for (int i = 0; i < 4; ++i) {
            const auto pairs = hn::BitCast(
                Bytes(), hn::Set(Eight(), read<std::uint16_t>(from + offsetof(Block, qh) + 2 * i)));
            const auto high = where_bits(spread_two(pairs, 0), each_bit(Bytes()), 1);
            put_rows(load_bytes(from + offsetof(Block, qs) + 16 * i), hn::BitCast(Bytes(), high),
                     to.rows + 16 * i);
        }
    }

    static HWY_INLINE const std::uint8_t* signs(const std::byte* from, const Unpacked&) {
        return reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, signs));
    }
};

// Rows of -1, 0 and 1, shifted by an eighth up or down. Here they are shifted up by 1; what is
// added to the sums of the column is an eighth of -7 or -9 then, and eights of sums are counted.

struct StreamIq1S : NamedRows<GGML_TYPE_IQ1_S, block_iq1_s, 8> {
    static constexpr int kGroup = 32;
    static constexpr bool kHasSigns = false;
    static constexpr int kOffsets = 16;

    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        const std::byte* heads = from + offsetof(Block, qh);
        const hn::FixedTag<std::uint8_t, 8> half;
        for (int i = 0; i < 4; ++i) {
            const auto* low =
                reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, qs) + 8 * i);
            const auto high = hn::ShiftLeft<8>(spread_threes(heads + 4 * i));
            hn::Store(hn::Or(hn::PromoteTo(Eight(), hn::LoadU(half, low)), high), Eight(),
                      to.rows + 8 * i);
        }
        const auto all = hn::BitCast(EightCodes(), load_bytes(heads));
        const auto codes = hn::And(hn::ShiftRight<12>(all), hn::Set(EightCodes(), 7));
        put_scales<2>(codes, to.scales);
        // -7, or with the sign -9
        const auto is_down = hn::ShiftRight<15>(all);
        const auto shift = hn::Sub(hn::Add(is_down, is_down), hn::Set(EightCodes(), 7));
        const auto low = hn::InterleaveLower(EightCodes(), shift, shift);
        const auto high = hn::InterleaveUpper(EightCodes(), shift, shift);
        hn::Store(hn::Mul(low, hn::Load(EightCodes(), to.scales)), EightCodes(), to.offsets);
        hn::Store(hn::Mul(high, hn::Load(EightCodes(), to.scales + 8)), EightCodes(),
                  to.offsets + 8);
    }
};

struct StreamIq1M : NamedRows<GGML_TYPE_IQ1_M, block_iq1_m, 8> {
    static constexpr bool kHasSigns = false;
    static constexpr int kOffsets = 32;

    static HWY_INLINE void unpack(const std::byte* from, Unpacked& to) {
        alignas(16) static constexpr std::int8_t kShifts[16] = {-7, -7, -7, -7, -7, -7, -7, -7,
                                                                -9, -9, -9, -9, -9, -9, -9, -9};
        const auto bytes = load_bytes(from + offsetof(Block, qh));
        const auto even = hn::And(bytes, hn::Set(Bytes(), 15)), odd = hn::ShiftRight<4>(bytes);
        const auto put = [&](hn::Vec<Bytes> heads, int i) HWY_ATTR {
            const std::byte* scales = from + offsetof(Block, scales) + 4 * i;
            const auto codes = hn::BitCast(EightCodes(), spread_threes(scales));
            put_scales<1>(codes, to.scales + 8 * i);
            put_rows(load_bytes(from + offsetof(Block, qs) + 16 * i),
                     hn::And(heads, hn::Set(Bytes(), 7)), to.rows + 16 * i);
            const auto shifts =
                hn::TableLookupBytes(hn::Load(Codes(), kShifts), hn::BitCast(Codes(), heads));
            const hn::FixedTag<std::int8_t, 8> half;
            const auto scale = hn::Load(EightCodes(), to.scales + 8 * i);
            std::int16_t* offsets = to.offsets + 16 * i;
            hn::Store(hn::Mul(hn::PromoteTo(EightCodes(), hn::LowerHalf(half, shifts)),
                              hn::InterleaveLower(EightCodes(), scale, scale)),
                      EightCodes(), offsets);
            hn::Store(hn::Mul(hn::PromoteTo(EightCodes(), hn::UpperHalf(half, shifts)),
                              hn::InterleaveUpper(EightCodes(), scale, scale)),
                      EightCodes(), offsets + 8);
        };
        put(hn::InterleaveLower(Bytes(), even, odd), 0);
        put(hn::InterleaveUpper(Bytes(), even, odd), 1);
    }

    /// In the top nibbles of the scales.
    static HWY_INLINE std::uint16_t half(const std::byte* from) {
        const auto words = read<std::uint64_t>(from + offsetof(Block, scales));
        return static_cast<std::uint16_t>((words >> 12 & 0xf) | (words >> 24 & 0xf0) |
                                          (words >> 36 & 0xf00) | (words >> 48 & 0xf000));
    }
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
