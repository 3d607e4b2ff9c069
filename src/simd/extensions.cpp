#include "simd/extensions.hpp"

#if defined(__linux__) && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace heddle::cpu {

bool has_vnni() {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_supports("avx512vnni") != 0;
#else
    return false;
#endif
}

// GCC alone lets through what the CPU it compiles for does not have.
#if defined(__linux__) && defined(__aarch64__) && !defined(__clang__)
bool has_dot_products() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_mixed_signs() { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
#else
bool has_dot_products() { return false; }
bool has_mixed_signs() { return false; }
#endif

}  // namespace heddle::cpu
