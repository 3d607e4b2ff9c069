#pragma once

#include <string>

#include "heddle/result.hpp"

namespace heddle::tool {

/// All of a text file, or with "-" of standard input, without the end of its last line, which
/// editors and `echo` add.
Result<std::string> text_of(const std::string& path);

}  // namespace heddle::tool
