#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "heddle/result.hpp"

namespace heddle::tool {

/// The exit status for `outcome`. What failed is told in one line.
int report_outcome(std::string_view command, const Result<>& outcome);

/// Makes a whole file, or none: `write` is given the name to write to, and nothing is left behind
/// where it fails.
Result<> make_file(const std::string& path,
                   const std::function<Result<>(const std::string& unfinished)>& write);

/// The same for a file whose content is there.
Result<> write_file(const std::string& path, std::string_view content);

}  // namespace heddle::tool
