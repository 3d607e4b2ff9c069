#pragma once

#include <string>
#include <string_view>

#include "heddle/result.hpp"

namespace heddle::tool {

/// The exit status for `outcome`. What failed is told in one line.
int report_outcome(std::string_view command, const Result<>& outcome);

/// Writes a whole file, or none: nothing is left behind where it fails.
Result<> write_file(const std::string& path, std::string_view content);

}  // namespace heddle::tool
