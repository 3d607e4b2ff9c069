#include "backends/cpu/pool_cache.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace heddle::cpu {
namespace {

/// Pools that rest between graphs, so that no graph pays for making threads.
///
/// They belong to the process, because programs make streams for single graphs. When the process
/// ends, or this library is unloaded, their threads are joined.
class PoolCache {
public:
    PoolCache() {
        idle_.reserve(kMostIdle);  // giving back needs no memory
#if defined(__unix__) || defined(__APPLE__)
        // A forked child has none of the threads: it forgets the pools, and makes its own.
        pthread_atfork([] { cache().lock_.lock(); }, [] { cache().lock_.unlock(); },
                       [] {
                           for (auto& pool : cache().idle_) static_cast<void>(pool.release());
                           cache().idle_.clear();
                           cache().lock_.unlock();
                       });
#endif
    }

    static PoolCache& cache() {
        static PoolCache one;
        return one;
    }

    /// The smallest that has `threads` threads; null if none has.
    std::unique_ptr<ThreadPool> take(int threads) {
        const std::lock_guard guard(lock_);
        auto best = idle_.end();
        for (auto pool = idle_.begin(); pool != idle_.end(); ++pool) {
            if ((*pool)->size() < threads) continue;
            if (best == idle_.end() || (*pool)->size() < (*best)->size()) best = pool;
        }
        if (best == idle_.end()) return nullptr;
        std::unique_ptr<ThreadPool> taken = std::move(*best);
        idle_.erase(best);
        return taken;
    }

    void give_back(std::unique_ptr<ThreadPool> pool) noexcept {
        std::unique_ptr<ThreadPool> surplus;  // ended after the lock is open again
        const std::lock_guard guard(lock_);
        if (idle_.size() >= kMostIdle) {
            surplus = std::move(idle_.front());
            idle_.erase(idle_.begin());
        }
        idle_.push_back(std::move(pool));
    }

private:
    static constexpr std::size_t kMostIdle = 16;

    std::mutex lock_;
    std::vector<std::unique_ptr<ThreadPool>> idle_;
};

}  // namespace

PoolLease::~PoolLease() {
    if (pool_ != nullptr) pool_->leave();
    if (kept_ != nullptr) PoolCache::cache().give_back(std::move(kept_));
}

Result<PoolLease> lease_pool(int threads, ThreadPool* preferred) {
    PoolLease lease;
    if (threads <= 1) return lease;
    if (preferred != nullptr && preferred->size() >= threads && preferred->try_enter()) {
        lease.pool_ = preferred;
        return lease;
    }
    lease.kept_ = PoolCache::cache().take(threads);
    if (lease.kept_ == nullptr) {
        HEDDLE_TRY_ASSIGN(lease.kept_, ThreadPool::make(ggml_threadpool_params_default(threads)));
    }
    lease.kept_->try_enter();
    lease.pool_ = lease.kept_.get();
    return lease;
}

}  // namespace heddle::cpu
