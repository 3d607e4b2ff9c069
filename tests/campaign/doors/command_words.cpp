#include "tests/campaign/doors/command_words.hpp"

#include <algorithm>
#include <sstream>

namespace heddle::campaign {
namespace {

/// The words of a line; what stands in quotes is one.
std::vector<std::string> shell_words(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    bool quoted = false, begun = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '\'') {
            quoted = !quoted, begun = true;
        } else if (c == '\\' && !quoted && i + 1 < line.size()) {
            word += line[++i];
        } else if (c == ' ' && !quoted) {
            if (begun || !word.empty()) words.push_back(word);
            word.clear(), begun = false;
        } else {
            word += c;
        }
    }
    if (begun || !word.empty()) words.push_back(word);
    return words;
}

std::vector<std::string> split(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> parts;
    for (std::string part; in >> part;) parts.push_back(part);
    return parts;
}

/// The commands that have to be there already: "...from bench; and ...from ops" is bench ops.
std::vector<std::string> command_of(const std::string& condition) {
    std::vector<std::string> words;
    const std::vector<std::string> parts = split(condition);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const bool is_not = i > 0 && parts[i - 1] == "not";
        if (parts[i] != "__fish_seen_subcommand_from" || is_not) continue;
        std::string word = parts[i + 1];
        if (word.ends_with(';')) word.pop_back();
        words.push_back(word);
    }
    return words;
}

CommandWords& command_in(std::vector<CommandWords>& all, const std::vector<std::string>& words) {
    const auto found = std::ranges::find(all, words, &CommandWords::words);
    if (found != all.end()) return *found;
    all.push_back({words, {}, false});
    return all.back();
}

}  // namespace

std::vector<CommandWords> command_words(std::string_view completion) {
    std::vector<CommandWords> all;
    std::istringstream lines{std::string(completion)};
    for (std::string line; std::getline(lines, line);) {
        const std::vector<std::string> words = shell_words(line);
        if (words.size() < 4 || words[0] != "complete") continue;
        CommandOption option;
        std::vector<std::string> command;
        std::string offered;
        for (std::size_t i = 1; i < words.size(); ++i) {
            const bool has_next = i + 1 < words.size();
            if (words[i] == "-r" || words[i] == "-x") option.takes_value = true;
            if (words[i] == "-F") option.takes_file = true;
            if (!has_next) continue;
            if (words[i] == "-n")
                command = command_of(words[++i]);
            else if (words[i] == "-l")
                option.name = "--" + words[++i];
            else if (words[i] == "-s" && option.name.empty())
                option.name = "-" + words[++i];
            else if (words[i] == "-a")
                offered = words[++i];
            else if (words[i] == "-d")
                ++i;
        }
        CommandWords& to = command_in(all, command);
        if (offered.find('(') == std::string::npos) option.choices = split(offered);
        if (!option.name.empty()) to.options.push_back(option);
        if (option.name.empty() && option.takes_file) to.takes_file = true;
    }
    return all;
}

}  // namespace heddle::campaign
