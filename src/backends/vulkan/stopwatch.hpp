#pragma once

#include <string>
#include <vector>

#include "backends/vulkan/gpu.hpp"

namespace heddle::vulkan {

/// Ticks between two readings of a clock of so many bits, 1 to 64, which may have begun again once.
std::uint64_t ticks_between(std::uint64_t first, std::uint64_t second, std::uint32_t bits);

/// Times of the parts of one command buffer, as the device's clock has them.
class Stopwatch {
public:
    /// For as many parts; a part begins where the one before it ends. The queue has a clock.
    static Result<Stopwatch> make(Gpu& gpu, std::uint32_t parts);
    ~Stopwatch();
    Stopwatch(Stopwatch&& other) noexcept
        : gpu_(std::move(other.gpu_)),
          pool_(std::exchange(other.pool_, VK_NULL_HANDLE)),
          parts_(other.parts_),
          marks_(other.marks_) {}
    Stopwatch& operator=(Stopwatch&&) = delete;

    /// All that was recorded before has ended; the next part begins.
    void mark(VkCommandBuffer commands);

    /// Of each part, once the command buffer has run.
    Result<std::vector<double>> microseconds() const;

private:
    Stopwatch(Gpu& gpu, std::uint32_t parts) : gpu_(gpu.shared_from_this()), parts_(parts) {}

    std::shared_ptr<Gpu> gpu_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
    std::uint32_t parts_, marks_ = 0;
};

/// A table of what parts of the same name took together, the longest first.
std::string table_of_times(const std::vector<std::string>& names,
                           const std::vector<double>& microseconds);

}  // namespace heddle::vulkan
