#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sched/explain/json_writer.hpp"
#include "sched/explain/schedule.hpp"
#include "sched/explain/words.hpp"

namespace heddle::sched {
namespace {

/// A quoted string of the DOT language. Line breaks within it are meant.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const char c = text.front();
        if (length == 0) {
            out += "\xEF\xBF\xBD";  // U+FFFD
        } else if (c == '\n') {
            out += "\\n";
        } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
            out += ' ';
        } else {
            if (c == '"' || c == '\\') out += '\\';
            out += text.substr(0, length);
        }
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out + "\"";
}

std::string node_id(const Schedule& schedule, int tensor) {
    const auto nodes = static_cast<int>(schedule.nodes.size());
    std::string id(1, tensor < nodes ? 'n' : 'l');
    return id += std::to_string(tensor < nodes ? tensor : tensor - nodes);
}

/// Finds the copy of a tensor that a split reads.
class CopyFinder {
public:
    explicit CopyFinder(const Schedule& schedule) : schedule_(schedule) {
        for (const auto& copy : schedule.copies) by_source_[copy.source].push_back(&copy);
    }

    /// Made for split `number`, or for one before it on the same device; null if there is none.
    const Schedule::CopyInfo* find(int source, int number) const {
        const auto found = by_source_.find(source);
        if (found == by_source_.end() || number < 0) return nullptr;
        const int device = schedule_.splits.at(static_cast<std::size_t>(number)).device;
        const Schedule::CopyInfo* latest = nullptr;
        for (const auto* copy : found->second) {
            if (copy->to == device && copy->split <= number) latest = copy;
        }
        return latest;
    }

private:
    const Schedule& schedule_;
    std::unordered_map<int, std::vector<const Schedule::CopyInfo*>> by_source_;
};

std::string split_box(const Schedule& schedule, std::size_t number) {
    const auto& split = schedule.splits[number];
    const std::string color(words::color(split.device));
    std::string text = "  subgraph cluster_" + std::to_string(number) + " {\n    label=" +
                       quoted("split " + std::to_string(number) + " on " +
                              std::string(words::device(schedule, split.device))) +
                       ";\n    color=\"" + color + "\";\n    fontcolor=\"" + color + "\";\n";
    for (const int i : split.nodes) {
        const auto& node = schedule.nodes.at(static_cast<std::size_t>(i));
        text += "    " + node_id(schedule, i) + " [fillcolor=\"" + color +
                "\", label=" + quoted(node.name + "\n" + node.op + " " + words::shape(node.shape)) +
                ", tooltip=" + quoted(node.why) + "];\n";
    }
    return text + "  }\n";
}

}  // namespace

std::string to_dot(const Schedule& schedule) {
    std::string text =
        "digraph schedule {\n"
        "  rankdir=TB;\n"
        "  fontname=\"sans-serif\";\n"
        "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=10, "
        "color=\"#00000000\", fontcolor=white];\n"
        "  edge [color=\"#80868b\", fontname=\"sans-serif\", fontsize=9];\n";
    for (std::size_t i = 0; i < schedule.splits.size(); ++i) text += split_box(schedule, i);
    for (std::size_t i = 0; i < schedule.leafs.size(); ++i) {
        const auto& leaf = schedule.leafs[i];
        text += "  l" + std::to_string(i) + " [shape=ellipse, style=solid, fontcolor=\"" +
                std::string(words::color(leaf.device)) + "\", color=\"" +
                std::string(words::color(leaf.device)) + "\", label=" +
                quoted(leaf.name + "\n" + leaf.type + " " + words::shape(leaf.shape)) + "];\n";
    }
    const CopyFinder copies(schedule);
    for (std::size_t i = 0; i < schedule.nodes.size(); ++i) {
        const auto& node = schedule.nodes[i];
        for (const int source : node.sources) {
            text +=
                "  " + node_id(schedule, source) + " -> " + node_id(schedule, static_cast<int>(i));
            if (const auto* copy = copies.find(source, node.split)) {
                text += " [style=bold, color=\"" + std::string(words::color(copy->to)) +
                        "\", label=" + quoted("copy " + words::bytes(copy->bytes)) + "]";
            }
            text += ";\n";
        }
    }
    return text + "}\n";
}

}  // namespace heddle::sched
