#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "console.hpp"

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
        bool is_bytes = false;  ///< told as "32.0 KiB" in the table
    };

    Report(std::string name, std::vector<Column> columns)
        : name_(std::move(name)), columns_(std::move(columns)) {}

    /// From now on rows of the table are printed as they come. Columns of words are as wide as in
    /// `widest`, where it has something for them.
    void print_as_they_come(std::vector<std::string> widest = {});

    void add(std::vector<Value> row);

    /// A row whose figures may still change: printed now, where rows are printed as they come. Then
    /// rows that are added are not printed again.
    void preview(const std::vector<Value>& row);

    /// Adds the note if a figure in the column `key` is above 1, in rows that `holds` is for.
    void explain_above_one(const std::string& key, const std::string& note,
                           const std::function<bool(const std::vector<Value>&)>& holds = {});

    /// A figure that holds for all rows, such as a ceiling.
    /// Nothing where Ctrl-C came before it was measured.
    void add_figure(std::string what, int threads, double value, std::string unit) {
        if (value > 0) figures_.push_back({std::move(what), threads, value, std::move(unit)});
    }
    /// A sentence below the table.
    void add_note(std::string note) { notes_.push_back(std::move(note)); }

    void print_table();
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
    std::size_t place_of(const std::string& key) const;
    void print_titles();
    void print_row(const std::vector<std::string>& cells, Colour colour);
    void print_figures() const;

    std::string name_;
    std::vector<Column> columns_;
    std::vector<std::vector<Value>> rows_;
    std::vector<Figure> figures_;
    std::vector<std::string> notes_;
    bool is_live_ = false, has_titles_ = false, has_preview_ = false;
    std::vector<std::size_t> widths_;  ///< of columns, where rows are printed as they come
};

/// "AVX-512 (AVX3_DL)": as people call it, and as `--isa` does.
std::string instruction_set_text();

}  // namespace heddle::tool::bench
