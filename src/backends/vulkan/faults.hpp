#pragma once

#include "backends/vulkan/memory_block.hpp"

namespace heddle::vulkan {

/// Where kernels of one stream leave word of an index that points outside of its table, in memory
/// that the host can read.
class Faults {
public:
    static Result<Faults> make(Gpu& gpu);

    VkDeviceAddress address() const { return memory_.address(); }

    /// Fails, once, if a kernel that has finished left word.
    Result<> report(const Board& board) const;

private:
    explicit Faults(Memory memory) : memory_(std::move(memory)) {}

    Memory memory_;
};

}  // namespace heddle::vulkan
