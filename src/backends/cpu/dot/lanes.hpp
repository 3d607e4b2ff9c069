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

#include "backends/cpu/kernels/lanes.hpp"
#include "core/half.hpp"

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

/// By the instruction, where every CPU of the target has it.
HWY_INLINE float half_to_float(std::uint16_t bits) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    return _cvtsh_ss(bits);
#else
    return f16_to_f32(bits);
#endif
}

HWY_INLINE float to_float(float value) { return value; }
HWY_INLINE float to_float(F16 value) { return half_to_float(value.bits); }
HWY_INLINE float to_float(Bf16 value) { return bf16_to_f32(value.bits); }

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D lanes, const float* from) {
    return hn::LoadU(lanes, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D lanes, const F16* from) {
    return load_f16(lanes, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_f32(D lanes, const Bf16* from) {
    return load_bf16(lanes, from);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
