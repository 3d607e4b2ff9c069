#include "console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "core/printable.hpp"
#include "screen.hpp"

namespace heddle::tool {
namespace {

/// Whether the cursor stands behind a progress bar.
std::atomic<bool> bar_is_shown = false;
std::atomic<bool> results_are_printed = false;

void write_beside(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stderr) < text.size()) std::clearerr(stderr);
}

void clear_bar() {
    if (bar_is_shown.exchange(false)) write_beside("\r\x1b[K");
}

/// As no-color.org has it: an empty NO_COLOR says nothing.
bool wants_colour(int stream) {
    const char* const refused = std::getenv("NO_COLOR");
    return has_screen(stream) && (refused == nullptr || *refused == '\0');
}

}  // namespace

bool has_screen(int stream) {
    const char* const terminal = std::getenv("TERM");
    return isatty(stream) != 0 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::size_t columns(int stream, std::size_t otherwise) {
    winsize size{};
    const bool known = isatty(stream) != 0 && ioctl(stream, TIOCGWINSZ, &size) == 0;
    return known && size.ws_col > 0 ? size.ws_col : otherwise;
}

std::string coloured(std::string_view text, Colour colour) {
    static const bool wanted = wants_colour(STDOUT_FILENO);
    const std::string shown = printable(text, "\n\t");
    if (!wanted || colour == Colour::plain) return shown;
    const int code = colour == Colour::red      ? 31
                     : colour == Colour::green  ? 32
                     : colour == Colour::yellow ? 33
                                                : 90;
    return fmt::format("\x1b[{}m{}\x1b[0m", code, shown);
}

bool has_printed_results() { return results_are_printed; }

void print_result(std::string_view text) {
    clear_bar();
    results_are_printed = true;
    fmt::print("{}", text);
}

void print_beside(std::string_view text) {
    clear_bar();
    write_beside(text);
}

void print_note(std::string_view line) {
    const bool grey = wants_colour(STDERR_FILENO);
    print_beside(
        fmt::format("{}{}{}\n", grey ? "\x1b[90m" : "", printable(line), grey ? "\x1b[0m" : ""));
}

void Table::add(std::vector<std::string> row, Colour colour) {
    for (std::string& cell : row) make_printable(cell);  // names from files and plug-ins
    rows_.push_back(std::move(row));
    colours_.push_back(colour);
}

void Table::print() const {
    std::vector<std::size_t> width;
    for (const auto& row : rows_) {
        width.resize(std::max(width.size(), row.size()));
        for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        std::string line;
        for (std::size_t c = 0; c < rows_[r].size(); ++c) {
            const bool left = std::find(left_.begin(), left_.end(), c) != left_.end();
            if (c > 0) line += "  ";
            line += left ? fmt::format("{:<{}}", rows_[r][c], width[c])
                         : fmt::format("{:>{}}", rows_[r][c], width[c]);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        print_result(coloured(line, colours_[r]) + "\n");
    }
}

std::string duration_text(double seconds) {
    constexpr double kMinute = 60, kHour = 3600;
    if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", seconds);
    if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
    return fmt::format("{:.0f} h", seconds / kHour);
}

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)), total_(total), shown_(has_screen(STDERR_FILENO) && total > 0) {}

Progress::~Progress() { clear_bar(); }

void Progress::step(std::string_view item) {
    using namespace std::chrono_literals;
    ++done_;
    const auto now = Clock::now();
    if (!shown_ || now - drawn_ < 50ms) return;
    drawn_ = now;
    draw(item, now - begin_);
}

void Progress::draw(std::string_view item, Clock::duration elapsed) const {
    constexpr std::size_t kUsual = 80, kNarrow = 70;
    constexpr double kSoon = 2;  // seconds after which it is worth telling how many are left
    const std::size_t room = columns(STDERR_FILENO, kUsual), width = room < kNarrow ? 10 : 30;
    const double seconds = std::chrono::duration<double>(elapsed).count();
    const std::size_t left = total_ - std::min(done_, total_);
    const std::size_t full = width - left * width / total_;
    const double rest = seconds / static_cast<double>(done_) * static_cast<double>(left);
    const std::string time = seconds < kSoon ? "" : " " + duration_text(rest) + " left";
    std::string line =
        fmt::format("{} [{}{}] {}/{}{} {}", what_, std::string(full, '#'),
                    std::string(width - full, '.'), done_, total_, time, printable(item));
    // A line that goes on below cannot be cleared. Bytes are at least as many as columns.
    line.resize(std::min(line.size(), room - 1));
    line.resize(whole_characters(line));
    bar_is_shown = true;
    write_beside("\r\x1b[K" + line);
    std::fflush(stderr);
}

}  // namespace heddle::tool
