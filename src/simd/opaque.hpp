// A compiler barrier for values. Included once per instruction set, inside a file that is compiled
// by foreach_target.h.
#if defined(HEDDLE_SIMD_OPAQUE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_SIMD_OPAQUE_HPP
#undef HEDDLE_SIMD_OPAQUE_HPP
#else
#define HEDDLE_SIMD_OPAQUE_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>

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

/// The same for four vectors at once: all of them are there before the first is used.
template <class V>
HWY_INLINE void opaque(V& v0, V& v1, V& v2, V& v3) {
#if defined(__GNUC__) && HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
    asm volatile("" : "+v"(v0.raw), "+v"(v1.raw), "+v"(v2.raw), "+v"(v3.raw));
#else
    static_cast<void>(v0), static_cast<void>(v1), static_cast<void>(v2), static_cast<void>(v3);
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

/// The same for a pointer and a distance at once.
template <class T>
HWY_INLINE void opaque(T*& pointer, std::size_t& distance) {
#if defined(__GNUC__)
    asm("" : "+r"(pointer), "+r"(distance));
#else
    static_cast<void>(pointer), static_cast<void>(distance);
#endif
}

/// Objects that stay in memory: from here on the compiler does not know what they hold.
template <class T>
HWY_INLINE void opaque_memory(T& object) {
#if defined(__GNUC__)
    asm volatile("" : "+m"(object));
#else
    static_cast<void>(object);
#endif
}
template <class T>
HWY_INLINE void opaque_memory(T& a, T& b, T& c) {
#if defined(__GNUC__)
    asm("" : "+m"(a), "+m"(b), "+m"(c));
#else
    static_cast<void>(a), static_cast<void>(b), static_cast<void>(c);
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
