#include "backends/sim/process.hpp"

#include <pthread.h>

#include <atomic>

namespace heddle::sim {
namespace {

std::atomic<unsigned> number{0};

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

unsigned process_number() noexcept { return number.load(std::memory_order_relaxed); }

}  // namespace heddle::sim
