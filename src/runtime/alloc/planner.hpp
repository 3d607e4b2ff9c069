#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/graph.hpp"
#include "runtime/alloc/lifetimes.hpp"
#include "runtime/alloc/packer.hpp"
#include "runtime/alloc/plan.hpp"

namespace heddle::alloc {

/// An arena as the planner sees it.
struct ArenaRoom {
    std::string_view name{};
    std::size_t chunk_limit = SIZE_MAX;
    std::vector<std::size_t> reserved{};  ///< bytes of the chunks that are there already
};

/// What groups of nodes that devices compute at once may cost in memory.
enum class FusionCost : std::uint8_t {
    little,   ///< a tenth of what the graph needs, or what is reserved already if that is more
    nothing,  ///< no plan is larger for them
};

/// Plans the memory of graphs: lifetimes, then places.
///
/// Groups are steps, so that none has to be computed node by node because its result lies over what
/// it reads, as far as they cost no more than allowed. Where memory is scarce those go that only
/// few backends know, then those at the times when it is, then all.
///
/// Keeps its tables, so that the next graph costs no allocation.
class Planner {
public:
    Result<Plan> plan(const Graph& graph, const Assignment& assignment,
                      std::span<const ArenaRoom> arenas, FusionCost cost = FusionCost::little);

    /// Lifetimes of `graph` with the groups that are steps in `like`, a plan of a graph of the same
    /// structure; of another one with all groups.
    Result<const Lifetimes*> find(const Graph& graph, const Assignment& assignment,
                                  const Plan& like);

    /// As the last plan or the last call of `find` took them.
    const Lifetimes& latest() const { return finder_.latest(); }

private:
    struct Task {
        const Assignment& assignment;
        std::span<const ArenaRoom> arenas;
        std::vector<std::size_t> limits;  ///< bytes that an arena may take
    };

    Result<Plan> pack(std::span<const ArenaRoom> arenas, std::vector<bool> steps);
    Result<Plan> pack_with(const Task& task, std::vector<bool> steps);
    Result<Plan> afford(Task& task, Plan all);
    Result<Plan> drop_some(const Task& task, const Plan& all, Plan bare);
    std::vector<bool> of_peers(const Task& task, const Plan& all) const;
    std::vector<bool> not_at_scarce_times(const Task& task, const Plan& all) const;

    LifetimeFinder finder_;
    Packer packer_;
};

}  // namespace heddle::alloc
