#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/graph.hpp"
#include "ops/fusion_patterns.hpp"

namespace heddle {

/// Nodes of a list that are one group.
struct FusionGroup {
    const FusionPattern* pattern = nullptr;
    std::int32_t first = 0, last = 0;  ///< numbers of the first and the last node
    std::uint16_t outputs = 0;         ///< a bit for each member
    std::uint8_t count = 0;            ///< of members, absent ones included
    std::array<std::int16_t, kMostFused>
        offsets{};  ///< from `first`; -1 for members that are absent

    bool has(std::size_t member) const { return offsets[member] >= 0; }
    bool is_output(std::size_t member) const { return (outputs >> member & 1) != 0; }
    /// The number of a member's node.
    std::size_t node(std::size_t member) const {
        return static_cast<std::size_t>(first + offsets[member]);
    }
};

/// How often tensors are read.
class TensorUses {
public:
    /// Whether `tensor` is read `inside` times and not once more.
    virtual bool is_all(const Tensor& tensor, int inside) const = 0;

protected:
    ~TensorUses() = default;
};

/// As a graph has counted them. For a slice that is the whole graph's count. A tensor that the
/// graph does not know may be read by anybody.
class GraphUses final : public TensorUses {
public:
    explicit GraphUses(const Graph& graph) : graph_(graph) {}
    bool is_all(const Tensor& tensor, int inside) const override {
        return use_count(graph_, tensor) == inside;
    }

private:
    const Graph& graph_;
};

struct FusionSearch {
    /// Which rows of the table.
    enum class Rows : std::uint8_t {
        all,
        of_peers,  ///< those that other backends fuse as well
    };
    Rows rows = Rows::all;
    bool any_tokens = false;  ///< take the number of tokens for one
};

/// The group that begins with node `first`, if there is one.
std::optional<FusionGroup> match_fusion(std::span<Tensor* const> nodes, std::size_t first,
                                        const TensorUses& uses, FusionSearch search = {});

/// Adds all groups, in order. No node is in two of them.
void find_fusion_groups(std::span<Tensor* const> nodes, const TensorUses& uses, FusionSearch search,
                        std::vector<FusionGroup>& groups);

/// For people: "gate_up_glu: 12 to 14".
std::string to_text(const FusionGroup& group);

}  // namespace heddle
