#include "runtime/alloc/planner.hpp"

#include <algorithm>
#include <utility>

namespace heddle::alloc {
namespace {

/// Groups may make a plan larger by one part in so many.
constexpr std::size_t kGroupsCost = 10;

/// When memory is scarce: more than all but one part in so many of what is allowed is alive. A
/// packing is seldom better than that.
constexpr std::size_t kScarce = 32;

/// Bytes alive in one arena at each time.
std::vector<std::size_t> alive_in(std::span<const Block> blocks, std::size_t arena) {
    std::size_t end = 0;
    for (const Block& block : blocks) end = std::max(end, static_cast<std::size_t>(block.last));
    std::vector<std::size_t> alive(end + 2);
    for (const Block& block : blocks) {
        if (static_cast<std::size_t>(block.arena) != arena) continue;
        alive[static_cast<std::size_t>(block.first)] += block.size;
        alive[static_cast<std::size_t>(block.last) + 1] -= block.size;  // wraps; the sum does not
    }
    for (std::size_t i = 1; i < alive.size(); ++i) alive[i] += alive[i - 1];
    return alive;
}

bool is_reserved(std::span<const std::size_t> chunks, std::span<const std::size_t> reserved) {
    if (chunks.size() > reserved.size()) return false;
    return std::equal(chunks.begin(), chunks.end(), reserved.begin(), std::less_equal{});
}

std::size_t with_groups(std::size_t bytes) { return bytes + bytes / kGroupsCost; }

/// Whether an arena takes no more than it may.
bool is_within(const Plan& plan, std::size_t arena, const ArenaRoom& room, std::size_t limit) {
    return plan.bytes(arena) <= limit || is_reserved(plan.chunks[arena], room.reserved);
}

bool are_within(const Plan& plan, std::span<const ArenaRoom> rooms,
                std::span<const std::size_t> limits) {
    for (std::size_t i = 0; i < rooms.size(); ++i) {
        if (!is_within(plan, i, rooms[i], limits[i])) return false;
    }
    return true;
}

}  // namespace

Result<Plan> Planner::plan(const Graph& graph, const Assignment& assignment,
                           std::span<const ArenaRoom> arenas, FusionCost cost) {
    HEDDLE_TRY(finder_.find(graph, assignment));
    const std::size_t groups = finder_.groups().size();
    if (groups == 0) return pack(arenas, {});
    Task task{assignment, arenas, std::vector<std::size_t>(arenas.size())};
    if (cost == FusionCost::nothing) return pack_with(task, std::vector<bool>(groups));
    HEDDLE_TRY_ASSIGN(Plan all, pack(arenas, std::vector<bool>(groups, true)));
    if (are_within(all, arenas, task.limits)) return all;
    return afford(task, std::move(all));
}

/// All groups if they are cheap enough, which the cheapest of three questions decides.
Result<Plan> Planner::afford(Task& task, Plan all) {
    const std::vector<bool> none(all.steps.size());
    HEDDLE_TRY_ASSIGN(const Lifetimes* const bare_lifetimes,
                      finder_.find_again(task.assignment, none));
    for (std::size_t i = 0; i < task.limits.size(); ++i) {
        // No plan takes less than what is alive at one time.
        task.limits[i] = with_groups(std::ranges::max(alive_in(bare_lifetimes->blocks, i)));
    }
    if (!are_within(all, task.arenas, task.limits)) {
        HEDDLE_TRY_ASSIGN(Plan bare, pack(task.arenas, none));
        for (std::size_t i = 0; i < task.limits.size(); ++i) {
            task.limits[i] = with_groups(bare.bytes(i));
        }
        if (!are_within(all, task.arenas, task.limits)) {
            return drop_some(task, all, std::move(bare));
        }
    }
    HEDDLE_TRY(finder_.find_again(task.assignment, all.steps));
    return all;
}

Result<Plan> Planner::drop_some(const Task& task, const Plan& all, Plan bare) {
    for (const bool scarce : {false, true}) {
        std::vector<bool> steps = scarce ? not_at_scarce_times(task, all) : of_peers(task, all);
        if (steps == all.steps) continue;
        HEDDLE_TRY_ASSIGN(Plan some, pack_with(task, std::move(steps)));
        if (are_within(some, task.arenas, task.limits)) return some;
    }
    HEDDLE_TRY(finder_.find_again(task.assignment, bare.steps));
    return bare;
}

/// In arenas that take too much, without the groups that no other backend knows.
std::vector<bool> Planner::of_peers(const Task& task, const Plan& all) const {
    std::vector<bool> steps;
    for (const Group& group : finder_.groups()) {
        const auto arena = static_cast<std::size_t>(group.arena);
        steps.push_back(group.is_of_peers ||
                        is_within(all, arena, task.arenas[arena], task.limits[arena]));
    }
    return steps;
}

/// In arenas that take too much, without the groups that go on while memory is scarce.
std::vector<bool> Planner::not_at_scarce_times(const Task& task, const Plan& all) const {
    std::vector<bool> steps(all.steps.size(), true);
    for (std::size_t arena = 0; arena < task.arenas.size(); ++arena) {
        const std::size_t limit = task.limits[arena];
        if (is_within(all, arena, task.arenas[arena], limit)) continue;
        const std::vector<std::size_t> alive = alive_in(all.blocks, arena);
        std::vector<std::uint32_t> scarce(alive.size() + 1);  // times before this one
        for (std::size_t i = 0; i < alive.size(); ++i) {
            scarce[i + 1] = scarce[i] + (alive[i] > limit - limit / kScarce ? 1 : 0);
        }
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const Group& group = finder_.groups()[i];
            if (static_cast<std::size_t>(group.arena) != arena) continue;
            const auto first = static_cast<std::size_t>(group.first());
            const auto end = static_cast<std::size_t>(group.last()) + 1;
            steps[i] = scarce[std::min(end, alive.size())] == scarce[std::min(first, alive.size())];
        }
    }
    return steps;
}

Result<Plan> Planner::pack_with(const Task& task, std::vector<bool> steps) {
    HEDDLE_TRY(finder_.find_again(task.assignment, steps));
    return pack(task.arenas, std::move(steps));
}

/// Places for the lifetimes found last, in which the groups of `steps` are steps.
Result<Plan> Planner::pack(std::span<const ArenaRoom> arenas, std::vector<bool> steps) {
    Plan plan{
        .blocks = finder_.latest().blocks, .places = {}, .chunks = {}, .steps = std::move(steps)};
    plan.places.resize(plan.blocks.size());
    plan.chunks.resize(arenas.size());
    std::vector<Block> inside;
    std::vector<std::size_t> origin;
    for (std::size_t arena = 0; arena < arenas.size(); ++arena) {
        inside.clear();
        origin.clear();
        for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
            if (static_cast<std::size_t>(plan.blocks[i].arena) != arena) continue;
            inside.push_back(plan.blocks[i]);
            origin.push_back(i);
        }
        const auto packed = packer_.pack(inside, arenas[arena].chunk_limit);
        if (!packed) return Error(packed.error()).within(std::string(arenas[arena].name));
        const Packing& packing = **packed;
        for (std::size_t i = 0; i < origin.size(); ++i) plan.places[origin[i]] = packing.places[i];
        plan.chunks[arena] = packing.chunks;
    }
    return plan;
}

Result<const Lifetimes*> Planner::find(const Graph& graph, const Assignment& assignment,
                                       const Plan& like) {
    HEDDLE_TRY_ASSIGN(const Lifetimes* const all, finder_.find(graph, assignment));
    if (like.steps.size() != finder_.groups().size() || !like.drops_groups()) return all;
    return finder_.find_again(assignment, like.steps);
}

}  // namespace heddle::alloc
