#include "schedule_tables.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "console.hpp"

namespace heddle::tool {
namespace {

using nlohmann::json;

std::string device_name(const json& schedule, const json& number) {
    const int i = number.get<int>();
    return i < 0 ? "" : schedule["devices"][static_cast<std::size_t>(i)]["name"].get<std::string>();
}

/// Predicted and measured seconds of actions of one kind.
struct Times {
    double predicted = 0, measured = 0;

    static Times of(const json& action) {
        const auto length = [&](const std::string& clock) {
            return action.value(clock + "_end", 0.0) - action.value(clock + "_start", 0.0);
        };
        return {length("predicted"), length("measured")};
    }
    /// Both, and how many times as long as predicted it took.
    std::vector<std::string> cells() const {
        const std::string times = predicted > 0 ? fmt::format("{:.2f}", measured / predicted) : "-";
        return {fmt::format("{:.3f} ms", predicted * 1e3), fmt::format("{:.3f} ms", measured * 1e3),
                times};
    }
};

/// Of each split, if there are any that were measured.
std::map<std::size_t, Times> split_times(const json& schedule) {
    std::map<std::size_t, Times> times;
    for (const json& action : schedule["actions"]) {
        if (action["kind"] != "compute" || !action.contains("measured_end")) continue;
        times[action["index"].get<std::size_t>()] = Times::of(action);
    }
    return times;
}

}  // namespace

void print_sums(const json& schedule) {
    Times computing, copying;
    for (const json& action : schedule["actions"]) {
        if (!action.contains("measured_end") || action["skipped"] == true) continue;
        Times& sum = action["kind"] == "compute" ? computing : copying;
        sum.predicted += Times::of(action).predicted, sum.measured += Times::of(action).measured;
    }
    print("computing {:.3f} ms (predicted {:.3f} ms), copying {:.3f} ms (predicted {:.3f} ms)\n",
          computing.measured * 1e3, computing.predicted * 1e3, copying.measured * 1e3,
          copying.predicted * 1e3);
}

void print_splits(const json& schedule) {
    const auto times = split_times(schedule);
    std::vector<std::string> titles{"split", "device", "nodes", "from", "to", "copied in"};
    if (!times.empty()) titles.insert(titles.end(), {"predicted", "measured", "ratio"});
    titles.emplace_back("inputs");
    Table table(titles);
    for (const std::size_t column :
         {std::size_t{1}, std::size_t{3}, std::size_t{4}, titles.size() - 1}) {
        table.align_left(column);
    }
    for (std::size_t i = 0; i < schedule["splits"].size(); ++i) {
        const json& split = schedule["splits"][i];
        const auto name_of = [&](const json& node) {
            return schedule["nodes"][node.get<std::size_t>()]["name"].get<std::string>();
        };
        std::size_t bytes = 0;
        std::string inputs;
        for (const json& number : split["copies"]) {
            const json& copy = schedule["copies"][number.get<std::size_t>()];
            bytes += copy["bytes"].get<std::size_t>();
            inputs += (inputs.empty() ? "" : ", ") + copy["tensor"].get<std::string>();
        }
        const json& nodes = split["nodes"];
        std::vector<std::string> row{std::to_string(i),
                                     device_name(schedule, split["device"]),
                                     std::to_string(nodes.size()),
                                     nodes.empty() ? "" : name_of(nodes.front()),
                                     nodes.empty() ? "" : name_of(nodes.back()),
                                     bytes_text(bytes)};
        if (!times.empty()) {
            const auto found = times.find(i);
            const auto cells = found != times.end() ? found->second.cells()
                                                    : std::vector<std::string>{"-", "-", "-"};
            row.insert(row.end(), cells.begin(), cells.end());
        }
        row.push_back(inputs);
        table.add(row);
    }
    table.print();
}

void print_nodes(const json& schedule) {
    const bool timed = std::ranges::any_of(
        schedule["nodes"], [](const json& node) { return node["device_seconds"] > 0; });
    std::vector<std::string> titles{"node", "op", "shape", "device", "split", "with", "why"};
    if (timed) titles.insert(titles.end() - 1, "us");
    Table table(titles);
    for (const std::size_t column : {1, 2, 3, 5}) table.align_left(column);
    table.align_left(titles.size() - 1);
    for (const json& node : schedule["nodes"]) {
        std::string shape;
        for (const json& extent : node["shape"])
            shape += (shape.empty() ? "" : " x ") + extent.dump();
        const int first = node["with"].get<int>();
        const std::string with =
            first < 0
                ? ""
                : schedule["nodes"][static_cast<std::size_t>(first)]["name"].get<std::string>();
        std::vector<std::string> row{
            node["name"],         node["op"], shape,      device_name(schedule, node["device"]),
            node["split"].dump(), with,       node["why"]};
        if (timed) {
            const double seconds = node["device_seconds"];
            row.insert(row.end() - 1, seconds > 0 ? fmt::format("{:.1f}", 1e6 * seconds) : "");
        }
        table.add(row);
    }
    print("\n");
    table.print();
}

}  // namespace heddle::tool
