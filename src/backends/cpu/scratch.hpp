#pragma once

#include <cstddef>
#include <memory>

#include "core/context.hpp"
#include "core/error.hpp"

namespace heddle::cpu {

/// Memory that grows when needed, aligned to `kScratchAlignment`.
class Scratch {
public:
    /// At least `size` bytes; what was there is lost.
    Result<std::byte*> reserve(std::size_t size) {
        if (size <= size_) return memory_.get();
        memory_.reset();  // first, so that both need not fit
        size_ = 0;
        memory_.reset(static_cast<std::byte*>(aligned_allocate(size)));
        if (memory_ == nullptr) {
            return failure(Errc::out_of_memory, "no memory for ", size, " bytes of scratch");
        }
        size_ = size;
        return memory_.get();
    }

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept { aligned_free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t size_ = 0;
};

/// Scratch memory is aligned to this.
inline constexpr std::size_t kScratchAlignment = 64;
inline std::size_t aligned_scratch(std::size_t size) {
    return (size + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

}  // namespace heddle::cpu
