#include "bench/report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "bench/ceiling_kernels.hpp"
#include "bench/roofline.hpp"
#include "console.hpp"

namespace heddle::tool::bench {
namespace {

/// As CSV wants it: in quotes if there is something in it that means something there.
std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
}

std::string raw(const Report::Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
    if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
    if (const auto* figure = std::get_if<double>(&value)) return fmt::format("{:.6g}", *figure);
    return {};
}

}  // namespace

std::string Report::cell(const Column& column, const Value& value) const {
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* count = std::get_if<std::int64_t>(&value)) {
        return column.is_bytes ? bytes_text(static_cast<std::size_t>(*count))
                               : std::to_string(*count);
    }
    if (const auto* figure = std::get_if<double>(&value)) {
        return fmt::format("{:.{}f}", *figure * column.scale, column.digits);
    }
    return "-";
}

std::string instruction_set_text() {
    const std::string_view name = instruction_set();
    return name.starts_with("AVX3") ? fmt::format("AVX-512 ({})", name) : std::string(name);
}

std::size_t Report::place_of(const std::string& key) const {
    return static_cast<std::size_t>(std::ranges::find(columns_, key, &Column::key) -
                                    columns_.begin());
}

void Report::explain_above_one(const std::string& key, const std::string& note,
                               const std::function<bool(const std::vector<Value>&)>& holds) {
    constexpr double kRounded = 1.005;  // what is shown as more than 1.00
    const std::size_t at = place_of(key);
    const bool is_above = std::ranges::any_of(rows_, [&](const std::vector<Value>& row) {
        const auto* const share = std::get_if<double>(&row[at]);
        return share != nullptr && *share >= kRounded && (!holds || holds(row));
    });
    if (is_above) add_note(note);
}

void Report::print_as_they_come(std::vector<std::string> widest) {
    constexpr std::size_t kNumber = 8;
    is_live_ = true;
    widest.resize(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const std::size_t least = columns_[i].is_text ? widest[i].size() : kNumber;
        widths_.push_back(std::max(columns_[i].title.size(), least));
    }
}

void Report::print_titles() {
    if (std::exchange(has_titles_, true)) return;
    const unsigned cores = std::thread::hardware_concurrency();
    print("{}, {} {}\n\n", instruction_set_text(), cores, cores == 1 ? "core" : "cores");
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    print_row(titles, Colour::grey);
}

void Report::print_row(const std::vector<std::string>& cells, Colour colour) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i > 0) line += "  ";
        line += columns_[i].is_text ? fmt::format("{:<{}}", cells[i], widths_[i])
                                    : fmt::format("{:>{}}", cells[i], widths_[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    print_result(coloured(line, colour) + "\n");
    std::fflush(stdout);
}

void Report::preview(const std::vector<Value>& row) {
    if (!is_live_) return;
    has_preview_ = true;
    print_titles();
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(cell(columns_[i], row[i]));
    print_row(cells, Colour::plain);
}

void Report::add(std::vector<Value> row) {
    const bool had_preview = has_preview_;
    if (!had_preview) preview(row);
    has_preview_ = had_preview;
    rows_.push_back(std::move(row));
}

void Report::print_figures() const {
    std::string before;
    for (const Figure& figure : figures_) {
        if (figure.what != before) print("\n{}:", figure.what);
        print("{} {:.1f} {} ({} {})", figure.what == before ? "," : "", figure.value, figure.unit,
              figure.threads, figure.threads == 1 ? "thread" : "threads");
        before = figure.what;
    }
    if (!figures_.empty()) print("\n");
}

void Report::print_table() {
    if (is_live_) {
        print_titles();
        print_figures();
        for (const std::string& note : notes_) {
            print("{}{}\n", &note == &notes_.front() ? "\n" : "", note);
        }
        return;
    }
    const unsigned cores = std::thread::hardware_concurrency();
    print("{}, {} {}", instruction_set_text(), cores, cores == 1 ? "core" : "cores");
    if (figures_.empty()) print("\n");
    print_figures();
    print("\n");
    std::vector<std::string> titles;
    for (const Column& column : columns_) titles.push_back(column.title);
    Table table(std::move(titles));
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (columns_[i].is_text) table.align_left(i);
    }
    for (const auto& row : rows_) {
        std::vector<std::string> cells;
        for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(cell(columns_[i], row[i]));
        table.add(std::move(cells));
    }
    table.print();
    if (!notes_.empty()) print("\n");
    for (const std::string& note : notes_) print("{}\n", note);
}

std::string Report::csv() const {
    std::string text;
    for (const Column& column : columns_) {
        text += (text.empty() ? "" : ",") + quoted(column.key);
    }
    text += '\n';
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) text += (i > 0 ? "," : "") + raw(row[i]);
        text += '\n';
    }
    return text;
}

std::string Report::html() const {
    std::string text = "<table>\n<tr>";
    const auto add = [&](const char* kind, const Column& column, const std::string& content) {
        text += fmt::format("<{0}{1}>{2}</{0}>", kind, column.is_text ? " class=\"text\"" : "",
                            escaped(content));
    };
    for (const Column& column : columns_) add("th", column, column.title);
    text += "</tr>\n";
    for (const auto& row : rows_) {
        text += "<tr>";
        for (std::size_t i = 0; i < row.size(); ++i)
            add("td", columns_[i], cell(columns_[i], row[i]));
        text += "</tr>\n";
    }
    return text + "</table>";
}

nlohmann::json Report::json() const {
    using json = nlohmann::json;
    json all{
        {"benchmark", name_},
        {"machine",
         {{"instruction_set", instruction_set()}, {"cores", std::thread::hardware_concurrency()}}},
        {"ceilings", json::array()},
        {"rows", json::array()},
        {"notes", notes_}};
    for (const Figure& figure : figures_) {
        all["ceilings"].push_back({{"what", figure.what},
                                   {"threads", figure.threads},
                                   {"value", figure.value},
                                   {"unit", figure.unit}});
    }
    for (const auto& row : rows_) {
        json object;
        for (std::size_t i = 0; i < row.size(); ++i) {
            std::visit(
                [&](const auto& value) {
                    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
                        object[columns_[i].key] = nullptr;
                    } else {
                        object[columns_[i].key] = value;
                    }
                },
                row[i]);
        }
        all["rows"].push_back(std::move(object));
    }
    return all;
}

}  // namespace heddle::tool::bench
