// q8_0: bytes, 32 elements with one scale. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q8_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q8_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q8_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q8_0_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q8_0>
    : SimpleBlock<block_q8_0, QK8_0, 128, 255>,
      FromSixteens<BlockFormat<GGML_TYPE_Q8_0>, offsetof(block_q8_0, qs), 2> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B first, B second) {
        low = as_codes(first);
        high = as_codes(second);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE CodeHalves codes(const std::byte* from) {
            const std::byte* first = from + offsetof(Block, qs);
            return {hn::BitCast(CodeLanes(), gather<Block>(first)),
                    hn::BitCast(CodeLanes(), gather<Block>(first + 16))};
        }
    };
#endif

#if HEDDLE_HAS_REPACK && !HWY_ARCH_X86
    // On x86 a single column, which is what writing text takes, is faster from rows.
    template <bool kIsSigned>
    struct Repacked : SimpleRepacked<Facts, kIsSigned> {
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            const auto sign = hn::Set(ByteLanes(), kIsSigned ? 0 : kZeroPoint);
            HWY_UNROLL(8)
            for (int u = 0; u < 8; ++u) sink.put(u, hn::Xor(at.words(0, u), sign));
            sink.end(0, at.unit_halves(0));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
