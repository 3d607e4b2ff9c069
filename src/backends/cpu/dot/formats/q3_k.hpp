// q3_K: codes of two bits and a third one, a scale of six bits for sixteen elements. Included once
// per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q3_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q3_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q3_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q3_K_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q3_K>
    : KBlock<block_q3_K, 16, 4, 7>, TwoBitParts, Decoding<BlockFormat<GGML_TYPE_Q3_K> > {
    static constexpr int kLoads = 2;
    static constexpr std::size_t load_at(int part, int i) {
        return i == 0 ? sixteen_at(offsetof(Block, qs), part)
                      : sixteen_at(offsetof(Block, hmask), part % 2);
    }

    /// Sixteen scales, eight to a word, each more by `kScaleZero`: nibbles, and above them pairs of
    /// bits that are stored behind them.
    struct ScaleCodes {
        std::uint64_t low, high;
    };
    static constexpr int kScaleZero = 32;

    static HWY_INLINE ScaleCodes scale_codes(const std::byte* from) {
        const auto nibbles = read<std::uint64_t>(from + offsetof(Block, scales));
        const std::uint64_t pairs = read<std::uint32_t>(from + offsetof(Block, scales) + 8);
        constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f, kPairs = 0x0303030303030303;
        const std::uint64_t low_pairs = pairs | pairs >> 2 << 32;
        return {(nibbles & kNibbles) | (low_pairs & kPairs) << 4,
                (nibbles >> 4 & kNibbles) | ((pairs >> 4 | pairs >> 6 << 32) & kPairs) << 4};
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        const ScaleCodes all = scale_codes(from);
        const std::uint64_t codes[2] = {all.low, all.high};
        for (int i = 0; i < 2; ++i) {  // the top bits keep bytes from borrowing of each other
            constexpr std::uint64_t kTop = 0x8080808080808080;
            constexpr std::uint64_t kZeros = 0x0101010101010101 * kScaleZero;
            const std::uint64_t less = ((codes[i] | kTop) - kZeros) ^ kTop;
            std::memcpy(to.scales + 8 * i, &less, sizeof less);
        }
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int part, Put put, V pairs, V high) {
        for_bit_pairs(pairs, [&](int pair, auto codes) HWY_ATTR {
            const auto bit = all_bytes(codes, 1 << (4 * (part / 2) + pair));
            const auto upper = where_bits(high, bit, 4);
            put(pair, minus(hn::Add(as_codes(codes), upper), kZeroPoint));
        });
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
            const ScaleCodes all = scale_codes(from);
            const auto codes = as_codes(word_bytes(all.low, all.high));
            return stored(SixteenWords(hn::Sub(codes, hn::Set(Codes(), kScaleZero))), to);
        }

        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            const auto high = planes<1, kVector * kBytes, 2>(from + offsetof(Block, hmask));
            return hn::OrAnd(pair_planes<kVector>(from + offsetof(Block, qs)), high,
                             hn::Set(ByteLanes(), 4));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
