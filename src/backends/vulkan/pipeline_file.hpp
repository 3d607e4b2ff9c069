#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/board.hpp"

/// Compiled pipelines on disk: one file for a device and its driver, which tells shaders apart.
namespace heddle::vulkan {

/// Where they are kept; empty if they are not.
std::string pipeline_file(const Board& board);

/// What is kept there; nothing if there is no such file, or if it is not of this device and driver.
std::vector<std::byte> read_pipeline_file(const std::string& file, const Board& board);

/// Replaces the file as a whole. What cannot be written is not kept.
void write_pipeline_file(const std::string& file, std::span<const std::byte> bytes);

}  // namespace heddle::vulkan
