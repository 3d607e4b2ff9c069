#include "talk.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "console.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "nearest.hpp"
#include "outcome.hpp"
#include "text_input.hpp"

namespace heddle::tool {
namespace {

constexpr std::string_view kHelp =
    "/clear         start again; the system message stays\n"
    "/system TEXT   what the model is told first; without TEXT: show it\n"
    "/save FILE     write the conversation to a file\n"
    "/load FILE     continue one that was saved\n"
    "/quit          leave, as Ctrl-D does\n"
    "\"\"\"            begins a message of several lines, and ends it\n"
    "Ctrl-C         stops an answer; once more, leaves\n";

const std::vector<std::string> kCommands{"/help", "/clear", "/system", "/save", "/load", "/quit"};

bool at_terminal() { return isatty(STDIN_FILENO) != 0; }

/// "/word" alone or with something behind it; a path is none.
bool is_command(const std::string& line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    return end > 1 && line.front() == '/' &&
           std::all_of(line.begin() + 1, line.begin() + static_cast<std::ptrdiff_t>(end),
                       [](char c) { return c >= 'a' && c <= 'z'; });
}

std::string trimmed(std::string_view text) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    const std::size_t end = text.find_last_not_of(" \t") + 1;
    return std::string(text.substr(begin, end > begin ? end - begin : 0));
}

Result<std::vector<ChatMessage>> messages_of(const std::string& path) {
    using Role = ChatMessage::Role;
    HEDDLE_TRY_ASSIGN(const std::string content, content_of(path));
    const auto json = nlohmann::json::parse(content, nullptr, false);
    const auto list = json.is_object() ? json.find("messages") : json.end();
    if (list == json.end() || !list->is_array()) {
        return failure(Errc::corrupt, path, ": is not a conversation that /save wrote");
    }
    std::vector<ChatMessage> messages;
    for (const auto& entry : *list) {
        const bool is_fine = entry.is_object() && entry.contains("role") &&
                             entry["role"].is_string() && entry.contains("content") &&
                             entry["content"].is_string();
        const std::string role = is_fine ? entry["role"].get<std::string>() : "";
        if (role != "system" && role != "user" && role != "assistant") {
            return failure(Errc::corrupt, path, ": message ", messages.size() + 1,
                           " has no role that is known, or no text");
        }
        messages.push_back({role == "system" ? Role::system
                            : role == "user" ? Role::user
                                             : Role::assistant,
                            entry["content"].get<std::string>()});
    }
    return messages;
}

}  // namespace

std::string full_note(std::int64_t context) {
    return fmt::format(
        "[the text ends here: the context of {} tokens is full; --context makes more room]",
        context);
}

Result<> Talk::hear(const std::string& message) {
    HEDDLE_TRY_ASSIGN(const Conversation::Asked asked, conversation_.ask(message));
    if (asked.tokens.empty()) return invalid("the prompt is empty; give one with --prompt");
    if (asked.left_out > 0) {
        print_note(fmt::format(
            "[the oldest messages no longer fit into the context of {} tokens; left out: {}]",
            generator_.model().context(), asked.left_out));
    }
    generator_.forget(static_cast<std::int64_t>(asked.kept));
    read_.insert(read_.end(), asked.tokens.begin(), asked.tokens.end());
    return ok();
}

Result<> Talk::say(const std::string& message, bool shown) {
    HEDDLE_TRY(hear(message));
    if (shown) print_result(message);
    return writer_.answer(conversation_);
}

void Talk::end_answer() {
    if (notes_ != Notes::none) print("\n");
    std::fflush(stdout);
    take_interrupt();
    const Finish finish = writer_.finish();
    was_interrupted_ = finish == Finish::interrupted;
    if (finish == Finish::context) print_note(full_note(generator_.model().context()));
    if (notes_ != Notes::all) return;
    if (finish == Finish::interrupted) print_note("[stopped]");
    if (finish == Finish::length) {
        print_note(fmt::format("[stopped after {} tokens; -n for more]", writer_.last_tokens()));
    }
}

std::optional<std::string> Talk::read_message(LineReader& reader) {
    constexpr std::string_view kQuotes = "\"\"\"";
    std::optional<std::string> line;
    do {
        line = reader.read("> ");
        if (!line) return std::nullopt;
    } while (line->find_first_not_of(" \t") == std::string::npos);
    if (!line->starts_with(kQuotes)) return line;
    std::string text = line->substr(kQuotes.size());
    while (!text.ends_with(kQuotes)) {
        const auto more = reader.read(". ");
        if (!more) return std::nullopt;
        text += "\n" + *more;
    }
    text.resize(text.size() - kQuotes.size());
    if (text.starts_with('\n')) text.erase(0, 1);
    return text;
}

bool Talk::stays() {
    if (!take_interrupt() || !at_terminal() || was_interrupted_) return false;
    was_interrupted_ = true;
    print_note("[press Ctrl-C again to leave]");
    return true;
}

std::optional<std::string> Talk::next_message(LineReader& reader) {
    std::optional<std::string> message;
    do {
        message = read_message(reader);
    } while (!message && stays());
    was_interrupted_ = false;
    return message;
}

Result<> Talk::converse(const std::string& first) {
    const auto reader = LineReader::make();
    if (at_terminal() && notes_ == Notes::all) print_note("[/help lists the commands]");
    std::optional<std::string> message = first;
    bool is_listening = false;
    if (first.empty()) is_listening = true, message = next_message(*reader);
    for (; message; is_listening = true, message = next_message(*reader)) {
        if (is_listening && is_command(*message)) {
            if (!run_command(*message)) break;
            continue;
        }
        if (auto heard = hear(*message); !heard) {
            if (!is_listening) return heard;
            print_note(heard.error().message);  // the conversation goes on with the next line
            ++refused_;
            continue;
        }
        HEDDLE_TRY(writer_.answer(conversation_));
        end_answer();
    }
    take_interrupt();
    // At a terminal somebody saw it and could say it in fewer words.
    if (refused_ > 0 && !at_terminal()) return invalid("lines without an answer: ", refused_);
    return ok();
}

bool Talk::run_command(const std::string& line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string name = line.substr(1, end - 1), rest = trimmed(line.substr(end));
    const auto tell = [](const Result<>& done, const std::string& note) {
        print_note(done ? note : done.error().message);
    };
    if (name == "quit" || name == "bye" || name == "exit") return false;
    if (name == "help") {
        print_beside(kHelp);
    } else if (name == "clear") {
        conversation_.clear();
        generator_.forget();
        print_note("[the conversation is empty]");
    } else if (name == "system" && !conversation_.has_template()) {
        print_note("[without a chat template there is no system message]");
    } else if (name == "system") {
        if (!rest.empty()) conversation_.set_system(rest);
        print_note(fmt::format("[system message: {}]",
                               conversation_.system().empty() ? "none" : conversation_.system()));
    } else if ((name == "save" || name == "load") && rest.empty()) {
        print_note(fmt::format("/{} needs the name of a file", name));
    } else if (name == "save") {
        tell(save(with_home(rest)), fmt::format("[saved: {}]", rest));
    } else if (name == "load") {
        const auto loaded = load(with_home(rest));
        tell(loaded, fmt::format("[loaded: {} messages]", conversation_.messages().size()));
    } else {
        const std::string meant = did_you_mean("/" + name, kCommands);
        print_note(fmt::format("there is no command /{}{}", name,
                               meant.empty() ? "; /help lists them" : meant));
    }
    return true;
}

Result<> Talk::save(const std::string& path) const {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [role, text] : conversation_.messages()) {
        list.push_back({{"role", name_of(role)}, {"content", text}});
    }
    return write_file(path, json_text({{"messages", list}}) + "\n");
}

Result<> Talk::load(const std::string& path) {
    HEDDLE_TRY_ASSIGN(const auto messages, messages_of(path));
    auto restored = conversation_.restore(messages);
    if (!restored) return std::move(restored).error().within(path);
    return ok();
}

}  // namespace heddle::tool
