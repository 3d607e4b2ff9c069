#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

/// The command line as plain text, and pages made from it: completion for shells, the manual.
namespace heddle::tool {

struct OptionText {
    std::string short_name, long_name;  ///< with dashes; both empty for what is given by place
    std::string kind;   ///< of what it takes: FILE, DIR, DEVICE, TEXT, INT, ...; empty for flags
    std::string place;  ///< what it is called where it may stand without a name; else empty
    std::string description, preset;
    std::string group;  ///< the heading it stands under in help
    std::vector<std::string> choices;
    bool required = false, repeated = false;

    /// Has no name: it is given by its place only.
    bool is_positional() const { return short_name.empty() && long_name.empty(); }
    /// What is written for it in help; empty for flags. Numbers are N and X: which are allowed, the
    /// description says.
    std::string value() const {
        if (is_positional()) return place;
        if (kind == "INT" || kind == "UINT") return "N";
        return kind == "FLOAT" ? "X" : kind;
    }
    bool takes_file() const { return kind == "FILE" || kind == "DIR"; }
};

struct CommandText {
    std::string name;  ///< as it is typed: "heddle bench ops"
    std::string description, footer;
    std::vector<OptionText> options;
    std::vector<CommandText> commands;

    /// The last word of the name.
    std::string word() const { return name.substr(name.find_last_of(' ') + 1); }
};

/// All that is shown to users; hidden commands and options are left out.
CommandText describe_command(const CLI::App& app, const std::string& name);

std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

/// The page for `man`, in its language.
std::string manual_page(const CommandText& program, const std::string& version);

}  // namespace heddle::tool
