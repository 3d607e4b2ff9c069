#include "backends/mpi/staging.hpp"

#include <array>
#include <mutex>

namespace heddle::mpi {
namespace {

struct Kept {
    std::mutex lock;
    std::array<void*, StagingPool::kMostKept> blocks{};
    std::size_t count = 0;
};

/// Outlives every message: some are never given back, because MPI may still write to them.
Kept& kept() {
    static Kept& all = *new Kept;
    return all;
}

}  // namespace

void* StagingPool::take() {
    Kept& all = kept();
    {
        const std::lock_guard guard(all.lock);
        if (all.count > 0) return all.blocks[--all.count];
    }
    return ::operator new(kBlock);
}

void StagingPool::give_back(void* block) noexcept {
    Kept& all = kept();
    {
        const std::lock_guard guard(all.lock);
        if (all.count < kMostKept) {
            all.blocks[all.count++] = block;
            return;
        }
    }
    ::operator delete(block);
}

}  // namespace heddle::mpi
