#include "command_tree.hpp"

#include <algorithm>
#include <cctype>

namespace heddle::tool {
namespace {

/// The parts of "TEXT:{rules,cost}".
std::vector<std::string> choices_in(const std::string& type) {
    std::vector<std::string> choices;
    const std::size_t open = type.find('{'), close = type.find('}');
    if (open == std::string::npos || close == std::string::npos) return choices;
    std::size_t begin = open + 1;
    while (begin < close) {
        const std::size_t end = std::min(type.find(',', begin), close);
        choices.push_back(type.substr(begin, end - begin));
        begin = end + 1;
    }
    return choices;
}

OptionText describe_option(const CLI::Option& option) {
    OptionText text;
    if (!option.get_snames().empty()) text.short_name = "-" + option.get_snames().front();
    if (!option.get_lnames().empty()) text.long_name = "--" + option.get_lnames().front();
    text.description = option.get_description();
    text.preset = option.get_default_str();
    text.required = option.get_required();
    text.group = option.get_group();
    const std::string type = option.get_type_name();
    text.choices = choices_in(type);
    // Validators add what they want behind a colon.
    if (option.get_items_expected_max() > 0) text.kind = type.substr(0, type.find(':'));
    if (option.get_positional()) {
        text.place = option.get_name(true);
        std::ranges::transform(text.place, text.place.begin(),
                               [](unsigned char c) { return std::toupper(c); });
    }
    text.repeated = option.get_items_expected_max() > 1;
    return text;
}

}  // namespace

CommandText describe_command(const CLI::App& app, const std::string& name) {
    CommandText text{name, app.get_description(), app.get_footer(), {}, {}};
    for (const CLI::Option* option : app.get_options({})) {
        if (!option->get_group().empty()) text.options.push_back(describe_option(*option));
    }
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_group().empty()) continue;
        text.commands.push_back(describe_command(*command, name + " " + command->get_name()));
    }
    return text;
}

}  // namespace heddle::tool
