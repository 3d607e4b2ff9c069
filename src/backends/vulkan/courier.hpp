#pragma once

#include <span>

#include "backends/vulkan/memory_block.hpp"
#include "backends/vulkan/timeline.hpp"

namespace heddle::vulkan {

/// Copies that have happened when a call returns, for memory that the host cannot read or write
/// itself. In pieces through a small buffer. Any thread may call.
class Courier {
public:
    static Result<std::unique_ptr<Courier>> make(Gpu& gpu);

    Result<> write(const Memory& to, std::size_t offset, std::span<const std::byte> bytes);
    Result<> read(const Memory& from, std::size_t offset, std::span<std::byte> bytes);
    Result<> fill(const Memory& to, std::size_t offset, std::size_t size, std::uint8_t value);
    Result<> copy(const Memory& from, std::size_t from_offset, const Memory& to,
                  std::size_t to_offset, std::size_t size);

private:
    Courier(Gpu& gpu, std::shared_ptr<Timeline> timeline, CommandPool commands, Memory staging)
        : gpu_(gpu),
          timeline_(std::move(timeline)),
          commands_(std::move(commands)),
          staging_(std::move(staging)) {}
    Result<> copy_now(VkBuffer from, std::size_t from_offset, VkBuffer to, std::size_t to_offset,
                      std::size_t size);

    Gpu& gpu_;
    std::mutex mutex_;
    std::shared_ptr<Timeline> timeline_;
    CommandPool commands_;
    Memory staging_;
};

}  // namespace heddle::vulkan
