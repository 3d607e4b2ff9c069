#pragma once

#include "backends/vulkan/recorder.hpp"

namespace heddle::vulkan {

/// Copies `size` bytes between two places that do not overlap, in pieces as large as their
/// alignment allows.
void record_bytes(Recorder& recorder, std::uint64_t to, std::uint64_t from, std::size_t size);

}  // namespace heddle::vulkan
