#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/tensor.hpp"
#include "ops/descriptor.hpp"

/// Groups of neighbouring nodes that devices compute at once, as data. The planner of memory reads
/// the table to leave room for them, GPU backends read it to find them.
namespace heddle {

/// No group has more nodes.
inline constexpr std::size_t kMostFused = 16;

/// In `FusionMember::reads`: the member before, and none.
inline constexpr std::int8_t kReadsPrevious = -1, kReadsNothing = -2;

/// One node of a pattern.
struct FusionMember {
    Op op = kNoOp;
    std::uint32_t functions = 0;  ///< of UNARY and GLU, a bit for each; 0: any
    /// Numbers of the members that it reads, in whatever slot. Where one of them is absent, what
    /// that one reads takes its place.
    std::array<std::int8_t, 2> reads{kReadsPrevious, kReadsNothing};
    std::uint8_t option = 0;  ///< not 0: members of one option are all there, or all absent
    bool is_output = false;   ///< others may read it, too. The last member always is one.
};

/// Who may read what is neither an output nor from outside.
enum class FusionRule : std::uint8_t {
    chain,    ///< the next member alone, once; it has the same shape, and is no view
    subgraph  ///< members, all of them; its memory is that of a member or of a constant
};

/// What devices ask of the memory of a group's outputs and of what the group reads from outside.
enum class FusionOverlap : std::uint8_t {
    in_place,  ///< an output may be exactly where an operand was that is read element by element
    none       ///< they are apart
};

/// The nodes of a match: one for each member, null where it is absent.
using FusionNodes = std::array<const Tensor*, kMostFused>;

/// One row of the table.
struct FusionPattern {
    std::string_view name;  ///< words joined by underscores, as kernels are called
    int peer = 0;           ///< number of the pattern that other backends fuse as well; 0: none
    std::string_view conditions{};  ///< in words: what kernels ask for beyond the structure
    std::span<const FusionMember> members{};
    FusionRule rule = FusionRule::chain;
    FusionOverlap overlap = FusionOverlap::in_place;
    bool one_token = false;        ///< only where every product is a GEMV
    bool skips_views = false;      ///< nodes that only look at memory may lie between members, and
                                   ///< members may read each other through them
    std::uint8_t longest_run = 0;  ///< not 0: the one member, 2 to so many times, each with the one
                                   ///< before in slot 0
    /// Why these nodes are no such group; empty if they are one. It looks at parameters, types and
    /// sources only: the answer is the same for any number of tokens.
    std::string_view (*objection)(const FusionNodes&) = nullptr;
};

/// Every pattern. Among those that begin with the same node the first that matches is taken, so
/// longer ones stand before their beginnings.
std::span<const FusionPattern> fusion_patterns();

/// Null if there is none of that name.
const FusionPattern* find_fusion_pattern(std::string_view name);

}  // namespace heddle
