#pragma once

namespace heddle::cpu {

/// Tells the CPU that this is a waiting loop.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace heddle::cpu
