// q6_K: nibbles and pairs of bits, a scale of eight bits for sixteen elements. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q6_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q6_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q6_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q6_K_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q6_K>
    : KBlock<block_q6_K, 16, 32, 63>, TwoBitParts, Decoding<BlockFormat<GGML_TYPE_Q6_K> > {
    static constexpr int kLoads = 3;
    static constexpr std::size_t load_at(int part, int i) {
        return i < 2 ? sixteen_at(offsetof(Block, ql), part / 2 * 4 + part % 2 + 2 * i)
                     : sixteen_at(offsetof(Block, qh), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memcpy(to.scales, from + offsetof(Block, scales), sizeof to.scales);
    }

    template <class Rows, class Words>
    static HWY_INLINE void row_scales(Rows rows, Words& to) {
        load_transposed(ScaleLanes(), rows + offsetof(Block, scales), to.scales);
        to.d = load_halves(rows + offsetof(Block, d));
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V low0, V low1, V high) {
        // The upper two bits of each quarter, where they belong.
        const auto put_quarter = [&](int quarter, auto lower, auto upper) HWY_ATTR {
            const auto bits = as_codes(hn::And(upper, all_bytes(upper, 0x30)));
            put(quarter, minus(hn::Or(lower, bits), kZeroPoint));
        };
        put_quarter(0, low_nibbles(low0), hn::ShiftLeft<4>(high));
        put_quarter(1, low_nibbles(low1), hn::ShiftLeft<2>(high));
        put_quarter(2, high_nibbles(low0), high);
        put_quarter(3, high_nibbles(low1), hn::ShiftRight<2>(high));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        static constexpr int element(int place) { return element_of_nibbles(place, 64); }

        static HWY_INLINE SixteenWords put_scales(const std::byte* from, std::int16_t* to) {
            const auto scales = load_codes(from + offsetof(Block, scales));
            return stored(SixteenWords(scales), to);
        }

        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            constexpr int kByte = nibble_bytes(kVector);
            const std::byte* pairs = from + offsetof(Block, qh) + kByte / 64 * 32;
            const auto high = planes<2, kByte % 64 + kVector % 2 * 64, 4>(pairs);
            return hn::OrAnd(nibble_lanes<kVector>(from + offsetof(Block, ql)), high,
                             hn::Set(ByteLanes(), 0x30));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
