// iq1_s and iq1_m: rows of eight elements -1, 0 and 1, shifted by an eighth up or down. Included
// once per instruction set, inside a file that is compiled by foreach_target.h.
//
// Codes are in units of an eighth. GEMV shifts rows up by 1 instead; what is added to the sums of
// the column is an eighth of -7 or -9 then, and eights of sums are counted.
#if defined(HEDDLE_CPU_DOT_FORMATS_IQ1_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_IQ1_HPP
#undef HEDDLE_CPU_DOT_FORMATS_IQ1_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_IQ1_HPP
#endif

#include "backends/cpu/dot/formats/codebook.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using Iq1S = GridBlock<GGML_TYPE_IQ1_S, block_iq1_s, 8, 32, 9, 8>;
using Iq1M = GridBlock<GGML_TYPE_IQ1_M, block_iq1_m, 8, 16, 9, 8>;

/// Eight times elements of -1, 0 and 1.
HWY_INLINE CodeVec eightfold(CodeVec codes) {
    const auto two = hn::Add(codes, codes), four = hn::Add(two, two);
    return hn::Add(four, four);
}

/// Eight lanes of -1 or 1.
constexpr std::uint64_t kUp = 0x0101010101010101, kDown = 0xffffffffffffffff;

template <>
struct BlockFormat<GGML_TYPE_IQ1_S> : Grid<BlockFormat<GGML_TYPE_IQ1_S>, Iq1S> {
    static HWY_INLINE unsigned head(const std::byte* from, int thirty_two) {
        return read<std::uint16_t>(from + offsetof(Block, qh) + 2 * thirty_two);
    }

    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return head(from, g / 2) >> 12 & 7;
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 2 * part;
        const unsigned all = head(from, part / 2), high = all >> 6 * (part % 2);
        const auto codes = two_words(row(byte_at(indices, 0) | (high & 7) << 8),
                                     row(byte_at(indices, 1) | (high >> 3 & 7) << 8));
        const std::uint64_t shift = (all & 0x8000) != 0 ? kDown : kUp;
        return hn::Add(eightfold(codes), two_words(shift, shift));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static constexpr bool kHasSigns = false;
        static constexpr int kOffsets = 16;

        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
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
#endif
};

template <>
struct BlockFormat<GGML_TYPE_IQ1_M> : Grid<BlockFormat<GGML_TYPE_IQ1_M>, Iq1M> {
    /// In the top nibbles of the scales.
    static HWY_INLINE std::uint16_t half(const std::byte* from) {
        const auto words = read<std::uint64_t>(from + offsetof(Block, scales));
        return static_cast<std::uint16_t>((words >> 12 & 0xf) | (words >> 24 & 0xf0) |
                                          (words >> 36 & 0xf00) | (words >> 48 & 0xf000));
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        std::uint16_t words[4];
        std::memcpy(words, from + offsetof(Block, scales), sizeof words);
        to.d = half_to_float(half(from)) * kUnit;
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

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static constexpr bool kHasSigns = false;
        static constexpr int kOffsets = 32;

        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
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
                const hn::FixedTag<std::int8_t, 8> eight;
                const auto scale = hn::Load(EightCodes(), to.scales + 8 * i);
                std::int16_t* offsets = to.offsets + 16 * i;
                hn::Store(hn::Mul(hn::PromoteTo(EightCodes(), hn::LowerHalf(eight, shifts)),
                                  hn::InterleaveLower(EightCodes(), scale, scale)),
                          EightCodes(), offsets);
                hn::Store(hn::Mul(hn::PromoteTo(EightCodes(), hn::UpperHalf(eight, shifts)),
                                  hn::InterleaveUpper(EightCodes(), scale, scale)),
                          EightCodes(), offsets + 8);
            };
            put(hn::InterleaveLower(Bytes(), even, odd), 0);
            put(hn::InterleaveUpper(Bytes(), even, odd), 1);
        }

        static HWY_INLINE std::uint16_t half(const std::byte* from) {
            return BlockFormat::half(from);
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
