#pragma once

#include <span>
#include <string>
#include <string_view>

#include "command_tree.hpp"

/// What `--help` prints.
namespace heddle::tool {

struct Example {
    std::string_view command;  ///< whose: "heddle run"
    std::string_view words;    ///< what to type
    std::string_view does;
};

/// Of all commands; the manual shows them too.
std::span<const Example> examples();

/// In lines of at most `width` characters, where words are not longer.
std::string help_text(const CommandText& command, std::size_t width);

/// Lets `app`, and all commands that are added to it afterwards, print that.
void use_help_text(CLI::App& app);

}  // namespace heddle::tool
