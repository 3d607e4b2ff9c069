#pragma once

#include "backends/cuda/board.hpp"
#include "heddle/backend.hpp"

namespace heddle::cuda {

/// Bytes that the kernels of `graph` need at most, one after the other. Its tensors need no memory.
std::size_t scratch_of(const Board& board, ggml_cgraph& graph);

/// Memory of a device that the kernels of one stream use one after the other. It only grows.
class Scratch {
public:
    explicit Scratch(const Board& board) : board_(board) {}

    /// Room for `size` bytes, aligned to 256. Growing frees the smaller room, which nothing may use
    /// any more. Fails with `out_of_memory`; the room there was is kept.
    Result<std::byte*> reserve(std::size_t size);

    /// Whether so much is there already.
    bool has(std::size_t size) const { return size <= size_; }

private:
    const Board& board_;
    DeviceMemory memory_;
    std::size_t size_ = 0;
};

}  // namespace heddle::cuda
