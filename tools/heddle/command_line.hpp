#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// What people type, before the parser sees it.
namespace heddle::tool {

struct CommandLine {
    std::vector<std::string> words;  ///< as the parser should read them
    std::string command;             ///< the command that they ask for: "bench ops"
    std::string problem;             ///< a word that means nothing, in a sentence; or empty
    std::vector<std::string> notes;  ///< what is better typed another way
};

/// Finds words that mean nothing, and says which may have been meant. Understands besides what the
/// parser knows: `help COMMAND`, `bench FILE`, and names of options that users of llama.cpp type.
CommandLine read_command_line(const CLI::App& app, const std::vector<std::string>& typed);

}  // namespace heddle::tool
