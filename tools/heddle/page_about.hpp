#pragma once

#include <string>
#include <vector>

namespace heddle::tool {

/// What the user typed, for pages to say how they were made.
void remember_command(const std::vector<std::string>& typed);

/// The page of a schedule, with the model, the command, the machine and the date in its title.
std::string with_about(std::string page, const std::string& model);

}  // namespace heddle::tool
