// q5_K: nibbles and a fifth bit; scales and minima are those of q4_K. Included once per instruction
// set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q5_K_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q5_K_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q5_K_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q5_K_HPP
#endif

#include "backends/cpu/dot/formats/q4_k.hpp"
#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q5_K> : SixBitScaled<KBlock<block_q5_K, 32, 0, 31> >,
                                     NibbleParts,
                                     Decoding<BlockFormat<GGML_TYPE_Q5_K> > {
    static constexpr int kLoads = 2;
    static constexpr std::size_t load_at(int part, int i) {
        return i == 0 ? sixteen_at(offsetof(Block, qs), part)
                      : sixteen_at(offsetof(Block, qh), part % 2);
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int part, Put put, V bytes, V bits) {
        const int pair = part / 2;
        const auto low_bit = where_bits(bits, all_bytes(bits, 1 << (2 * pair)), 16);
        const auto high_bit = where_bits(bits, all_bytes(bits, 2 << (2 * pair)), 16);
        put(0, hn::Or(low_nibbles(bytes), low_bit));
        put(1, hn::Or(high_nibbles(bytes), high_bit));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SixBitScaled<Facts>::Gemv {
        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            const auto high =
                planes<2, nibble_bytes(kVector), 4 - kVector % 2>(from + offsetof(Block, qh));
            return hn::OrAnd(nibble_lanes<kVector>(from + offsetof(Block, qs)), high,
                             hn::Set(ByteLanes(), 16));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
