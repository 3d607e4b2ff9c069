// Rows of plain types as vectors of f32. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_CPU_DOT_LANES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DOT_LANES_HPP
#undef HEDDLE_CPU_DOT_LANES_HPP
#else
#define HEDDLE_CPU_DOT_LANES_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "core/half.hpp"

// Whether the processor converts half floats itself, as a processor of this target must.
#undef HEDDLE_HAS_HALF_INSTRUCTIONS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define HEDDLE_HAS_HALF_INSTRUCTIONS 1
#else
#define HEDDLE_HAS_HALF_INSTRUCTIONS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements of rows of halves, to tell the two kinds apart.
struct F16 {
    std::uint16_t bits;
};
struct Bf16 {
    std::uint16_t bits;
};

HWY_INLINE float half_to_float(std::uint16_t bits) {
#if HEDDLE_HAS_HALF_INSTRUCTIONS
    return _cvtsh_ss(bits);
#else
    return f16_to_f32(bits);
#endif
}

HWY_INLINE float to_float(float value) { return value; }
HWY_INLINE float to_float(F16 value) { return half_to_float(value.bits); }
HWY_INLINE float to_float(Bf16 value) { return bf16_to_f32(value.bits); }

template <class D>
HWY_INLINE hn::VFromD<D> load_f32(D lanes, const float* from) {
    return hn::LoadU(lanes, from);
}

template <class D>
HWY_INLINE hn::VFromD<D> load_f32(D lanes, const Bf16* from) {
    const hn::Rebind<std::uint16_t, D> halves;
    const hn::Rebind<std::uint32_t, D> words;
    const auto bits = hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from));
    return hn::BitCast(lanes, hn::ShiftLeft<16>(hn::PromoteTo(words, bits)));
}

template <class D>
HWY_INLINE hn::VFromD<D> load_f32(D lanes, const F16* from) {
#if HEDDLE_HAS_HALF_INSTRUCTIONS
    const hn::Rebind<hwy::float16_t, D> halves;
    return hn::PromoteTo(lanes, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
#else
    const hn::Rebind<std::uint16_t, D> halves;
    const hn::Rebind<std::int32_t, D> words;
    const auto bits =
        hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(from)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(words, 0x8000)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(words, 0x7fff)));
    // As a float the moved bits are 2^112 too small; multiplying gets subnormals right as well.
    const auto scaled = hn::BitCast(
        words, hn::Mul(hn::BitCast(lanes, magnitude), hn::Set(lanes, 0x1p112f)));
    const auto exponent = hn::Set(words, 0x7f800000);
    const auto special = hn::Gt(magnitude, hn::Set(words, (0x7c00 << 13) - 1));
    const auto value = hn::IfThenElse(special, hn::Or(magnitude, exponent), scaled);
    return hn::BitCast(lanes, hn::Or(sign, value));
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
