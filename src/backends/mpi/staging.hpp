#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

/// Memory of messages.
namespace heddle::mpi {

/// Blocks that hold a message each. They are kept and given out again: a fresh block of this size
/// comes from the system, which clears it page by page, and that takes as long as sending it.
class StagingPool {
public:
    static constexpr std::size_t kBlock = (std::size_t{1} << 20) + (std::size_t{64} << 10);
    static constexpr std::size_t kLeast = std::size_t{64} << 10;  ///< smaller ones are not kept
    static constexpr std::size_t kMostKept = 24;

    static bool holds(std::size_t bytes) { return bytes >= kLeast && bytes <= kBlock; }
    static void* take();
    static void give_back(void* block) noexcept;
};

/// Allocates messages, and leaves bytes that are given no value as they are: they are about to be
/// overwritten.
template <class T>
struct StagingAllocator {
    using value_type = T;

    StagingAllocator() = default;
    template <class U>
    StagingAllocator(const StagingAllocator<U>&) noexcept {}

    T* allocate(std::size_t count) {
        const std::size_t bytes = count * sizeof(T);
        if (StagingPool::holds(bytes)) return static_cast<T*>(StagingPool::take());
        return std::allocator<T>().allocate(count);
    }
    void deallocate(T* data, std::size_t count) noexcept {
        if (StagingPool::holds(count * sizeof(T))) return StagingPool::give_back(data);
        std::allocator<T>().deallocate(data, count);
    }

    template <class U>
    void construct(U* at) noexcept {
        ::new (static_cast<void*>(at)) U;
    }
    template <class U, class... Args>
    void construct(U* at, Args&&... args) {
        ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
    }

    bool operator==(const StagingAllocator&) const = default;
};

}  // namespace heddle::mpi
