#include "console.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "core/printable.hpp"

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

}  // namespace

std::string coloured(std::string_view text, Colour colour) {
    static const bool wanted = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
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
    const bool grey = isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
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

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO) != 0 && total > 0) {}

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
    constexpr std::size_t kWidth = 30;
    constexpr double kSoon = 2;  // seconds after which it is worth telling how many are left
    const double seconds = std::chrono::duration<double>(elapsed).count();
    const std::size_t left = total_ - std::min(done_, total_);
    const std::size_t full = kWidth - left * kWidth / total_;
    const double rest = seconds / static_cast<double>(done_) * static_cast<double>(left);
    const std::string time = seconds < kSoon ? "" : fmt::format(" {:.0f} s left", rest);
    bar_is_shown = true;
    write_beside(fmt::format("\r\x1b[K{} [{}{}] {}/{}{} {}", what_, std::string(full, '#'),
                             std::string(kWidth - full, '.'), done_, total_, time,
                             printable(item)));
    std::fflush(stderr);
}

std::string bytes_text(std::size_t bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace heddle::tool
