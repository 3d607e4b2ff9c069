#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sched/explain/schedule.hpp"
#include "sched/place.hpp"

/// How schedules put things, in all formats alike.
namespace heddle::sched::words {

std::string bytes(std::size_t count);                      ///< "17 B", "1.5 MiB"
std::string seconds(double count);                         ///< "250 ns", "1.25 ms"
std::string ratio(double value);                           ///< "0.42", "12.3", "1730.5"
std::string shape(std::span<const std::int64_t> extents);  ///< "[64, 3]"

/// The colour of a device in pictures, "#rrggbb": dark enough for white letters on it.
std::string_view color(int device);

/// Why a tensor is where it is, as a sentence without its end: "weight 'wg' is there".
std::string reason(Rule rule, std::string_view because);

/// "SIM0", or "outside" for -1.
std::string_view device(const Schedule& schedule, int number);

/// The tensor's name, by its number.
std::string_view tensor(const Schedule& schedule, int number);

/// What an action does: "split 2", "copy x", "write back y".
std::string action(const Schedule& schedule, const Schedule::ActionInfo& action);

/// Columns of text, each as wide as it must be.
class Table {
public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::left;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// As many cells as there are columns.
    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

    bool empty() const { return rows_.empty(); }
    std::string text() const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace heddle::sched::words
