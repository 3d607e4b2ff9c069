// q4_0 and q4_1: nibbles, 32 elements with one scale; q4_1 has a minimum besides. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_Q4_0_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_Q4_0_HPP
#undef HEDDLE_CPU_DOT_FORMATS_Q4_0_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_Q4_0_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_Q4_0>
    : SimpleBlock<block_q4_0, QK4_0, 8, 15>,
      FromSixteens<BlockFormat<GGML_TYPE_Q4_0>, offsetof(block_q4_0, qs), 1> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_nibbles(bytes, kZeroPoint, low, high);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE ByteHalves codes(const std::byte* from) { return nibbles(from); }
    };
#endif

#if HEDDLE_HAS_REPACK
    template <bool kIsSigned>
    struct Repacked : SimpleRepacked<Facts, kIsSigned> {
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            put_nibbles(at, sink, [](ByteVec codes) HWY_ATTR { return codes; });
            sink.end(0, at.unit_halves(0));
        }
    };
#endif
};

template <>
struct BlockFormat<GGML_TYPE_Q4_1>
    : SimpleBlockWithMinimum<block_q4_1, 15>,
      FromSixteens<BlockFormat<GGML_TYPE_Q4_1>, offsetof(block_q4_1, qs), 1> {
    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_nibbles(bytes, kZeroPoint, low, high);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE ByteHalves codes(const std::byte* from) { return nibbles(from); }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
