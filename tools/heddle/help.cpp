#include "help.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "screen.hpp"

namespace heddle::tool {
namespace {

constexpr std::size_t kColumn = 26;  // where descriptions begin

constexpr Example kExamples[] = {
    {"heddle", "heddle run model.gguf \"Once upon a time\"",
     "Talk with a model, or continue a text"},
    {"heddle", "heddle explain model.gguf --device CUDA0", "See where a model would run"},
    {"heddle run", "heddle run model.gguf -p \"Once upon a time\" -n 64", "Continue a text"},
    {"heddle run", "heddle run model.gguf", "Hold a conversation"},
    {"heddle run", "heddle --hosts n1,n2 run model.gguf --join -p \"Once\"",
     "Two machines compute every layer together"},
    {"heddle explain", "heddle explain model.gguf --device CUDA0 --context 4096",
     "What memory a longer context would need"},
    {"heddle explain", "heddle explain --shape 70B --type Q4_K_M --device CUDA0",
     "Whether a model would fit that you do not have yet"},
    {"heddle explain", "heddle explain model.gguf --run --html schedule.html",
     "Measure, and look at the schedule in a browser"},
    {"heddle devices", "heddle devices -v", "What each device can do"},
    {"heddle devices", "heddle devices --json", "The same for a script"},
    {"heddle inspect", "heddle inspect model.gguf", "Parameters and tensors of a model"},
    {"heddle inspect", "heddle inspect model.gguf --json | jq .metadata", "For a script"},
    {"heddle quantize", "heddle quantize model-f16.gguf model-q8_0.gguf Q8_0",
     "Write a model of half the size"},
    {"heddle quantize",
     "heddle quantize model-f16.gguf model-q4_k.gguf Q4_K --imatrix weights.gguf",
     "With the importance of weights"},
    {"heddle imatrix", "heddle imatrix model-f16.gguf book.txt weights.gguf",
     "From a text like those that the model will read"},
    {"heddle imatrix", "heddle imatrix model-f16.gguf - weights.gguf < book.txt",
     "The same from standard input"},
    {"heddle perplexity", "heddle perplexity model.gguf book.txt", "In windows of 512 tokens"},
    {"heddle perplexity", "heddle perplexity model.gguf book.txt --context 2048 --json",
     "In longer ones, for a script"},
    {"heddle verify", "heddle verify --device CUDA0 --op MUL_MAT",
     "Check what a device makes of one op"},
    {"heddle verify", "heddle verify model.gguf --on CUDA0 --against CPU",
     "Find the first node of a model that a device computes wrongly"},
    {"heddle conform", "heddle conform ./libggml-mine.so", "Check all devices of a plug-in"},
    {"heddle conform", "heddle conform CUDA0 --rule Event -v", "See some rules one by one"},
    {"heddle bench", "heddle bench ceilings --quick", "What this machine can do at most"},
    {"heddle bench", "heddle bench model.gguf", "Speed of a model"},
    {"heddle bench ceilings", "heddle bench ceilings --quick", "In seconds"},
    {"heddle bench ceilings", "heddle bench ceilings --svg roofline.svg", "As a picture"},
    {"heddle bench ops", "heddle bench ops MUL_MAT --type Q4_0 --quick", "One op"},
    {"heddle bench ops", "heddle bench ops --all --html ops.html", "All of them, as a page"},
    {"heddle bench model", "heddle bench model model.gguf", "A model from a file"},
    {"heddle bench model", "heddle bench model --shape 1.1B --type Q4_0",
     "A model of random weights"},
    {"heddle bench sched", "heddle bench sched --quick", "In seconds"},
    {"heddle bench sched", "heddle bench sched --json", "For a script"},
    {"heddle bench compare", "heddle bench compare --quick", "In seconds"},
    {"heddle bench compare", "heddle bench compare --csv", "For a spreadsheet"},
    {"heddle bench cluster", "heddle --hosts n1,n2 bench cluster --quick",
     "What two other machines add"},
    {"heddle bench cluster", "heddle --hosts n1 bench cluster --model model.gguf --json",
     "A model's tokens, for a script"},
    {"heddle launch", "heddle launch --hosts n1,n2:2 --check",
     "Ask whether the machines are ready"},
    {"heddle launch", "heddle launch --hosts n1,n2 -- heddle run model.gguf",
     "Run a program with their devices"},
    {"heddle worker", "heddle worker --describe", "What this machine would serve"},
    {"heddle worker", "mpirun -n 1 heddle devices : -n 1 heddle worker",
     "Without heddle launch, by MPI itself"},
    {"heddle completion", "heddle completion bash > ~/.bash_completion.d/heddle", "For bash"},
    {"heddle completion", "heddle completion fish | source", "For fish, until it ends"},
};

/// Its choices, where there are some to show.
std::string value_name(const OptionText& option) {
    if (!option.choices.empty() && !option.is_positional()) {
        std::string all;
        for (const std::string& choice : option.choices) all += (all.empty() ? "" : "|") + choice;
        return all;
    }
    return option.value();
}

std::string head_of(const OptionText& option) {
    if (option.is_positional()) return option.place;
    // Long names stand under each other whether there is a short one or not.
    std::string head = option.short_name.empty() ? "    " : option.short_name;
    if (!option.short_name.empty() && !option.long_name.empty()) head += ", ";
    head += option.long_name;
    if (!option.value().empty()) head += " " + value_name(option);
    return head;
}

/// Adds `text` from column `indent` on, where the line `out` ends with has `used` characters.
void wrap(std::string& out, std::size_t used, std::string_view text, std::size_t indent,
          std::size_t width) {
    if (used + 2 > indent) out += '\n', used = 0;
    out.append(indent - used, ' ');
    std::size_t at = indent;
    bool first = true;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (!first && at + 1 + word.size() > width) {
            out += '\n';
            out.append(indent, ' ');
            at = indent;
        } else if (!first) {
            out += ' ';
            ++at;
        }
        out += word;
        at += word.size();
        first = false;
    }
    out += '\n';
}

void add_entry(std::string& out, const std::string& head, std::string_view about,
               std::size_t width) {
    out += "  " + head;
    wrap(out, head.size() + 2, about, kColumn, width);
}

std::string about(const OptionText& option) {
    if (option.preset.empty()) return option.description;
    const bool is_phrase = option.preset.find(' ') != std::string::npos &&
                           std::isdigit(static_cast<unsigned char>(option.preset.front())) == 0;
    return fmt::format("{} (default{} {})", option.description, is_phrase ? ":" : "",
                       option.preset);
}

std::string usage_line(const CommandText& command) {
    std::string line = "Usage: " + command.name;
    if (!command.commands.empty()) line += " COMMAND";
    for (const OptionText& option : command.options) {
        if (option.place.empty()) continue;
        const std::string value = option.place + (option.repeated ? "..." : "");
        line += option.required ? " " + value : " [" + value + "]";
    }
    return line + " [options]\n";
}

void add_options(std::string& out, const CommandText& command, std::size_t width) {
    std::vector<std::string> groups;
    for (const OptionText& option : command.options) {
        if (option.is_positional()) continue;
        if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
    }
    // What every command has comes last.
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& g) { return g != "Options"; });
    for (const std::string& group : groups) {
        out += fmt::format("\n{}:\n", group);
        for (const OptionText& option : command.options) {
            if (option.is_positional() || option.group != group) continue;
            add_entry(out, head_of(option), about(option), width);
        }
    }
}

void add_examples(std::string& out, const CommandText& command) {
    bool first = true;
    for (const Example& example : kExamples) {
        if (example.command != command.name) continue;
        if (first) out += "\nExamples:\n";
        first = false;
        out += fmt::format("  {}\n      {}\n", example.words, example.does);
    }
}

std::size_t terminal_width() {
    constexpr std::size_t kUsual = 80, kLeast = 60, kMost = 100;
    return std::clamp(columns(STDOUT_FILENO, kUsual), kLeast, kMost);
}

std::string full_name(const CLI::App& app) {
    const CLI::App* const parent = app.get_parent();
    return parent == nullptr ? "heddle" : full_name(*parent) + " " + app.get_name();
}

}  // namespace

std::span<const Example> examples() { return kExamples; }

std::string help_text(const CommandText& command, std::size_t width) {
    std::string out = command.description + "\n\n" + usage_line(command);
    bool first = true;
    for (const OptionText& option : command.options) {
        if (!option.is_positional()) continue;
        if (first) out += "\n";
        first = false;
        add_entry(out, option.place, about(option), width);
    }
    if (!command.commands.empty()) out += "\nCommands:\n";
    for (const CommandText& inner : command.commands) {
        add_entry(out, inner.word(), inner.description, width);
    }
    add_options(out, command, width);
    add_examples(out, command);
    if (!command.footer.empty()) out += "\n" + command.footer + "\n";
    return out;
}

void use_help_text(CLI::App& app) {
    app.formatter_fn([](const CLI::App* of, const std::string&, CLI::AppFormatMode) {
        return help_text(describe_command(*of, full_name(*of)), terminal_width());
    });
}

}  // namespace heddle::tool
