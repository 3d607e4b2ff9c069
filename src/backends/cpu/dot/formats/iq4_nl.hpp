// iq4_nl: nibbles that name one of sixteen levels, 32 elements with one scale. Included once per
// instruction set, inside a file that is compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_FORMATS_IQ4_NL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_FORMATS_IQ4_NL_HPP
#undef HEDDLE_CPU_DOT_FORMATS_IQ4_NL_HPP
#else
#define HEDDLE_CPU_DOT_FORMATS_IQ4_NL_HPP
#endif

#include "backends/cpu/dot/formats/simple_block.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <>
struct BlockFormat<GGML_TYPE_IQ4_NL>
    : SimpleBlock<block_iq4_nl, QK4_NL, 127, 240>,
      FromSixteens<BlockFormat<GGML_TYPE_IQ4_NL>, offsetof(block_iq4_nl, qs), 1> {
    static_assert(kNonlinearLevels[0] == -kZeroPoint);
    static_assert(kNonlinearLevels[15] == kMostCode - kZeroPoint);

    template <class B, class V>
    static HWY_INLINE void decode(V& low, V& high, B bytes) {
        unpack_levels(kNonlinearLevels, bytes, low, high);
    }

#if HEDDLE_HAS_BYTE_PRODUCTS
    struct Gemv : SimpleGemv<Facts> {
        static HWY_INLINE CodeHalves codes(const std::byte* from) {
            const auto codes = nibbles(from);
            return {look_up_lanes(kNonlinearLevels, codes.low),
                    look_up_lanes(kNonlinearLevels, codes.high)};
        }
    };
#endif

#if HEDDLE_HAS_REPACK
    template <bool kIsSigned>
    struct Repacked : SimpleRepacked<Facts, kIsSigned> {
        template <class Sink>
        static HWY_INLINE void unpack(const Place& at, Sink& sink) {
            put_levels(kNonlinearLevels, Repacked::kOffset, at, sink);
            sink.end(0, at.unit_halves(0));
        }
    };
#endif
};

#endif
}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
