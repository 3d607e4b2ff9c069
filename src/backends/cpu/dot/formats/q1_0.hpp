// q1_0: a bit for each of 128 elements, -1 or 1, and one scale. Included once per instruction set,
// inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q1_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q1_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q1_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q1_0_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q1_0> : SimpleBlock<block_q1_0, QK1_0, 1, 2> {
    /// 2 * bit - 1
    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int group, V& low, V& high) {
        const auto bytes = load_bytes(block + offsetof(Block, qs));
        const auto bits = each_bit(hn::DFromV<decltype(bytes)>());
        low = minus(where_bits(spread_two(bytes, 4 * group), bits, kMostCode), kZeroPoint);
        high = minus(where_bits(spread_two(bytes, 4 * group + 2), bits, kMostCode), kZeroPoint);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE hn::Vec<Quad> scales(const std::byte* from) {
            return hn::Set(Quad(), read_half(from + offsetof(Block, d)));
        }

        template <int kFirst>
        static HWY_INLINE ByteHalves codes(const std::byte* from) {
            const std::byte* bits = from + offsetof(Block, qs) + 4 * kFirst;
            return {where_set<4>(bits, kMostCode), where_set<4>(bits + 2, kMostCode)};
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
