#include "command_line.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "nearest.hpp"

namespace heddle::tool {
namespace {

/// An option as llama.cpp calls it, and its name here.
struct Synonym {
    std::string_view theirs, ours;
};
constexpr Synonym kSynonyms[] = {
    {"--temp", "--temperature"},         {"--n-predict", "--tokens"}, {"--predict", "--tokens"},
    {"--ctx-size", "--context"},         {"--batch-size", "--batch"}, {"-b", "--batch"},
    {"--system-prompt", "--system"},     {"-sys", "--system"},        {"-s", "--seed"},
    {"--conversation", "--interactive"}, {"-cnv", "--interactive"},
};
/// What options were called before each name had one meaning in all commands.
constexpr Synonym kEarlierNames[] = {
    {"--tokens", "--read"}, {"-n", "--read"},    {"--prompt", "--prompt-tokens"},
    {"--all", "--verbose"}, {"-a", "--verbose"},
};
constexpr std::string_view kLayerOptions[] = {"-ngl", "--n-gpu-layers", "--gpu-layers"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

std::vector<std::string> command_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(command->get_name());
    }
    return names;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_name() == name) return command;
    }
    return nullptr;
}

/// Of the command or of all commands.
const CLI::Option* find_option(const CLI::App* app, const std::string& name) {
    for (; app != nullptr; app = app->get_parent()) {
        if (const CLI::Option* option = app->get_option_no_throw(name)) return option;
    }
    return nullptr;
}

std::vector<std::string> option_names(const CLI::App* app) {
    std::vector<std::string> names;
    for (; app != nullptr; app = app->get_parent()) {
        for (const CLI::Option* option : app->get_options({})) {
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
        }
    }
    return names;
}

/// What may have been meant where `app` was typed: of a group of commands also what those take.
std::vector<std::string> options_below(const CLI::App& app) {
    std::vector<std::string> names = option_names(&app);
    if (app.get_parent() == nullptr) return names;
    for (const CLI::App* command : app.get_subcommands({})) {
        const auto more = option_names(command);
        names.insert(names.end(), more.begin(), more.end());
    }
    return names;
}

/// Most words that are given by their place.
std::size_t most_places(const CLI::App& app) {
    std::size_t most = 0;
    for (const CLI::Option* option : app.get_options({})) {
        if (option->get_positional())
            most += static_cast<std::size_t>(option->get_items_expected_max());
    }
    return most;
}

class Reader {
public:
    Reader(const CLI::App& app, const std::vector<std::string>& typed)
        : app_(&app), typed_(typed) {}

    CommandLine read() {
        while (at_ < typed_.size() && line_.problem.empty()) {
            const std::string word = typed_[at_++];
            if (word == "--") {
                line_.words.insert(line_.words.end(), typed_.begin() + static_cast<long>(at_) - 1,
                                   typed_.end());
                break;
            }
            word.size() > 1 && word.front() == '-' ? read_option(word) : read_word(word);
        }
        if (wants_help_) line_.words.emplace_back("--help");
        if (line_.problem.empty()) check_for_command();
        return std::move(line_);
    }

private:
    /// A command that only has commands does nothing by itself.
    void check_for_command() {
        constexpr std::string_view kAnswered[] = {"-h", "--help", "--version"};
        const auto names = command_names(*app_);
        const auto is_answered = [&](const std::string& word) {
            return is_one_of(word, kAnswered);
        };
        if (names.empty() || std::ranges::any_of(line_.words, is_answered)) return;
        line_.problem = "a command is missing";
    }

    bool is_end() const { return at_ == typed_.size(); }

    void enter(const CLI::App& command) {
        app_ = &command;
        line_.command += (line_.command.empty() ? "" : " ") + command.get_name();
        line_.words.push_back(command.get_name());
    }

    void read_word(const std::string& word) {
        if (const CLI::App* command = find_command(*app_, word)) {
            enter(*command);
            return;
        }
        if (app_->get_parent() == nullptr && word == "help") {
            wants_help_ = true;
            return;
        }
        const auto names = command_names(*app_);
        if (names.empty()) {
            read_place(word);
            return;
        }
        // `bench FILE`
        const CLI::App* const model = find_command(*app_, "model");
        std::error_code ignored;
        if (model != nullptr &&
            (word.ends_with(".gguf") || std::filesystem::exists(word, ignored))) {
            enter(*model);
            read_place(word);
            return;
        }
        line_.problem = "there is no command '" + word + "'" + did_you_mean(word, names);
    }

    void read_place(const std::string& word) {
        line_.words.push_back(word);
        if (++places_ <= most_places(*app_)) return;
        line_.problem = "'" + word + "' is one word too many; quote what belongs together";
    }

    void read_option(const std::string& word) {
        const bool is_long = word.starts_with("--");
        const std::size_t equals = is_long ? word.find('=') : std::string::npos;
        const std::string name = word.substr(0, equals);
        if (read_synonym(word, name)) return;
        const std::string key = is_long ? name : name.substr(0, 2);
        const CLI::Option* const option = find_option(app_, key);
        if (option == nullptr) {
            line_.problem = "there is no option " + key + did_you_mean(key, options_below(*app_));
            return;
        }
        line_.words.push_back(word);
        const bool has_value = is_long ? equals != std::string::npos : word.size() > 2;
        // A value may begin with a dash. Where there is none, the parser says so.
        if (option->get_items_expected_max() > 0 && !has_value && !is_end()) {
            line_.words.push_back(typed_[at_++]);
        }
    }

    /// What follows an option: behind '=', or the next word.
    std::string value_of(const std::string& word, const std::string& name) {
        if (word.size() > name.size()) return word.substr(name.size() + 1);
        return is_end() ? "" : typed_[at_++];
    }

    /// Whether it was a name of llama.cpp's, or one of earlier times.
    bool read_synonym(const std::string& word, const std::string& name) {
        const bool has_model = app_->get_option_no_throw("model") != nullptr;
        if (!has_model || find_option(app_, name) != nullptr) return false;
        if (name == "-m" || name == "--model") {
            read_place(value_of(word, name));
            return true;
        }
        if (is_one_of(name, kLayerOptions)) {
            read_layers(name, value_of(word, name));
            return true;
        }
        if (const auto ours = own_name(kSynonyms, name)) {
            read_option(*ours + word.substr(name.size()));
            return true;
        }
        const auto later = own_name(kEarlierNames, name);
        if (!later) return false;
        line_.notes.push_back(name + " is called " + *later + " here");
        read_option(*later + word.substr(name.size()));
        return true;
    }

    /// What the command at hand calls the option; nothing if it has none.
    std::optional<std::string> own_name(std::span<const Synonym> synonyms,
                                        std::string_view name) const {
        for (const auto& [theirs, ours] : synonyms) {
            if (name == theirs && find_option(app_, std::string(ours)) != nullptr) {
                return std::string(ours);
            }
        }
        return std::nullopt;
    }

    /// All layers that fit are on devices anyway.
    void read_layers(const std::string& name, const std::string& count) {
        constexpr std::string_view kAll[] = {"99", "100", "999", "all", "-1"};
        if (is_one_of(count, kAll)) return;
        if (count == "0") {
            line_.words.insert(line_.words.end(), {"--device", "CPU"});
            return;
        }
        line_.problem = name + " " + count +
                        ": a device takes as many layers as fit into its memory; --budget "
                        "CUDA0=4G lets it take less, --device CPU none";
    }

    const CLI::App* app_;
    const std::vector<std::string>& typed_;
    std::size_t at_ = 0, places_ = 0;
    bool wants_help_ = false;
    CommandLine line_;
};

}  // namespace

CommandLine read_command_line(const CLI::App& app, const std::vector<std::string>& typed) {
    return Reader(app, typed).read();
}

}  // namespace heddle::tool
