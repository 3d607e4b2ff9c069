#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows/row_pieces.hpp"

/// Rows of SOFT_MAX on their way to memory. Exponentials are not results yet: they have to be
/// divided by their sum. Where no cache holds all results, exponentials wait in scratch memory, and
/// results are written past the caches, which need not read first what was there before.
namespace heddle::cpu {

/// With as many bytes of logits, results of this size are more than caches hold.
inline constexpr std::size_t kFarBytes = 16 << 20;

/// The longest row that stays in a near cache until it is finished, with the next one.
inline constexpr std::int64_t kStagedRow = 8 * kRowPiece;

/// How far ahead of the largest logit the next ones are asked for, in elements.
inline constexpr std::int64_t kReadAhead = 1024;

inline constexpr std::uintptr_t kPageBytes = 4096;
inline constexpr std::uintptr_t kLineBytes = 64;

/// Whether there has to be room for waiting rows of `node`. All begin at whole
/// cache lines if the first one does.
inline bool has_stages(const Tensor& node) {
    if (byte_size(node) < kFarBytes || node.ne[0] > kStagedRow) return false;
    return (node.nb[1] | node.nb[2] | node.nb[3]) % kLineBytes == 0;
}

/// Whether rows of `node`, whose memory is known now, wait there.
inline bool is_staged(const Tensor& node) {
    return has_stages(node) && reinterpret_cast<std::uintptr_t>(node.data) % kLineBytes == 0;
}

// Loads wait for stores to the same place of another page that are still on their way. So rows in
// the scratch memory are half a page away from logits of the same index, and a quarter of a page
// from each other.

/// Elements from one row in the scratch memory to the next.
inline std::int64_t staged_pitch(std::int64_t n) {
    constexpr std::int64_t page = kPageBytes / sizeof(float);
    return (n + page - 1) / page * page + page / 4;
}

/// Two rows and what is skipped to reach the right place of a page.
inline std::size_t stages_size_of_task(std::int64_t n) {
    return 2 * static_cast<std::size_t>(staged_pitch(n)) * sizeof(float) + kPageBytes;
}

inline std::size_t stages_size(std::int64_t n, int tasks) {
    return static_cast<std::size_t>(tasks) * stages_size_of_task(n);
}

/// The first of both rows of a task. `memory` is that of all tasks and begins a line.
inline float* stages_of(const Tensor& x, const Task& task, std::byte* memory) {
    memory += static_cast<std::size_t>(task.index) * stages_size_of_task(x.ne[0]);
    const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(x.data) + kPageBytes / 2;
    const std::uintptr_t skipped = (place - reinterpret_cast<std::uintptr_t>(memory)) % kPageBytes;
    return reinterpret_cast<float*>(memory + skipped / kLineBytes * kLineBytes);
}

}  // namespace heddle::cpu
