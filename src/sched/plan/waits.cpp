#include <algorithm>

#include "sched/plan/actions.hpp"

namespace heddle::sched {
namespace {

/// Finds the waits of all actions. Memory is known by what it is for, not by address:
///
/// - a read waits for the last write, a write for the reads and writes since;
/// - memory of the plan is given to others after its last use in the order of submission. So what
///   begins something new in an arena waits for the uses of everything that ended there before, or
///   ends with it.
///
/// Clocks, one entry for each queue, tell what is in order already.
class Waits {
public:
    Waits(const PlanInput& input, Program& program)
        : in_(input),
          program_(program),
          tensors_(static_cast<std::int32_t>(input.index.size())),
          copies_(static_cast<std::int32_t>(input.splits.copies.size())) {}

    void run() {
        name_queues();
        if (queue_count_ < 2) {
            program_.overlaps_runs = may_overlap_runs();
            return;
        }
        collect();
        const std::size_t objects = last_use_.size();
        writer_.assign(objects, -1);
        first_reader_.assign(objects, -1);
        retired_.assign(in_.team.size() * queue_count_, -1);
        clocks_.assign(program_.actions.size() * queue_count_, -1);
        latest_.assign(queue_count_, -1);
        for (std::int32_t i = 0; i < action_count(); ++i) order(i);
        program_.wants_threads = is_held_up();
        program_.overlaps_runs = may_overlap_runs();
    }

private:
    /// A tensor's root, the stand-in of a copy, or that of a detour.
    using Object = std::int32_t;
    static constexpr RunnerId kGiven = -1;  ///< instead of an arena: memory that is not recycled

    struct Use {
        Object object;
        bool writes;
    };
    struct Reader {
        std::int32_t action;
        std::int32_t next;  ///< in `readers_`, of the same object on another queue; -1: none
    };

    std::int32_t action_count() const { return static_cast<std::int32_t>(program_.actions.size()); }
    Action& action(std::int32_t i) { return program_.actions[static_cast<std::size_t>(i)]; }
    std::size_t queue_of(std::int32_t i) const { return queues_[static_cast<std::size_t>(i)]; }
    std::int32_t& clock(std::int32_t i, std::size_t queue) {
        return clocks_[static_cast<std::size_t>(i) * queue_count_ + queue];
    }
    Object stand_in_of_copy(std::int32_t copy) const { return tensors_ + copy; }
    Object stand_in_of_detour(std::int32_t detour) const { return tensors_ + copies_ + detour; }

    // ---- who touches what ----------------------------------------------------------------------

    void name_queues() {
        std::vector<std::int32_t> numbers(kQueues * in_.team.size(), -1);
        queues_.reserve(program_.actions.size());
        for (const Action& action : program_.actions) {
            auto& number = numbers[number_of(action.runner, action.queue)];
            if (number < 0) number = static_cast<std::int32_t>(queue_count_++);
            queues_.push_back(static_cast<std::size_t>(number));
        }
    }

    /// The first runner whose results go to the same memory.
    RunnerId arena_of(RunnerId runner) const {
        for (RunnerId other = 0; other < runner; ++other) {
            if (in_.team[other].type == in_.team[runner].type) return other;
        }
        return runner;
    }

    void collect() {
        const std::size_t objects =
            static_cast<std::size_t>(tensors_ + copies_) + in_.splits.detours.size();
        last_use_.assign(objects, -1);
        arenas_.assign(objects, kGiven);
        std::vector<RunnerId> arena_of_runner;
        for (RunnerId i = 0; i <= in_.team.last(); ++i) arena_of_runner.push_back(arena_of(i));
        const auto arena = [&](RunnerId runner) {
            return arena_of_runner[static_cast<std::size_t>(runner == kNoRunner ? in_.team.last()
                                                                                : runner)];
        };
        for (TensorId id = 0; id < tensors_; ++id) {
            if (in_.planned[static_cast<std::size_t>(id)] == 0) continue;
            arenas_[static_cast<std::size_t>(id)] = arena(in_.placement[id].runner);
        }
        for (std::int32_t i = 0; i < copies_; ++i) {
            const auto index = static_cast<std::size_t>(i);
            const Copy& copy = in_.splits.copies[index];
            if (program_.cached[index] != nullptr || copy.stand_ins > 1) continue;
            arenas_[static_cast<std::size_t>(stand_in_of_copy(i))] = arena(copy.to);
        }
        for (std::size_t i = 0; i < in_.splits.detours.size(); ++i) {
            const auto split = static_cast<std::size_t>(in_.splits.detours[i].split);
            const Object object = stand_in_of_detour(static_cast<std::int32_t>(i));
            arenas_[static_cast<std::size_t>(object)] = arena(in_.splits.splits[split].runner);
        }
        first_use_.reserve(program_.actions.size() + 1);
        for (std::int32_t i = 0; i < action_count(); ++i) {
            first_use_.push_back(uses_.size());
            collect(action(i));
            for (const Use& use : uses_of(i)) last_use_[static_cast<std::size_t>(use.object)] = i;
        }
    }

    std::span<const Use> uses_of(std::int32_t i) const {
        const std::size_t begin = first_use_[static_cast<std::size_t>(i)];
        const std::size_t next = static_cast<std::size_t>(i) + 1;
        const std::size_t end = next < first_use_.size() ? first_use_[next] : uses_.size();
        return std::span(uses_).subspan(begin, end - begin);
    }

    void collect(const Action& action) {
        const auto index = static_cast<std::size_t>(action.index);
        switch (action.kind) {
            case Action::Kind::copy:
                collect_copy(action.index);
                break;
            case Action::Kind::compute:
                collect_split(in_.splits.splits[index]);
                break;
            case Action::Kind::write_back:
                read(stand_in_of_detour(action.index));
                write(in_.index.root(in_.splits.detours[index].node));
                break;
        }
    }

    void collect_copy(std::int32_t number) {
        const auto index = static_cast<std::size_t>(number);
        const Copy& copy = in_.splits.copies[index];
        read(in_.index.root(copy.tensor));
        write(stand_in_of_copy(number));
        const TensorId ids = chosen_by(in_.index, copy);
        if (ids == kNoTensor || program_.cached[index] != nullptr) return;
        // The host looks at the choice before it copies, in the one place or the other.
        read(in_.index.root(ids));
        const Split& split = in_.splits.splits[static_cast<std::size_t>(copy.split)];
        for (std::uint32_t i = split.first_patch; i < split.last_patch; ++i) {
            const Patch& patch = in_.splits.patches[i];
            const auto submitted = program_.action_of_copy[static_cast<std::size_t>(patch.copy)];
            if (patch.original == ids && submitted < program_.action_of_copy[index]) {
                read(stand_in_of_copy(patch.copy));
            }
        }
    }

    void collect_split(const Split& split) {
        const auto& patches = in_.splits.patches;
        std::uint32_t patch = split.first_patch;
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            while (patch < split.last_patch && patches[patch].position < at) ++patch;
            const TensorId node = in_.splits.order[static_cast<std::size_t>(at)];
            if (is_idle(in_.index, node)) continue;
            for (const auto source : in_.index.sources(node)) {
                Object object = in_.index.root(source.tensor);
                for (std::uint32_t i = patch; i < split.last_patch && patches[i].position == at;
                     ++i) {
                    if (patches[i].slot == source.slot) object = stand_in_of_copy(patches[i].copy);
                }
                read(object);
                if (writes_source(in_.index, node, source.slot)) write(object);
            }
            const std::int32_t detour = detour_at(split, at);
            if (detour < 0) {
                write(in_.index.root(node));
                continue;
            }
            write(stand_in_of_detour(detour));
            if (in_.splits.detours[static_cast<std::size_t>(detour)].fetch_first) {
                read(in_.index.root(node));
            }
        }
    }
    std::int32_t detour_at(const Split& split, std::int32_t position) const {
        for (const std::int32_t detour : split.detours) {
            if (in_.splits.detours[static_cast<std::size_t>(detour)].position == position) {
                return detour;
            }
        }
        return -1;
    }

    void read(Object object) { uses_.push_back({object, false}); }
    void write(Object object) { uses_.push_back({object, true}); }

    // ---- what waits for what -------------------------------------------------------------------

    void order(std::int32_t now) {
        needs_.assign(queue_count_, -1);
        const auto uses = uses_of(now);
        for (const Use& use : uses) {
            const auto object = static_cast<std::size_t>(use.object);
            need(writer_[object]);
            if (use.writes) {
                for_each_reader(object, [&](std::int32_t reader) { need(reader); });
            }
            if (last_use_[object] == now && arenas_[object] != kGiven) retire(object);
        }
        if (const RunnerId arena = begins_in(now); arena != kGiven) {
            for (std::size_t queue = 0; queue < queue_count_; ++queue) need(retired(arena, queue));
        }
        add_waits(now);
        for (const Use& use : uses) note(use, now);
        for (const Use& use : uses) {
            const auto object = static_cast<std::size_t>(use.object);
            if (last_use_[object] != now || arenas_[object] == kGiven) continue;
            retired(arenas_[object], queue_of(now)) = now;
        }
    }

    /// Where the action puts something new; kGiven if nowhere.
    RunnerId begins_in(std::int32_t now) {
        const Action& what = action(now);
        if (what.kind == Action::Kind::compute) return arena_of(what.runner);
        if (what.kind == Action::Kind::write_back) return kGiven;
        return arenas_[static_cast<std::size_t>(stand_in_of_copy(what.index))];
    }

    void need(std::int32_t other) {
        if (other < 0) return;
        std::int32_t& latest = needs_[queue_of(other)];
        latest = std::max(latest, other);
    }

    template <class Function>
    void for_each_reader(std::size_t object, Function function) {
        for (std::int32_t i = first_reader_[object]; i >= 0;
             i = readers_[static_cast<std::size_t>(i)].next) {
            function(readers_[static_cast<std::size_t>(i)].action);
        }
    }

    std::int32_t& retired(RunnerId arena, std::size_t queue) {
        return retired_[static_cast<std::size_t>(arena) * queue_count_ + queue];
    }
    void retire(std::size_t object) {
        const auto end = [&](std::int32_t other) {
            if (other < 0) return;
            std::int32_t& latest = retired(arenas_[object], queue_of(other));
            latest = std::max(latest, other);
        };
        end(writer_[object]);
        for_each_reader(object, end);
    }

    void note(const Use& use, std::int32_t now) {
        const auto object = static_cast<std::size_t>(use.object);
        if (use.writes) {
            writer_[object] = now;
            first_reader_[object] = -1;
            return;
        }
        if (writer_[object] == now) return;
        for (std::int32_t i = first_reader_[object]; i >= 0;
             i = readers_[static_cast<std::size_t>(i)].next) {
            Reader& reader = readers_[static_cast<std::size_t>(i)];
            if (queue_of(reader.action) != queue_of(now)) continue;
            reader.action = now;
            return;
        }
        readers_.push_back({now, first_reader_[object]});
        first_reader_[object] = static_cast<std::int32_t>(readers_.size() - 1);
    }

    /// Later actions first: what follows from them is known then.
    void add_waits(std::int32_t now) {
        const std::size_t queue = queue_of(now);
        if (const std::int32_t before = latest_[queue]; before >= 0) merge(now, before);
        clock(now, queue) = now;
        latest_[queue] = now;
        std::ranges::sort(needs_, std::greater{});
        const auto first = static_cast<std::uint32_t>(program_.waits.size());
        for (const std::int32_t other : needs_) {
            if (other < 0) break;
            if (clock(now, queue_of(other)) >= other) continue;
            program_.waits.push_back(other);
            action(other).awaited = true;
            merge(now, other);
        }
        action(now).first_wait = first;
        action(now).last_wait = static_cast<std::uint32_t>(program_.waits.size());
    }
    void merge(std::int32_t now, std::int32_t before) {
        for (std::size_t queue = 0; queue < queue_count_; ++queue) {
            clock(now, queue) = std::max(clock(now, queue), clock(before, queue));
        }
    }

    // ---- what follows --------------------------------------------------------------------------

    /// Whether something that runs in the background is submitted after nodes that are computed
    /// within the call, without waiting for them.
    bool is_held_up() {
        std::vector<std::int32_t> blocking(queue_count_, -1);
        for (std::int32_t i = 0; i < action_count(); ++i) {
            const bool runs_within = !in_.team[action(i).runner].is_async;
            if (runs_within && action(i).kind == Action::Kind::compute) blocking[queue_of(i)] = i;
            if (runs_within) continue;
            for (std::size_t queue = 0; queue < queue_count_; ++queue) {
                if (blocking[queue] > clock(i, queue)) return true;
            }
        }
        return false;
    }

    bool may_overlap_runs() {
        if (in_.slots < 2 || !in_.splits.detours.empty()) return false;
        for (std::size_t i = 0; i < in_.splits.copies.size(); ++i) {
            if (program_.cached[i] == nullptr && in_.splits.copies[i].stand_ins < in_.slots) {
                return false;
            }
        }
        return queue_count_ < 2 || (keeps_apart() && !shares_arenas());
    }

    /// Whether nodes touch only what the plan put into their own arena, and given memory that the
    /// graph writes is touched from one queue only.
    bool keeps_apart() {
        std::vector<std::int32_t> queue_of_object(last_use_.size(), -1);
        std::vector<std::uint8_t> shared(last_use_.size()), written(last_use_.size());
        for (std::int32_t i = 0; i < action_count(); ++i) {
            const bool computes = action(i).kind == Action::Kind::compute;
            const RunnerId arena = arena_of(action(i).runner);
            const auto queue = static_cast<std::int32_t>(queue_of(i));
            for (const Use& use : uses_of(i)) {
                if (use.object >= tensors_) continue;
                const auto object = static_cast<std::size_t>(use.object);
                if (arenas_[object] != kGiven) {
                    if (computes && arenas_[object] != arena) return false;
                    continue;
                }
                if (queue_of_object[object] >= 0 && queue_of_object[object] != queue) {
                    shared[object] = 1;
                }
                queue_of_object[object] = queue;
                written[object] |= use.writes ? 1 : 0;
            }
        }
        for (std::size_t i = 0; i < shared.size(); ++i) {
            if (shared[i] != 0 && written[i] != 0) return false;
        }
        return true;
    }

    /// Whether two streams, one of which goes on in the background, have their results in one
    /// arena.
    bool shares_arenas() {
        std::vector<RunnerId> user(in_.team.size(), kNoRunner);
        for (const Split& split : in_.splits.splits) {
            RunnerId& other = user[static_cast<std::size_t>(arena_of(split.runner))];
            if (other == kNoRunner) other = split.runner;
            if (other == split.runner) continue;
            if (in_.team[other].is_async || in_.team[split.runner].is_async) return true;
        }
        return false;
    }

    const PlanInput& in_;
    Program& program_;
    const std::int32_t tensors_, copies_;
    std::vector<std::size_t> queues_;  ///< of each action
    std::size_t queue_count_ = 0;

    std::vector<Use> uses_;
    std::vector<std::size_t> first_use_;      ///< of each action
    std::vector<std::int32_t> last_use_;      ///< of each object: the action
    std::vector<RunnerId> arenas_;            ///< of each object
    std::vector<std::int32_t> writer_;        ///< of each object: the last so far
    std::vector<std::int32_t> first_reader_;  ///< of each object since: in `readers_`
    std::vector<Reader> readers_;
    std::vector<std::int32_t> retired_;  ///< of each arena and queue: last use of what has ended
    std::vector<std::int32_t> clocks_;  ///< of each action and queue: the last that comes before it
    std::vector<std::int32_t> latest_;  ///< of each queue so far
    std::vector<std::int32_t> needs_;
};

}  // namespace

void find_waits(const PlanInput& input, Program& program) { Waits(input, program).run(); }

}  // namespace heddle::sched
