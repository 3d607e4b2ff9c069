#include <algorithm>
#include <string>
#include <vector>

#include "sched/explain/schedule.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

using words::Table;
constexpr auto kRight = Table::Align::right;

/// Names separated by commas; of many only the first few.
std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 4;
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
        if (i > 0) text += ", ";
        text += names[i];
    }
    if (names.size() > kShown) text += ", and " + std::to_string(names.size() - kShown) + " more";
    return text;
}

/// The table after an empty line; nothing if it has no rows.
std::string below(const Table& table) {
    std::string text;
    if (!table.empty()) text.append("\n").append(table.text());
    return text;
}

std::string measured(const Schedule::ActionInfo& action) {
    if (action.skipped) return "up to date";
    if (!action.measured) return "-";
    return words::seconds(action.measured_end - action.measured_start);
}

/// How many times as long as predicted.
std::string ratio(const Schedule::ActionInfo& action) {
    const double predicted = action.predicted_end - action.predicted_start;
    if (!action.measured || action.skipped || predicted <= 0) return "-";
    return words::ratio((action.measured_end - action.measured_start) / predicted);
}

std::string summary(const Schedule& schedule) {
    std::size_t copied = 0;
    for (const auto& copy : schedule.copies) copied += copy.kept ? 0 : copy.bytes;
    std::string text = std::to_string(schedule.nodes.size()) + " nodes in " +
                       std::to_string(schedule.splits.size()) + " splits on " +
                       std::to_string(schedule.devices.size()) + " devices, " +
                       std::to_string(schedule.copies.size()) + " copies (" + words::bytes(copied) +
                       " each run)\n";
    text += "placed by " + schedule.policy + "; predicted " +
            words::seconds(schedule.predicted_seconds) + " (speeds " + schedule.cost_origin + ")";
    if (schedule.measured_seconds > 0) {
        text += ", measured " + words::seconds(schedule.measured_seconds);
        if (schedule.predicted_seconds > 0) {
            const double times = schedule.measured_seconds / schedule.predicted_seconds;
            text += ": " + words::ratio(times) + " times as long";
        }
    }
    const auto fused =
        std::ranges::count_if(schedule.nodes, [](const auto& node) { return node.with >= 0; });
    if (fused > 0) text += "; " + std::to_string(fused) + " nodes computed with others";
    return text + "\n";
}

std::string devices(const Schedule& schedule) {
    Table table({{"device"},
                 {"memory", kRight},
                 {"free", kRight},
                 {"planned", kRight},
                 {"nodes", kRight},
                 {"description"}});
    std::vector<std::size_t> nodes(schedule.devices.size());
    for (const auto& node : schedule.nodes) {
        if (node.device >= 0) ++nodes.at(static_cast<std::size_t>(node.device));
    }
    for (std::size_t i = 0; i < schedule.devices.size(); ++i) {
        const auto& device = schedule.devices[i];
        table.add({device.name, device.total > 0 ? words::bytes(device.total) : "-",
                   device.total > 0 ? words::bytes(device.free) : "-", words::bytes(device.planned),
                   std::to_string(nodes[i]),
                   device.available ? device.description : device.description + " (failed)"});
    }
    return table.text();
}

std::string splits(const Schedule& schedule) {
    Table table({{"split", kRight}, {"device"}, {"nodes", kRight}, {"from"}, {"to"}, {"inputs"}});
    for (std::size_t i = 0; i < schedule.splits.size(); ++i) {
        const auto& split = schedule.splits[i];
        std::vector<std::string> inputs;
        for (const int number : split.copies) {
            const auto& copy = schedule.copies.at(static_cast<std::size_t>(number));
            inputs.push_back(copy.tensor + " (" + words::bytes(copy.bytes) + ")");
        }
        const auto name = [&](int node) { return std::string(words::tensor(schedule, node)); };
        table.add({std::to_string(i), std::string(words::device(schedule, split.device)),
                   std::to_string(split.nodes.size()),
                   split.nodes.empty() ? "" : name(split.nodes.front()),
                   split.nodes.empty() ? "" : name(split.nodes.back()), some_of(inputs)});
    }
    return table.text();
}

std::string copies(const Schedule& schedule) {
    Table table({{"copy", kRight},
                 {"tensor"},
                 {"kind"},
                 {"from"},
                 {"to"},
                 {"bytes", kRight},
                 {"for split", kRight},
                 {"each run"}});
    for (std::size_t i = 0; i < schedule.copies.size(); ++i) {
        const auto& copy = schedule.copies[i];
        table.add({std::to_string(i), copy.tensor, copy.kind,
                   std::string(words::device(schedule, copy.from)),
                   std::string(words::device(schedule, copy.to)), words::bytes(copy.bytes),
                   std::to_string(copy.split), copy.kept ? "kept" : "yes"});
    }
    return below(table);
}

std::string actions(const Schedule& schedule) {
    Table table({{"action", kRight},
                 {"what"},
                 {"queue"},
                 {"waits for"},
                 {"begins", kRight},
                 {"predicted", kRight},
                 {"measured", kRight},
                 {"ratio", kRight}});
    for (std::size_t i = 0; i < schedule.actions.size(); ++i) {
        const auto& action = schedule.actions[i];
        std::string waits;
        for (const int wait : action.waits) {
            waits += (waits.empty() ? "" : ", ") + std::to_string(wait);
        }
        table.add({std::to_string(i), words::action(schedule, action),
                   std::string(words::device(schedule, action.device)) + " " + action.queue, waits,
                   words::seconds(action.predicted_start),
                   words::seconds(action.predicted_end - action.predicted_start), measured(action),
                   ratio(action)});
    }
    return below(table);
}

std::string memory(const Schedule& schedule) {
    Table table({{"memory of"},
                 {"chunk", kRight},
                 {"offset", kRight},
                 {"bytes", kRight},
                 {"steps"},
                 {"tensors"}});
    for (const auto& block : schedule.memory) {
        table.add({std::string(words::device(schedule, block.device)), std::to_string(block.chunk),
                   std::to_string(block.offset), words::bytes(block.size),
                   std::to_string(block.first) + " to " + std::to_string(block.last),
                   block.tensors});
    }
    return below(table);
}

}  // namespace

std::string to_text(const Schedule& schedule) {
    std::string text = summary(schedule) + "\n" + devices(schedule) + "\n" + splits(schedule) +
                       copies(schedule) + actions(schedule) + memory(schedule);
    for (const std::string& hazard : schedule.hazards) text += "\nhazard: " + hazard + "\n";
    return text;
}

std::string nodes_to_text(const Schedule& schedule) {
    Table table({{"node", kRight},
                 {"name"},
                 {"op"},
                 {"type"},
                 {"shape"},
                 {"device"},
                 {"split", kRight},
                 {"with"},
                 {"because"},
                 {"declined by"}});
    for (std::size_t i = 0; i < schedule.nodes.size(); ++i) {
        const auto& node = schedule.nodes[i];
        std::string declined;
        for (const auto& refusal : node.declined) {
            declined += (declined.empty() ? "" : "; ") +
                        std::string(words::device(schedule, refusal.device)) + ": " +
                        refusal.reason;
        }
        table.add({std::to_string(i), node.name, node.op, node.type, words::shape(node.shape),
                   std::string(words::device(schedule, node.device)), std::to_string(node.split),
                   node.with >= 0 ? std::string(words::tensor(schedule, node.with)) : "", node.why,
                   declined});
    }
    return table.text();
}

}  // namespace heddle::sched
