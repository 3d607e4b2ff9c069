#include <fmt/core.h>

#include "command_tree.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "generated.hpp"
#include "ggml.h"
#include "heddle/heddle.h"
#include "ops/catalogue.hpp"
#include "weight_types.hpp"

/// `heddle completion` and `heddle manual`: pages written from the command line's own definition.
namespace heddle::tool {
namespace {

/// What follows the program's name in a command's.
std::string path_of(const CommandText& command) {
    const std::size_t space = command.name.find(' ');
    return space == std::string::npos ? "" : command.name.substr(space + 1);
}

template <class Body>
void for_each_command(const CommandText& command, const Body& body) {
    body(command);
    for (const CommandText& inner : command.commands) for_each_command(inner, body);
}

/// `text` in single quotes, for every shell here.
std::string in_quotes(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

std::string function_name(const CommandText& command) {
    std::string name = "_" + command.name;
    for (char& c : name) c = c == ' ' || c == '-' ? '_' : c;
    return name;
}

std::vector<std::string> op_names() {
    std::vector<std::string> names;
    for (const Op op : generated_ops()) names.emplace_back(find_op(op)->name);
    return names;
}

std::vector<std::string> type_names() {
    std::vector<std::string> names = WeightTypes::mixtures();
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const char* const name = ggml_type_name(static_cast<ggml_type>(i));
        if (name != nullptr && *name != '\0') names.emplace_back(name);
    }
    return names;
}

/// Fills in values that no check of an option lists.
void name_values(CommandText& command) {
    for (OptionText& option : command.options) {
        if (option.kind == "OP") option.choices = op_names();
        if (option.kind == "TYPE") option.choices = type_names();
    }
    for (CommandText& inner : command.commands) name_values(inner);
}

/// Prints the names of devices, in every shell here.
constexpr const char* kDevices = "heddle devices 2>/dev/null | awk 'NR > 1 { print $1 }'";

// ---- bash --------------------------------------------------------------------------------------

/// The cases in which a value is completed: "run --policy") ... ;;
std::string bash_values(const CommandText& program) {
    std::string text;
    for_each_command(program, [&](const CommandText& command) {
        for (const OptionText& option : command.options) {
            if (option.is_positional() || option.value().empty()) continue;
            std::string pattern;
            for (const std::string& name : {option.short_name, option.long_name}) {
                if (name.empty()) continue;
                pattern += fmt::format("{}\"{} {}\"", pattern.empty() ? "" : " | ",
                                       path_of(command), name);
            }
            const std::string offered =
                !option.choices.empty()   ? fmt::format("-W '{}' ", joined(option.choices))
                : option.takes_file()     ? "-f "
                : option.kind == "DEVICE" ? fmt::format("-W \"$({})\" ", kDevices)
                                          : "";
            const std::string reply =
                offered.empty() ? "COMPREPLY=()"
                                : fmt::format("COMPREPLY=($(compgen {}-- \"$current\"))", offered);
            text += fmt::format("    {}) {}; return ;;\n", pattern, reply);
        }
    });
    return text;
}

std::string bash_words(const CommandText& command) {
    std::vector<std::string> words;
    for (const CommandText& inner : command.commands) words.push_back(inner.word());
    for (const OptionText& option : command.options) {
        if (!option.is_positional()) {
            words.push_back(option.long_name.empty() ? option.short_name : option.long_name);
        } else {
            words.insert(words.end(), option.choices.begin(), option.choices.end());
        }
    }
    return joined(words);
}

bool takes_files(const CommandText& command) {
    for (const OptionText& option : command.options) {
        if (option.is_positional() && option.takes_file()) return true;
    }
    return false;
}

// ---- zsh ---------------------------------------------------------------------------------------

std::string zsh_escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':') out += '\\';
        out += c;
    }
    return out;
}

std::string zsh_option(const OptionText& option, int& place) {
    const std::string action = !option.choices.empty() ? fmt::format("({})", joined(option.choices))
                               : option.takes_file()   ? "_files"
                               : option.kind == "DEVICE" ? "_heddle_device_names"
                                                         : " ";
    const std::string value = fmt::format("{}:{}", zsh_escaped(option.value()), action);
    if (option.is_positional()) return in_quotes(fmt::format("{}:{}", ++place, value));
    std::string spec = fmt::format("[{}]", zsh_escaped(option.description));
    if (!option.value().empty()) spec += ":" + value;
    const std::string many = option.repeated ? "*" : "";
    if (option.short_name.empty() || option.long_name.empty()) {
        return in_quotes(many + option.short_name + option.long_name + spec);
    }
    const std::string excluded =
        option.repeated ? "" : fmt::format("({} {})", option.short_name, option.long_name);
    return fmt::format("{}{{{},{}}}{}", in_quotes(excluded + many), option.short_name,
                       option.long_name, in_quotes(spec));
}

std::string zsh_function(const CommandText& command) {
    std::string text = function_name(command) + "() {\n";
    if (!command.commands.empty()) text += "  local line state\n";
    text += command.commands.empty() ? "  _arguments" : "  _arguments -C";
    int place = 0;
    for (const OptionText& option : command.options) {
        text += " \\\n    " + zsh_option(option, place);
    }
    if (command.commands.empty()) return text + "\n}\n";
    text += " \\\n    '1: :->command' '*:: :->rest'\n  case $state in\n    command)\n";
    text += "      local -a commands=(\n";
    for (const CommandText& inner : command.commands) {
        text += fmt::format("        {}\n", in_quotes(inner.word() + ":" + inner.description));
    }
    text += "      )\n      _describe command commands ;;\n    rest)\n      case $line[1] in\n";
    for (const CommandText& inner : command.commands) {
        text += fmt::format("        {}) {} ;;\n", inner.word(), function_name(inner));
    }
    return text + "      esac ;;\n  esac\n}\n";
}

// ---- fish --------------------------------------------------------------------------------------

/// When a command's own words are offered: all words of its name were seen, none of its commands'.
std::string fish_condition(const CommandText& command) {
    std::string text;
    std::string path = path_of(command);
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find(' ', begin), path.size());
        text += (text.empty() ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") +
                path.substr(begin, end - begin);
        begin = end + 1;
    }
    std::vector<std::string> inner;
    for (const CommandText& each : command.commands) inner.push_back(each.word());
    if (inner.empty()) return text;
    return text + (text.empty() ? "" : "; and ") + "not __fish_seen_subcommand_from " +
           joined(inner);
}

std::string fish_option(const OptionText& option, const std::string& start) {
    std::string line = start;
    if (option.is_positional()) {
        if (option.takes_file()) return line + " -F\n";
        if (option.choices.empty()) return {};
        return line + " -f -a " + in_quotes(joined(option.choices)) + "\n";
    }
    if (!option.short_name.empty()) line += " -s " + option.short_name.substr(1);
    if (!option.long_name.empty()) line += " -l " + option.long_name.substr(2);
    if (!option.choices.empty()) {
        line += " -x -a " + in_quotes(joined(option.choices));
    } else if (option.kind == "DEVICE") {
        line += " -x -a " + in_quotes(fmt::format("({})", kDevices));
    } else if (!option.value().empty()) {
        line += option.takes_file() ? " -r -F" : " -x";
    }
    return line + " -d " + in_quotes(option.description) + "\n";
}

}  // namespace

std::string bash_completion(const CommandText& program) {
    std::string walk, words;
    for_each_command(program, [&](const CommandText& command) {
        for (const CommandText& inner : command.commands) {
            walk += fmt::format("      \"{} {}\") command=\"{}\" ;;\n", path_of(command),
                                inner.word(), path_of(inner));
        }
        words += fmt::format("    \"{}\") words='{}'; files={} ;;\n", path_of(command),
                             bash_words(command), takes_files(command) ? 1 : 0);
    });
    return fmt::format(R"(# Completion of {0} for bash.
{1}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command= words= files=0 word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
{2}    esac
  done
  case "$command $previous" in
{3}  esac
  case "$command" in
{4}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $files == 1 && $current != -* ]]; then
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F {1} {0}
)",
                       program.name, function_name(program), walk, bash_values(program), words);
}

std::string zsh_completion(const CommandText& program) {
    std::string text =
        fmt::format("#compdef {}\n\n_heddle_device_names() {{\n  compadd - $({})\n}}\n",
                    program.name, kDevices);
    for_each_command(program,
                     [&](const CommandText& command) { text += "\n" + zsh_function(command); });
    return text + fmt::format("\n{} \"$@\"\n", function_name(program));
}

std::string fish_completion(const CommandText& program) {
    std::string text =
        fmt::format("# Completion of {0} for fish.\ncomplete -c {0} -f\n", program.name);
    for_each_command(program, [&](const CommandText& command) {
        const std::string start =
            fmt::format("complete -c {} -n {}", program.name, in_quotes(fish_condition(command)));
        for (const CommandText& inner : command.commands) {
            text +=
                fmt::format("{} -a {} -d {}\n", start, inner.word(), in_quotes(inner.description));
        }
        for (const OptionText& option : command.options) text += fish_option(option, start);
    });
    return text;
}

void add_completion(CLI::App& app, int& status) {
    auto shell = std::make_shared<std::string>();
    CLI::App* command = app.add_subcommand("completion", "Print a completion script for a shell");
    command->add_option("shell", *shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    command->callback([shell, &app, &status] {
        CommandText program = describe_command(app, "heddle");
        name_values(program);
        print("{}", *shell == "bash"  ? bash_completion(program)
                    : *shell == "zsh" ? zsh_completion(program)
                                      : fish_completion(program));
        status = kSuccess;
    });
    // For those who install the program.
    CLI::App* manual = app.add_subcommand("manual", "Print the manual page")->group("");
    manual->callback([&app, &status] {
        print("{}", manual_page(describe_command(app, "heddle"), heddle_version()));
        status = kSuccess;
    });
}

}  // namespace heddle::tool
