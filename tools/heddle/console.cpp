#include "console.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/printable.hpp"

namespace heddle::tool {

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

void print_beside(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stderr) < text.size()) std::clearerr(stderr);
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
        fmt::print("{}\n", coloured(line, colours_[r]));
    }
}

Progress::Progress(std::string what, std::size_t total)
    : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO) != 0 && total > 0) {}

Progress::~Progress() {
    if (shown_) print_beside("\r\x1b[K");
}

void Progress::step(std::string_view item) {
    ++done_;
    if (!shown_) return;
    constexpr std::size_t kWidth = 30;
    const std::size_t full = std::min(kWidth, done_ * kWidth / total_);
    print_beside(fmt::format("\r\x1b[K{} [{}{}] {}/{} {}", what_, std::string(full, '#'),
                             std::string(kWidth - full, '.'), done_, total_, printable(item)));
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
