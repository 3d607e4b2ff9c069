#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::cpu {

/// How far a task is with its share of a step. On a cache line of its own: as a rule no other task
/// looks at it.
class alignas(64) Progress {
public:
    /// Steps have numbers other than 0.
    void begin(std::uint32_t step) { value_.store(word(step), std::memory_order_relaxed); }

    /// Calls `unit(i)` for each i below `count` that no task has begun. None if the task has not
    /// begun the step: the task that begins it finds all of them; none if it is past it.
    template <class Unit>
    void take(std::uint32_t step, std::int64_t count, Unit&& unit) {
        std::uint64_t seen = value_.load(std::memory_order_relaxed);
        // The word grows by one for each unit, and is another one for every other step.
        while (seen - word(step) < static_cast<std::uint64_t>(count)) {
            const auto next = static_cast<std::int64_t>(seen - word(step));
            if (!value_.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) continue;
            unit(next);
            ++seen;
        }
    }

private:
    static constexpr std::uint64_t word(std::uint32_t step) { return std::uint64_t{step} << 32; }

    std::atomic<std::uint64_t> value_{0};  ///< the step and, in the lower half, the units begun
};

}  // namespace heddle::cpu
