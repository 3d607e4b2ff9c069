#pragma once

#include <deque>
#include <optional>

#include "backends/vulkan/memory_block.hpp"

namespace heddle::vulkan {

/// A ring of host memory through which a stream copies without waiting. Room is free again when the
/// submission that used it has finished.
class StagingRing {
public:
    explicit StagingRing(Memory memory) : memory_(std::move(memory)) {}

    VkBuffer buffer() const { return memory_.buffer(); }
    std::byte* at(std::size_t offset) const { return memory_.mapped() + offset; }
    std::size_t size() const { return memory_.size(); }

    /// Room for `size` bytes, not more than size(), in use until submission `value`; none if what
    /// is in use leaves none. `reached` is the newest submission that has finished.
    std::optional<std::size_t> take(std::size_t size, std::uint64_t value, std::uint64_t reached) {
        while (!used_.empty() && used_.front().value <= reached) used_.pop_front();
        if (used_.empty()) next_ = 0;
        if (!fits(size)) return std::nullopt;
        const std::size_t begin = next_ + size <= this->size() ? next_ : 0;
        used_.push_back({begin, begin + size, value});
        next_ = begin + size;
        return begin;
    }

private:
    struct Used {
        std::size_t begin, end;
        std::uint64_t value;
    };

    bool fits(std::size_t size) const {
        if (used_.empty()) return size <= this->size();
        const std::size_t oldest = used_.front().begin;
        if (next_ > oldest) {
            return next_ + size <= this->size() || size <= oldest;
        }
        return next_ + size <= oldest;
    }

    Memory memory_;
    std::deque<Used> used_;
    std::size_t next_ = 0;
};

}  // namespace heddle::vulkan
