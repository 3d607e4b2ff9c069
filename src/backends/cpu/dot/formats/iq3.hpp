// iq3_xxs and iq3_s: rows of four elements, and signs. Included once per instruction set, inside a
// file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_IQ3_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_IQ3_HPP
#undef HEDDLE_CPU_DOT_FORMATS_IQ3_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_IQ3_HPP
#endif

#include "backends/cpu/dot/formats/codebook.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using Iq3Xxs = GridBlock<GGML_TYPE_IQ3_XXS, block_iq3_xxs, 4, 32, 62, 4>;
using Iq3S = GridBlock<GGML_TYPE_IQ3_S, block_iq3_s, 4, 32, 15, 1>;

template <>
struct BlockFormat<GGML_TYPE_IQ3_XXS> : Grid<BlockFormat<GGML_TYPE_IQ3_XXS>, Iq3Xxs> {
    static constexpr std::size_t kWords = offsetof(Block, qs) + QK_K / 4;  ///< where they are

    /// Signs and a scale for 32 elements.
    static HWY_INLINE std::uint32_t word(const std::byte* from, int thirty_two) {
        return read<std::uint32_t>(from + kWords + 4 * thirty_two);
    }

    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return word(from, g / 2) >> 28;
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 4 * part;
        const unsigned signs = word(from, part / 2) >> 14 * (part % 2);
        return with_signs(two_words(rows(byte_at(indices, 0), byte_at(indices, 1)),
                                    rows(byte_at(indices, 2), byte_at(indices, 3))),
                          even_signs(signs) | even_signs(signs >> 7) << 8);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
            for (int i = 0; i < 8; i += 4) {
                put_words(hn::BitCast(Four(), load_bytes(from + kWords + 4 * i)), i, to);
            }
        }

        static HWY_INLINE unsigned row(const std::byte* from, const UnpackedBlock&, int i) {
            return byte_at(from + offsetof(Block, qs), i);
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_IQ3_S> : Grid<BlockFormat<GGML_TYPE_IQ3_S>, Iq3S> {
    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return nibble(from + offsetof(Block, scales), g / 2);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs) + 4 * part;
        const unsigned high = nibble(from + offsetof(Block, qh), part);
        const auto index = [&](int i) { return byte_at(indices, i) | (high >> i & 1) << 8; };
        return with_signs(two_words(rows(index(0), index(1)), rows(index(2), index(3))),
                          read<std::uint16_t>(from + offsetof(Block, signs) + 2 * part));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
            const hn::FixedTag<std::uint8_t, 8> half;
            std::uint64_t nibbles = read<std::uint32_t>(from + offsetof(Block, scales));
            nibbles = (nibbles | nibbles << 16) & 0x0000ffff0000ffff;
            nibbles = (nibbles | nibbles << 8) & 0x00ff00ff00ff00ff;
            nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0f0f0f0f0f;
            const auto codes =
                hn::BitCast(half, hn::Set(hn::FixedTag<std::uint64_t, 1>(), nibbles));
            put_scales<2>(hn::PromoteTo(EightCodes(), codes), to.scales);
            for (int i = 0; i < 4; ++i) {
                const auto pairs = hn::BitCast(
                    Bytes(),
                    hn::Set(Eight(), read<std::uint16_t>(from + offsetof(Block, qh) + 2 * i)));
                const auto high = where_bits(spread_two(pairs, 0), each_bit(Bytes()), 1);
                put_rows(load_bytes(from + offsetof(Block, qs) + 16 * i),
                         hn::BitCast(Bytes(), high), to.rows + 16 * i);
            }
        }

        static HWY_INLINE const std::uint8_t* signs(const std::byte* from, const UnpackedBlock&) {
            return reinterpret_cast<const std::uint8_t*>(from + offsetof(Block, signs));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
