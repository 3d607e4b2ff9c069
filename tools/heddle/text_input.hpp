#pragma once

#include <string>

#include "heddle/result.hpp"

namespace heddle::tool {

/// All of a text file, without the end of its last line, which editors and `echo` add. Files that
/// are longer than any text, or never end, are refused.
Result<std::string> content_of(const std::string& path);

/// The same; "-" is standard input.
Result<std::string> text_of(const std::string& path);

}  // namespace heddle::tool
