#include "bench/report.hpp"

#include <fmt/core.h>

#include <thread>

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
    if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
    if (const auto* figure = std::get_if<double>(&value)) {
        return fmt::format("{:.{}f}", *figure * column.scale, column.digits);
    }
    return "-";
}

void Report::print_table() const {
    const unsigned cores = std::thread::hardware_concurrency();
    print("{}, {} {}", instruction_set(), cores, cores == 1 ? "core" : "cores");
    std::string before;
    for (const Figure& figure : figures_) {
        if (figure.what != before) print("\n{}:", figure.what);
        print("{} {:.1f} {} ({} {})", figure.what == before ? "," : "", figure.value, figure.unit,
              figure.threads, figure.threads == 1 ? "thread" : "threads");
        before = figure.what;
    }
    print("\n\n");
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
