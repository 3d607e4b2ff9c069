// q5_0 and q5_1: nibbles and a fifth bit, 32 elements with one scale; q5_1 has a minimum besides.
// Included once per instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q5_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q5_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q5_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q5_0_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

/// Both formats: `Facts` with fifth bits.
template <class Facts>
struct FiveBits : Facts {
    using Block = typename Facts::Block;

    template <class Source, class V>
    static HWY_INLINE void unpack(const Source& block, int, V& low, V& high) {
        unpack_nibbles(load_bytes(block + offsetof(Block, qs)), Facts::kZeroPoint, low, high);
        const auto bytes = load_bytes(block + offsetof(Block, qh));  // of which four count
        const auto bits = each_bit(hn::DFromV<decltype(bytes)>());
        low = hn::Add(low, where_bits(spread_two(bytes, 0), bits, 16));
        high = hn::Add(high, where_bits(spread_two(bytes, 2), bits, 16));
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE ByteHalves codes(const std::byte* from) {
            const auto codes = SimpleGemv<Facts>::nibbles(from);
            const std::byte* bits = from + offsetof(Block, qh);
            return {hn::Or(codes.low, where_set<sizeof(Block)>(bits, 16)),
                    hn::Or(codes.high, where_set<sizeof(Block)>(bits + 2, 16))};
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_Q5_0> : FiveBits<SimpleBlock<block_q5_0, QK5_0, 16, 31> > {};

template <>
struct BlockFormat<GGML_TYPE_Q5_1> : FiveBits<SimpleBlockWithMinimum<block_q5_1, 31> > {};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
