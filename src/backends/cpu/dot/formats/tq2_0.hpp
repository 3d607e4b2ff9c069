// tq2_0: codes of two bits for -1, 0 and 1, and one scale. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_TQ2_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_TQ2_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_TQ2_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_TQ2_0_HPP
#endif

#include "backends/cpu/dot/formats/super_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_TQ2_0>
    : KBlock<block_tq2_0, QK_K, 1, 3>, TwoBitParts, Decoding<BlockFormat<GGML_TYPE_TQ2_0> > {
    static constexpr int kLoads = 1;
    static constexpr std::size_t load_at(int part, int) {
        return sixteen_at(offsetof(Block, qs), part);
    }

    static HWY_INLINE void scales(const std::byte* from, SuperScales& to) {
        to.d = read_half(from + offsetof(Block, d));
        std::memset(to.scales, 1, sizeof to.scales);
    }

    template <class Put, class V>
    static HWY_INLINE void decode(int, Put put, V bytes) {
        for_bit_pairs(bytes, [&](int pair, auto codes)
                                 HWY_ATTR { put(pair, minus(as_codes(codes), kZeroPoint)); });
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : KGemv<Facts> {
        template <int kVector>
        static HWY_INLINE hn::Vec<ByteLanes> codes(const std::byte* from) {
            return pair_planes<kVector>(from + offsetof(Block, qs));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
