// iq2_xxs, iq2_xs and iq2_s: rows of eight elements, and signs. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_IQ2_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_IQ2_HPP
#undef HEDDLE_CPU_DOT_FORMATS_IQ2_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_IQ2_HPP
#endif

#include "backends/cpu/dot/formats/codebook.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

using Iq2Xxs = GridBlock<GGML_TYPE_IQ2_XXS, block_iq2_xxs, 8, 32, 43, 8>;
using Iq2Xs = GridBlock<GGML_TYPE_IQ2_XS, block_iq2_xs, 8, 16, 43, 8>;
using Iq2S = GridBlock<GGML_TYPE_IQ2_S, block_iq2_s, 8, 16, 43, 8>;

template <>
struct BlockFormat<GGML_TYPE_IQ2_XXS> : Grid<BlockFormat<GGML_TYPE_IQ2_XXS>, Iq2Xxs> {
    /// Four row numbers, then signs and a scale, for 32 elements.
    static HWY_INLINE std::uint64_t words(const std::byte* from, int thirty_two) {
        return read<std::uint64_t>(from + offsetof(Block, qs) + 8 * thirty_two);
    }

    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return static_cast<unsigned>(words(from, g / 2) >> 60);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::uint64_t all = words(from, part / 2);
        const auto indices = static_cast<unsigned>(all >> 16 * (part % 2) & 0xffff);
        const auto signs = static_cast<unsigned>(all >> (32 + 14 * (part % 2)));
        return with_signs(two_words(row(indices & 255), row(indices >> 8)),
                          even_signs(signs) | even_signs(signs >> 7) << 8);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
            for (int i = 0; i < 8; i += 4) {
                const std::byte* at = from + offsetof(Block, qs) + 8 * i;
                const auto low = hn::BitCast(Four(), load_bytes(at));
                const auto high = hn::BitCast(Four(), load_bytes(at + 16));
                put_words(hn::ConcatOdd(Four(), high, low), i, to);
            }
        }

        static HWY_INLINE unsigned row(const std::byte* from, const UnpackedBlock&, int i) {
            return byte_at(from + offsetof(Block, qs), i + i / 4 * 4);
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_IQ2_XS> : Grid<BlockFormat<GGML_TYPE_IQ2_XS>, Iq2Xs> {
    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return nibble(from + offsetof(Block, scales), g);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const auto both = read<std::uint32_t>(from + offsetof(Block, qs) + 4 * part);
        return with_signs(two_words(row(both & 511), row(both >> 16 & 511)),
                          even_signs(both >> 9) | even_signs(both >> 25) << 8);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
            put_nibble_scales(from + offsetof(Block, scales), to.scales);
            const std::byte* words = from + offsetof(Block, qs);
            for (int i = 0; i < 2; ++i) {
                const auto high = hn::ConcatOdd(Bytes(), load_bytes(words + 32 * i + 16),
                                                load_bytes(words + 32 * i));
                hn::Store(with_even_signs(hn::ShiftRight<1>(high)), Bytes(), to.signs + 16 * i);
            }
        }

        static HWY_INLINE unsigned row(const std::byte* from, const UnpackedBlock&, int i) {
            return read<std::uint16_t>(from + offsetof(Block, qs) + 2 * i) & 511u;
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_IQ2_S> : Grid<BlockFormat<GGML_TYPE_IQ2_S>, Iq2S> {
    static constexpr std::size_t kSigns = offsetof(Block, qs) + QK_K / 8;  ///< where they are

    static HWY_INLINE unsigned scale_code(const std::byte* from, int g) {
        return nibble(from + offsetof(Block, scales), g);
    }

    HWY_INLINE CodeVec sixteen(const std::byte* from, int part) const {
        const std::byte* indices = from + offsetof(Block, qs);
        const unsigned high = nibble(from + offsetof(Block, qh), part);
        return with_signs(two_words(row(byte_at(indices, 2 * part) | (high & 3) << 8),
                                    row(byte_at(indices, 2 * part + 1) | (high >> 2) << 8)),
                          read<std::uint16_t>(from + kSigns + 2 * part));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : GridGemv<Facts> {
        static HWY_INLINE void unpack(const std::byte* from, UnpackedBlock& to) {
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

        static HWY_INLINE const std::uint8_t* signs(const std::byte* from, const UnpackedBlock&) {
            return reinterpret_cast<const std::uint8_t*>(from + kSigns);
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
