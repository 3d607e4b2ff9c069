#pragma once

#include <cstddef>

/// What a terminal can do.
namespace heddle::tool {

/// Whether `stream` is a terminal that understands more than lines.
bool has_screen(int stream);

/// How wide the terminal is; `otherwise` where `stream` is none.
std::size_t columns(int stream, std::size_t otherwise);

}  // namespace heddle::tool
