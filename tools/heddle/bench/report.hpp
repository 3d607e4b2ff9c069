#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

namespace heddle::tool::bench {

/// What was measured: one table, to be shown to people or to programs.
class Report {
public:
    /// Nothing, words, a count, or a figure.
    using Value = std::variant<std::monostate, std::string, std::int64_t, double>;

    struct Column {
        std::string key;    ///< in JSON and CSV
        std::string title;  ///< in the table
        int digits = 1;     ///< behind the point, in the table
        double scale = 1;   ///< from the unit of the key to that of the title
        bool is_text = false;
    };

    Report(std::string name, std::vector<Column> columns)
        : name_(std::move(name)), columns_(std::move(columns)) {}

    void add(std::vector<Value> row) { rows_.push_back(std::move(row)); }

    /// A figure that holds for all rows, such as a ceiling.
    void add_figure(std::string what, int threads, double value, std::string unit) {
        figures_.push_back({std::move(what), threads, value, std::move(unit)});
    }
    /// A sentence below the table.
    void add_note(std::string note) { notes_.push_back(std::move(note)); }

    void print_table() const;
    std::string csv() const;
    std::string html() const;  ///< a table, without a page around it
    nlohmann::json json() const;

private:
    struct Figure {
        std::string what;
        int threads;
        double value;
        std::string unit;
    };
    std::string cell(const Column& column, const Value& value) const;

    std::string name_;
    std::vector<Column> columns_;
    std::vector<std::vector<Value>> rows_;
    std::vector<Figure> figures_;
    std::vector<std::string> notes_;
};

}  // namespace heddle::tool::bench
