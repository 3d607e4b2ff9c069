// A compiler barrier for values. Included once per instruction set, inside a file that is compiled
// by foreach_target.h.
#if defined(HEDDLE_SIMD_OPAQUE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_OPAQUE_HPP
#undef HEDDLE_SIMD_OPAQUE_HPP
#else
#define HEDDLE_SIMD_OPAQUE_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// Makes `vector` opaque: from here on the compiler does not know how it was made, so it keeps it
/// in a register and neither loads nor computes it again, nor puts off what it is made of. Costs no
/// instruction. Only on x86, whose compilers need it.
template <class V>
HWY_INLINE void opaque(V& vector) {
#if defined(__GNUC__) && HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
    asm("" : "+v"(vector.raw));
#else
    static_cast<void>(vector);
#endif
}

/// The same for a pointer: what is reached from it is computed from it, and does not become more
/// pointers than there are registers.
template <class T>
HWY_INLINE void opaque(T*& pointer) {
#if defined(__GNUC__)
    asm("" : "+r"(pointer));
#else
    static_cast<void>(pointer);
#endif
}

/// The same for a constant, where there are 32 registers. One that is known is loaded from memory
/// for every vector, which takes longer than computing with it; one that is not stays in a
/// register, or with fewer of them drives results of the loop out of theirs.
HWY_INLINE void opaque(float& constant) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
    asm("" : "+x"(constant));
#elif HWY_ARCH_ARM_A64
    asm("" : "+w"(constant));
#else
    static_cast<void>(constant);
#endif
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
