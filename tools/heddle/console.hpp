#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bytes_text.hpp"

/// Writing for people: tables, colours and progress, the latter two on terminals only.
namespace heddle::tool {

enum class Colour { plain, red, green, yellow, grey };

/// `text` without control characters, in a colour if standard output is a terminal and NO_COLOR is
/// not set.
std::string coloured(std::string_view text, Colour colour);

/// Results, on standard output. A progress bar makes way for them.
void print_result(std::string_view text);

/// Whether there was any.
bool has_printed_results();

template <class... Parts>
void print(fmt::format_string<Parts...> format, Parts&&... parts) {
    print_result(fmt::format(format, std::forward<Parts>(parts)...));
}

/// Text beside the results, on standard error. Where that cannot be written there is nobody to
/// tell.
void print_beside(std::string_view text);

/// A line beside the results: on standard error, grey where that is a terminal.
void print_note(std::string_view line);

/// Columns as wide as they need to be. The first column is left-aligned, the others right-aligned.
class Table {
public:
    explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

    void add(std::vector<std::string> row, Colour colour = Colour::plain);
    void align_left(std::size_t column) { left_.push_back(column); }
    void print() const;

private:
    std::vector<std::vector<std::string>> rows_;
    std::vector<Colour> colours_{Colour::grey};
    std::vector<std::size_t> left_{0};
};

/// A bar that fills up on standard error, with the time that is left; nothing at all where that is
/// no terminal. It is drawn a few times a second, however many steps there are.
class Progress {
public:
    Progress(std::string what, std::size_t total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void step(std::string_view item = {});

private:
    using Clock = std::chrono::steady_clock;

    void draw(std::string_view item, Clock::duration elapsed) const;

    std::string what_;
    std::size_t total_, done_ = 0;
    bool shown_;
    Clock::time_point begin_ = Clock::now(), drawn_{};
};

/// "40 s", "12 min", "3 h"
std::string duration_text(double seconds);

}  // namespace heddle::tool
