#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.hpp"

namespace heddle::cpu {

/// Most tokens of a run (see decayed_states.hpp).
inline constexpr std::int64_t kMostTokensOfRun = 32;

/// Most tokens of a run from `token` on, where it ends with each state of which a snapshot is kept.
inline std::int64_t longest_run_between_snapshots(std::int64_t token, std::int64_t tokens,
                                                  std::int64_t snapshots) {
    const std::int64_t left = tokens - snapshots + 1 - token;
    return left < 1 ? 1 : left < kMostTokensOfRun ? left : kMostTokensOfRun;
}

/// What tasks keep of a run: `per_token` vectors for each of its tokens, and two others.
struct RunMemory {
    std::int64_t size, vectors;

    RunMemory(std::int64_t vector_size, std::int64_t per_token)
        : size(vector_size), vectors(per_token * kMostTokensOfRun + 2) {}

    std::size_t floats() const { return static_cast<std::size_t>(size * vectors); }
    float* of(const Task& task) const {
        return reinterpret_cast<float*>(task.scratch) +
               static_cast<std::size_t>(task.index) * floats();
    }
    Demand demand(Demand tasks) const {
        tasks.scratch = static_cast<std::size_t>(tasks.tasks) * floats() * sizeof(float);
        return tasks;
    }
};

}  // namespace heddle::cpu
