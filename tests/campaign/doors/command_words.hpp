/// The commands of the program with their options, as the program itself tells shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::campaign {

struct CommandOption {
    std::string name;  ///< with dashes
    bool takes_value = false, takes_file = false;
    std::vector<std::string> choices;  ///< values that it offers
};

struct CommandWords {
    std::vector<std::string> words;  ///< {"bench", "ops"}
    std::vector<CommandOption> options;
    bool takes_file = false;  ///< by place
};

/// Reads what `heddle completion fish` prints.
std::vector<CommandWords> command_words(std::string_view completion);

}  // namespace heddle::campaign
