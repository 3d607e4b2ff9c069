#include "sched/explain/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace heddle::sched::words {
namespace {

/// Three digits that matter: "1.25", "12.5", "125".
std::string three_digits(double value) {
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

/// Characters on a terminal, as far as counting code points goes.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string bytes(std::size_t count) {
    if (count < 1024) return std::to_string(count) + " B";
    static constexpr std::array kUnits{" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    double value = static_cast<double>(count) / 1024;
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
    return three_digits(value) + kUnits[unit];
}

std::string seconds(double count) {
    if (!std::isfinite(count)) return "-";
    if (count == 0) return "0";
    static constexpr std::array kUnits{" ns", " us", " ms", " s"};
    double value = count * 1e9;
    std::size_t unit = 0;
    while (value >= 999.5 && unit + 1 < kUnits.size()) value /= 1000, ++unit;
    return three_digits(value) + kUnits[unit];
}

std::string ratio(double value) {
    if (!std::isfinite(value)) return "-";
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*f", value < 9.995 ? 2 : 1, value);
    return text.data();
}

std::string shape(std::span<const std::int64_t> extents) {
    std::string text = "[";
    for (const std::int64_t extent : extents) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(extent);
    }
    return text + "]";
}

std::string_view color(int device) {
    static constexpr std::array<std::string_view, 10> kColors{
        "#2f7d6d", "#b8602b", "#3f6fb5", "#8a5aa8", "#a8823a",
        "#b0476b", "#4c7f3f", "#5b6b7c", "#7a5c48", "#3b8399"};
    if (device < 0) return "#80868b";
    return kColors[static_cast<std::size_t>(device) % kColors.size()];
}

std::string reason(Rule rule, std::string_view because) {
    std::string it = "it";
    if (!because.empty()) it.assign("'").append(because).append("'");
    switch (rule) {
        case Rule::none:
            return "nothing has decided yet";
        case Rule::pinned:
            return "the caller pinned it there";
        case Rule::own_memory:
            return "its memory is there";
        case Rule::viewed_memory:
            return "it lies in memory of " + it + ", which is there";
        case Rule::away:
            return "the op cannot run where its memory is: written back afterwards";
        case Rule::input:
            return "inputs are at home on the host";
        case Rule::weight:
            return "weight " + it + " is there";
        case Rule::offload:
            return "weight " + it + " is on the host, and the device asks for it";
        case Rule::spread_down:
            return "the node before it is there";
        case Rule::spread_up:
            return "the node after it is there";
        case Rule::best_sources:
            return "most of what it reads is there";
        case Rule::upgrade:
            return "a more preferred device works in the same memory";
        case Rule::view:
            return "what it looks at, " + it + ", is there";
        case Rule::reader:
            return "its reader " + it + " is there";
        case Rule::first_able:
            return "no device before it can run the op";
        case Rule::cost:
            return "predicted to be fastest";
    }
    return {};
}

std::string_view device(const Schedule& schedule, int number) {
    const auto i = static_cast<std::size_t>(number);
    if (number < 0 || i >= schedule.devices.size()) return "outside";
    return schedule.devices[i].name;
}

std::string_view tensor(const Schedule& schedule, int number) {
    auto i = static_cast<std::size_t>(number);
    if (number < 0) return {};
    if (i < schedule.nodes.size()) return schedule.nodes[i].name;
    i -= schedule.nodes.size();
    return i < schedule.leafs.size() ? std::string_view(schedule.leafs[i].name)
                                     : std::string_view();
}

std::string action(const Schedule& schedule, const Schedule::ActionInfo& action) {
    const auto i = static_cast<std::size_t>(action.index);
    if (action.kind == "copy" && i < schedule.copies.size()) {
        return "copy " + schedule.copies[i].tensor;
    }
    if (action.kind == "write_back" && i < schedule.detours.size()) {
        return "write back " + std::string(tensor(schedule, schedule.detours[i].node));
    }
    return "split " + std::to_string(action.index);
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        widths.push_back(width_of(columns_[i].title));
        for (const auto& row : rows_) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string out;
    const auto write_row = [&](auto&& cell_of) {
        std::string line;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const std::string& cell = cell_of(i);
            const std::string gap(widths[i] - width_of(cell), ' ');
            line += columns_[i].align == Align::right ? gap + cell : cell + gap;
            line += "  ";
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    };
    write_row([&](std::size_t i) -> const std::string& { return columns_[i].title; });
    for (const auto& row : rows_) {
        write_row([&](std::size_t i) -> const std::string& { return row[i]; });
    }
    return out;
}

}  // namespace heddle::sched::words
