// Loops that are unrolled by the language. Included once per instruction set, inside a file that is
// compiled by foreach_target.h.
#if defined(HEDDLE_SIMD_UNROLLED_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_UNROLLED_HPP
#undef HEDDLE_SIMD_UNROLLED_HPP
#else
#define HEDDLE_SIMD_UNROLLED_HPP
#endif

#include <hwy/highway.h>

#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// body(0), body(1), ... body(kCount - 1) with numbers that are known when it is compiled: arrays
/// of vectors stay in registers, which they do not in all loops.
template <int kCount, class Body>
HWY_INLINE void unrolled(const Body& body) {
    if constexpr (kCount > 0) {
        unrolled<kCount - 1>(body);
        body(std::integral_constant<int, kCount - 1>());
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
