#pragma once

#include <cstddef>

#include "ggml-backend-impl.h"

namespace heddle::cpu {

/// What is needed of an allocator of high-bandwidth memory.
struct HbmAllocator {
    int (*allocate)(void** memory, std::size_t alignment, std::size_t size) = nullptr;  ///< 0: done
    void (*release)(void* memory) = nullptr;

    explicit operator bool() const { return allocate != nullptr && release != nullptr; }
};

/// The allocator of the memkind library; none where the library or such memory is missing.
///
/// The library is opened only on machines with memory that no CPU is close to: that is how
/// high-bandwidth memory shows.
const HbmAllocator& memkind_allocator();

/// The buffer type "CPU_HBM", ordinary host memory but faster; null where there is none.
/// `allocator` and `device` of the first call count.
ggml_backend_buffer_type_t hbm_buffer_type(const HbmAllocator& allocator,
                                           ggml_backend_dev_t device);

}  // namespace heddle::cpu
