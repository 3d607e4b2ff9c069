#include <fmt/core.h>

#include "command_tree.hpp"
#include "help.hpp"

namespace heddle::tool {
namespace {

/// Text of which nothing is taken for a command of the page.
std::string plain(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else if (c == '\'') {
            out += "\\(aq";
        } else {
            out += c;
        }
    }
    return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

/// The line that shows how a command is typed.
std::string synopsis(const CommandText& command) {
    std::string text = bold(command.name);
    bool options = false;
    std::string places;
    for (const OptionText& option : command.options) {
        if (!option.is_positional()) options = true;
        if (option.place.empty()) continue;
        places += option.required ? " " + italic(option.place) : " [" + italic(option.place) + "]";
    }
    if (options) text += " [" + italic("OPTIONS") + "]";
    if (!command.commands.empty()) text += " " + italic("COMMAND");
    return text + places;
}

std::string option_entry(const OptionText& option) {
    std::string head;
    if (option.is_positional()) {
        head = italic(option.place);
    } else {
        for (const std::string& name : {option.short_name, option.long_name}) {
            if (!name.empty()) head += (head.empty() ? "" : ", ") + bold(name);
        }
        if (!option.value().empty()) head += " " + italic(option.value());
    }
    std::string about = plain(option.description);
    if (!option.choices.empty()) {
        about += ". One of";
        for (const std::string& choice : option.choices) about += " " + bold(choice);
    }
    if (!option.preset.empty()) about += " (" + plain(option.preset) + " if left out)";
    return fmt::format(".TP\n{}\n{}.\n", head, about);
}

void add_command(const CommandText& command, std::string& page) {
    page += fmt::format(".SS {}\n{}.\n.PP\n{}\n", plain(command.name), plain(command.description),
                        synopsis(command));
    for (const OptionText& option : command.options) {
        if (option.long_name != "--help") page += option_entry(option);
    }
    for (const CommandText& inner : command.commands) add_command(inner, page);
}

constexpr const char* kEnd = R"(.SH EXIT STATUS
.TP
.B 0
All is well.
.TP
.B 1
Something failed: a file that cannot be read, a device that is not there, results past their
tolerance. One line on standard error says what. No unfinished file is left behind.
.TP
.B 2
The command line was wrong.
.SH ENVIRONMENT
.TP
.B NO_COLOR
If set to anything, nothing is coloured. Output that is no terminal never is.
.TP
.B TERM
If dumb or not set, there are no colours, no progress bars and no editing of lines.
.TP
.B HEDDLE_HISTORY
Where lines of conversations are kept: ~/.local/state/heddle/history if it is not set, nowhere if it is empty.
.TP
.B XDG_CACHE_HOME
What can be made again is kept in heddle there: measured speeds of devices, digests of files, compiled pipelines. If it is not set to an absolute path, in ~/.cache.
.TP
.B GGML_BACKEND_PATH
Plug\-ins to load besides those found: files, with colons between them.
.TP
.B HEDDLE_BACKENDS
Plug\-ins to load that are otherwise loaded on request: blas, or sim:devices=2, with commas between them.
.TP
.B HEDDLE_PLUGIN_TRIAL
Seconds that a plug\-in may take to load. It is loaded in a child process first; 0 leaves that out.
.TP
.B HEDDLE_UNSAFE_PLUGINS
If 1, plug\-ins are loaded that other users could have put where they are.
)";

}  // namespace

std::string manual_page(const CommandText& program, const std::string& version) {
    std::string page = fmt::format(".TH HEDDLE 1 \"\" \"heddle {}\" \"User Commands\"\n", version);
    page += ".SH NAME\nheddle \\- run tensor graphs across every compute device of a machine\n";
    page += fmt::format(".SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{}\n", synopsis(program),
                        plain(program.description));
    page += ".SH OPTIONS\n";
    for (const OptionText& option : program.options) page += option_entry(option);
    page += ".SH COMMANDS\n";
    for (const CommandText& command : program.commands) add_command(command, page);
    page += kEnd;
    page += ".SH EXAMPLES\n";
    for (const Example& example : examples()) {
        page += fmt::format(".TP\n{}\n{}.\n", plain(std::string(example.words)),
                            plain(std::string(example.does)));
    }
    return page;
}

}  // namespace heddle::tool
