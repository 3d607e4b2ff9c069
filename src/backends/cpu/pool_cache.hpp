#pragma once

#include <memory>

#include "backends/cpu/thread_pool.hpp"

namespace heddle::cpu {

/// A pool in the hands of one graph at a time: the caller's, or a kept one that goes back
/// afterwards.
class PoolLease {
public:
    PoolLease() = default;  ///< no pool: one thread is enough
    PoolLease(PoolLease&& other) noexcept { swap(other); }
    PoolLease& operator=(PoolLease&& other) noexcept {
        swap(other);
        return *this;
    }
    ~PoolLease();

    ThreadPool* pool() const { return pool_; }

private:
    friend Result<PoolLease> lease_pool(int threads, ThreadPool* preferred);
    void swap(PoolLease& other) noexcept {
        std::swap(pool_, other.pool_);
        std::swap(kept_, other.kept_);
    }

    ThreadPool* pool_ = nullptr;  ///< entered
    std::unique_ptr<ThreadPool> kept_;
};

/// A pool of at least `threads` threads: `preferred`, where that is large enough and no graph
/// computes with it, or else one that an earlier graph has given back, or a new one. None for one
/// thread.
Result<PoolLease> lease_pool(int threads, ThreadPool* preferred);

}  // namespace heddle::cpu
