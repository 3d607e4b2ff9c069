#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/graph.hpp"
#include "ops/fusion_match.hpp"
#include "runtime/buffer.hpp"
#include "runtime/buffer_type.hpp"

/// For tests: whether the places of tensors let devices compute groups of nodes at once.
namespace heddle::test {

/// Bytes that belong to a tensor.
struct ByteRange {
    const Buffer* buffer = nullptr;
    std::uintptr_t begin = 0, end = 0;

    explicit ByteRange(const Tensor& tensor)
        : buffer(tensor.buffer), begin(reinterpret_cast<std::uintptr_t>(tensor.data)), end(begin) {
        if (buffer != nullptr) end += alloc_size_of(*buffer->buft, tensor);
    }
    bool meets(const ByteRange& other) const {
        return buffer == other.buffer && begin < other.end && other.begin < end;
    }
};

struct GroupCheck {
    int groups = 0;                    ///< found
    std::vector<std::string> blocked;  ///< of those, in words
};

/// Whether `output` may not be written while `source` is still read.
inline bool is_in_the_way(const FusionPattern& pattern, const Tensor& output,
                          const Tensor& source) {
    // Rows of a table that are set anew: the node is a view of the table.
    const Tensor* const root = source.view_src != nullptr ? source.view_src : &source;
    if (output.view_src == root) return false;
    if (!ByteRange(output).meets(ByteRange(source))) return false;
    return pattern.overlap == FusionOverlap::none || output.data != source.data;
}

/// The words for what blocks a group; empty if nothing does.
inline std::string blocks(const FusionGroup& group, std::span<Tensor* const> nodes) {
    std::vector<const Tensor*> members, outputs;
    for (std::size_t i = 0; i < group.count; ++i) {
        if (!group.has(i)) continue;
        members.push_back(nodes[group.node(i)]);
        if (group.is_output(i)) outputs.push_back(members.back());
    }
    const auto is_inside = [&](const Tensor* tensor) {
        return std::find(members.begin(), members.end(), tensor) != members.end();
    };
    for (const Tensor* member : members) {
        for (const Tensor* source : member->src) {
            if (source == nullptr || is_inside(source) || is_inside(source->view_src)) continue;
            for (const Tensor* output : outputs) {
                if (!is_in_the_way(*group.pattern, *output, *source)) continue;
                return text(to_text(group), ": ", describe(*output), " lies over ",
                            describe(*source));
            }
        }
    }
    return {};
}

/// The definition: an output of a group overlaps nothing that the group reads from outside. Where
/// the pattern works in place it may be exactly where an operand is. Groups in memory of the host
/// are left out.
inline GroupCheck check_groups(const Graph& graph, FusionSearch search = {}) {
    const auto nodes = nodes_of(graph);
    std::vector<FusionGroup> groups;
    find_fusion_groups(nodes, GraphUses(graph), search, groups);
    GroupCheck check;
    for (const FusionGroup& group : groups) {
        const Buffer* const buffer = nodes[static_cast<std::size_t>(group.first)]->buffer;
        if (buffer != nullptr && is_host(*buffer->buft)) continue;
        ++check.groups;
        std::string words = blocks(group, nodes);
        if (!words.empty()) check.blocked.push_back(std::move(words));
    }
    return check;
}

}  // namespace heddle::test
