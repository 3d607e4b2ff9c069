#include "line_reader.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "console.hpp"
#include "interrupt.hpp"
#include "screen.hpp"
#ifdef HEDDLE_HAS_LIBEDIT
#include <histedit.h>

#include <cerrno>
#include <clocale>
#include <cwchar>
#include <filesystem>
#include <utility>
#endif

namespace heddle::tool {
namespace {

/// Where the user's files are; empty: nowhere.
std::string home() {
    const char* const named = std::getenv("HOME");
    return named == nullptr ? "" : named;
}

/// As lines come: from files, pipes, and terminals that can do nothing else.
class PlainLines final : public LineReader {
public:
    std::optional<std::string> read(const std::string& prompt) override {
        std::string line;
        if (isatty(STDIN_FILENO) == 0) {
            if (std::getline(std::cin, line)) return line;
            return std::nullopt;
        }
        print_result(prompt);
        std::fflush(stdout);
        // A terminal hands over one line at a time, so none waits in a buffer of ours. Ctrl-C may
        // come before the reading begins.
        if (wait_for_input() && std::getline(std::cin, line)) return line;
        if (is_interrupted()) {  // there may be more
            std::cin.clear();
            std::clearerr(stdin);
        }
        print_result("\n");
        return std::nullopt;
    }
};

#ifdef HEDDLE_HAS_LIBEDIT

/// Where lines of earlier times are kept; empty: nowhere.
std::string history_file() {
    if (const char* const named = std::getenv("HEDDLE_HISTORY")) return named;
    const char* const state = std::getenv("XDG_STATE_HOME");
    std::filesystem::path folder;
    if (state != nullptr && *state != '\0') {
        folder = state;
    } else if (!home().empty()) {
        folder = std::filesystem::path(home()) / ".local" / "state";
    } else {
        return {};
    }
    folder /= "heddle";
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    return folder / "history";
}

class EditedLines final : public LineReader {
public:
    EditedLines()
        : file_(history_file()),
          history_(history_init()),
          edit_(el_init("heddle", stdin, stdout, stderr)) {
        constexpr int kLines = 1000;
        std::setlocale(LC_CTYPE, "");
        HistEvent event;
        history(history_, &event, H_SETSIZE, kLines);
        history(history_, &event, H_SETUNIQUE, 1);
        if (!file_.empty()) history(history_, &event, H_LOAD, file_.c_str());
        el_set(edit_, EL_CLIENTDATA, this);
        el_set(edit_, EL_PROMPT, &EditedLines::prompt_of);
        el_set(edit_, EL_EDITOR, "emacs");
        el_set(edit_, EL_HIST, history, history_);
        el_set(edit_, EL_GETCFN, &EditedLines::next_character);
        el_source(edit_, nullptr);  // ~/.editrc
    }
    ~EditedLines() override {
        el_end(edit_);
        history_end(history_);
    }
    EditedLines(const EditedLines&) = delete;
    EditedLines& operator=(const EditedLines&) = delete;

    std::optional<std::string> read(const std::string& prompt) override {
        prompt_ = prompt;
        int count = 0;
        const char* const got = el_gets(edit_, &count);
        if (got == nullptr || count <= 0) {
            print_result("\n");
            return std::nullopt;
        }
        std::string line(got, static_cast<std::size_t>(count));
        HistEvent event;
        if (line.find_first_not_of(" \t\n") != std::string::npos) {
            history(history_, &event, H_ENTER, line.c_str());
            if (!file_.empty()) history(history_, &event, H_SAVE, file_.c_str());
        }
        if (line.ends_with('\n')) line.pop_back();
        return line;
    }

private:
    static EditedLines& of(EditLine* edit) {
        void* self = nullptr;
        el_get(edit, EL_CLIENTDATA, &self);
        return *static_cast<EditedLines*>(self);
    }
    static char* prompt_of(EditLine* edit) { return of(edit).prompt_.data(); }

    /// One that Ctrl-C wakes up: the library's own goes on waiting.
    static int next_character(EditLine*, wchar_t* to) {
        constexpr char kEndOfInput = 4;
        std::mbstate_t state{};
        while (true) {
            if (!wait_for_input()) return -1;
            char byte = 0;
            const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0) return static_cast<int>(count);
            // Ctrl-D that came before the terminal was in its mode for editing.
            if (byte == '\0') byte = kEndOfInput;
            const std::size_t used = std::mbrtowc(to, &byte, 1, &state);
            if (used <= 1) return 1;
            if (used == static_cast<std::size_t>(-1)) state = {};  // no character: left out
        }
    }

    std::string file_, prompt_;
    History* history_;
    EditLine* edit_;
};

#endif

}  // namespace

std::string with_home(const std::string& path) {
    return path.starts_with("~/") && !home().empty() ? home() + path.substr(1) : path;
}

std::unique_ptr<LineReader> LineReader::make() {
#ifdef HEDDLE_HAS_LIBEDIT
    if (isatty(STDIN_FILENO) != 0 && has_screen(STDOUT_FILENO)) {
        return std::make_unique<EditedLines>();
    }
#endif
    return std::make_unique<PlainLines>();
}

}  // namespace heddle::tool
