#include "sched/plan/hazard.hpp"

#include <algorithm>
#include <set>

#include "runtime/buffer.hpp"
#include "sched/plan/actions.hpp"
#include "sched/plan/byte_map.hpp"

namespace heddle::sched {
namespace {

constexpr std::size_t kEnough = 32;  ///< hazards; more would only repeat them

/// Walks through runs in the order of submission, with a clock for every action and a note at every
/// byte of who wrote it, what is there, and who has read it since.
class Checker {
public:
    Checker(const GraphIndex& index, Splits& splits, const Program& program, const Team& team,
            int slots)
        : index_(index),
          splits_(splits),
          program_(program),
          team_(team),
          slots_(program.overlaps_runs ? std::min(slots, 2) : 1),
          runs_(program.overlaps_runs ? 3 : 1),  // enough for a slot to come again
          count_(static_cast<std::int32_t>(program.actions.size())),
          queue_count_(kQueues * team.size() + 1) {}

    std::vector<Hazard> run() {
        const auto instances =
            static_cast<std::size_t>(runs_) * (static_cast<std::size_t>(count_) + 1);
        clocks_.assign(instances * queue_count_, -1);
        latest_.assign(queue_count_, -1);
        for (run_ = 0; run_ < runs_; ++run_) {
            fill_inputs();
            for (action_ = 0; action_ < count_; ++action_) {
                now_ = run_ * (count_ + 1) + 1 + action_;
                set_clock();
                touch();
            }
        }
        action_ = Hazard::kNoAction;
        if (runs_ == 1) fill_inputs_again();
        return std::move(found_);
    }

private:
    /// What bytes are for: a root by its number, then stand-ins.
    using Object = std::int32_t;
    static constexpr Object kNothing = -1, kGiven = -2;

    struct Cell {
        Object object = kNothing;
        std::int32_t writer = -1;
        std::vector<std::int32_t> readers;  ///< since it was written, the latest of each queue
    };

    const Action& action_at(std::int32_t i) const {
        return program_.actions[static_cast<std::size_t>(i)];
    }
    int slot() const { return run_ % slots_; }

    // ---- order ---------------------------------------------------------------------------------

    /// The caller has a queue of its own, the last. It comes first in each run.
    std::size_t queue_of(std::int32_t instance) const {
        const std::int32_t i = instance % (count_ + 1) - 1;
        if (i < 0) return queue_count_ - 1;
        return number_of(action_at(i).runner, action_at(i).queue);
    }
    std::int32_t instance(int run, std::int32_t action) const {
        return run * (count_ + 1) + 1 + action;
    }
    std::int32_t& clock(std::int32_t instance, std::size_t queue) {
        return clocks_[static_cast<std::size_t>(instance) * queue_count_ + queue];
    }
    bool comes_before(std::int32_t first, std::int32_t second) {
        return first < 0 || clock(second, queue_of(first)) >= first;
    }
    void follow(std::int32_t instance, std::int32_t before) {
        for (std::size_t queue = 0; queue < queue_count_; ++queue) {
            clock(instance, queue) = std::max(clock(instance, queue), clock(before, queue));
        }
    }

    void set_clock() {
        const std::size_t queue = queue_of(now_);
        if (latest_[queue] >= 0) follow(now_, latest_[queue]);
        clock(now_, queue) = now_;
        follow(now_, run_ * (count_ + 1));  // nothing begins before the caller says so
        const Action& action = action_at(action_);
        for (std::uint32_t i = action.first_wait; i < action.last_wait; ++i) {
            follow(now_, instance(run_, program_.waits[i]));
        }
        if (run_ > 0) follow_last_runs(action);
        latest_[queue] = now_;
    }

    /// What is promised between runs that overlap.
    void follow_last_runs(const Action& action) {
        if (action.kind == Action::Kind::compute) {
            // The first nodes on a runner come after the last run's copies out of its memory.
            for (std::int32_t i = 0; i < count_; ++i) {
                const Action& other = action_at(i);
                if (other.kind != Action::Kind::copy) continue;
                const Copy& copy = splits_.copies[static_cast<std::size_t>(other.index)];
                if (copy.from == action.runner) follow(now_, instance(run_ - 1, i));
            }
            return;
        }
        if (action.kind != Action::Kind::copy || run_ < slots_) return;
        const Copy& copy = splits_.copies[static_cast<std::size_t>(action.index)];
        for (std::int32_t i = 0; i < count_; ++i) {
            const Action& other = action_at(i);
            if (other.kind == Action::Kind::compute && other.runner == copy.to) {
                follow(now_, instance(run_ - slots_, i));
            }
        }
    }

    /// The caller writes inputs when the last run has taken them, and what the host does is done.
    void fill_inputs() {
        now_ = run_ * (count_ + 1);
        action_ = Hazard::kNoAction;
        const std::size_t queue = queue_count_ - 1;
        clock(now_, queue) = now_;
        if (run_ > 0) {
            for (std::int32_t i = 0; i < count_; ++i) {
                if (is_awaited_by_caller(action_at(i))) follow(now_, instance(run_ - 1, i));
            }
        }
        latest_[queue] = now_;
        for (TensorId id = 0; static_cast<std::size_t>(id) < index_.size(); ++id) {
            if (index_.root(id) != id || (index_.is_node(id) && !is_idle(index_, id))) continue;
            const bool is_input = (index_.facts(id).flags & GGML_TENSOR_FLAG_INPUT) != 0;
            if (is_input && is_on_host(index_[id])) {
                write(index_[id], object_of(id), id);
            } else if (is_planned(id)) {
                fill(index_[id], id);
            }
        }
    }

    /// Filled by a caller who knows when: only inputs on the host are promised to be free.
    void fill(const Tensor& tensor, Object object) {
        visit(tensor, [&](Cell& cell) { cell = {object, now_, {}}; });
    }

    /// The same after a single run: later ones come after all of it, but the caller does not.
    void fill_inputs_again() {
        run_ = 1;
        clocks_.resize(clocks_.size() + queue_count_, -1);
        fill_inputs();
    }

    bool is_awaited_by_caller(const Action& action) const {
        if (!team_[action.runner].is_async) return true;
        const auto index = static_cast<std::size_t>(action.index);
        if (action.kind == Action::Kind::copy) {
            const Copy& copy = splits_.copies[index];
            return copy.kind != Copy::Kind::constant && is_on_host(index_[copy.tensor]);
        }
        return action.kind == Action::Kind::write_back || reads_host(splits_.splits[index]);
    }
    static bool is_on_host(const Tensor& tensor) {
        Buffer* const buffer = root_buffer(tensor);
        return buffer == nullptr || is_host(*buffer);
    }
    bool reads_host(const Split& split) const {
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId node = splits_.order[static_cast<std::size_t>(at)];
            if (is_idle(index_, node)) continue;
            for (const auto source : index_.sources(node)) {
                if (patch_at(split, at, source.slot) == nullptr &&
                    is_on_host(index_[source.tensor])) {
                    return true;
                }
            }
        }
        return false;
    }

    // ---- bytes ---------------------------------------------------------------------------------

    bool is_planned(TensorId id) const {
        return program_.homes[static_cast<std::size_t>(index_.root(id))].buffer != nullptr;
    }
    Object object_of(TensorId id) const { return is_planned(id) ? index_.root(id) : kGiven; }
    Object object_of_copy(std::int32_t copy) const {
        return static_cast<Object>(index_.size()) + copy;
    }
    Object object_of_detour(std::int32_t detour) const {
        return object_of_copy(static_cast<std::int32_t>(splits_.copies.size())) + detour;
    }
    Tensor& stand_in_of(const Detour& detour) const {
        return splits_.stand_ins[static_cast<std::size_t>(detour.stand_in)];
    }

    void touch() {
        const Action& action = action_at(action_);
        const auto index = static_cast<std::size_t>(action.index);
        switch (action.kind) {
            case Action::Kind::copy:
                touch_copy(action.index);
                break;
            case Action::Kind::compute:
                touch_split(splits_.splits[index]);
                break;
            case Action::Kind::write_back: {
                const Detour& detour = splits_.detours[index];
                read(stand_in_of(detour), object_of_detour(action.index), detour.node);
                write(index_[detour.node], object_of(detour.node), detour.node);
                break;
            }
        }
    }

    void touch_copy(std::int32_t number) {
        const auto index = static_cast<std::size_t>(number);
        const Copy& copy = splits_.copies[index];
        // What is kept is copied once.
        if (program_.cached[index] != nullptr && !kept_.insert(program_.cached[index]).second) {
            return;
        }
        const TensorId ids = chosen_by(index_, copy);
        if (ids != kNoTensor && program_.cached[index] == nullptr) {
            read(index_[ids], object_of(ids), ids);
        }
        read(index_[copy.tensor], object_of(copy.tensor), copy.tensor);
        const Object object = program_.cached[index] != nullptr ? kGiven : object_of_copy(number);
        write(splits_.stand_in(copy, slot()), object, copy.tensor);
    }

    void touch_split(const Split& split) {
        for (const std::int32_t number : split.detours) {
            const Detour& detour = splits_.detours[static_cast<std::size_t>(number)];
            if (!detour.fetch_first) continue;
            read(index_[detour.node], object_of(detour.node), detour.node);
            write(stand_in_of(detour), object_of_detour(number), detour.node);
        }
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId node = splits_.order[static_cast<std::size_t>(at)];
            if (is_idle(index_, node)) continue;
            for (const auto source : index_.sources(node)) touch_source(split, at, node, source);
            const auto detour = std::ranges::find_if(split.detours, [&](std::int32_t number) {
                return splits_.detours[static_cast<std::size_t>(number)].position == at;
            });
            if (detour == split.detours.end()) {
                write(index_[node], object_of(node), node);
            } else {
                const Detour& found = splits_.detours[static_cast<std::size_t>(*detour)];
                write(stand_in_of(found), object_of_detour(*detour), node);
            }
        }
    }

    void touch_source(const Split& split, std::int32_t at, TensorId node,
                      GraphIndex::Source source) {
        if (source.tensor == node) return;  // a copy may name its own memory as the target
        if (const Patch* patch = patch_at(split, at, source.slot)) {
            const auto number = static_cast<std::size_t>(patch->copy);
            const Object object =
                program_.cached[number] != nullptr ? kGiven : object_of_copy(patch->copy);
            read(splits_.stand_in(splits_.copies[number], slot()), object, source.tensor);
            return;
        }
        read(index_[source.tensor], object_of(source.tensor), source.tensor);
        if (writes_source(index_, node, source.slot)) {
            write(index_[source.tensor], object_of(source.tensor), source.tensor);
        }
    }
    const Patch* patch_at(const Split& split, std::int32_t at, std::uint8_t slot) const {
        const auto patches = std::span(splits_.patches)
                                 .subspan(split.first_patch, split.last_patch - split.first_patch);
        const auto first = std::ranges::lower_bound(patches, at, {}, &Patch::position);
        for (auto patch = first; patch != patches.end() && patch->position == at; ++patch) {
            if (patch->slot == slot) return &*patch;
        }
        return nullptr;
    }

    /// Addresses of the host are the same for all; devices may use equal ones for their own.
    template <class Function>
    void visit(const Tensor& tensor, Function function) {
        Buffer* const buffer = root_buffer(tensor);
        const Buffer* const space = is_on_host(tensor) ? nullptr : buffer;
        const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
        if (begin == 0) return;
        spaces_[space].visit(begin, begin + byte_size(tensor), function);
    }

    void read(const Tensor& tensor, Object object, TensorId id) {
        visit(tensor, [&](Cell& cell) {
            if (object != kGiven && cell.object != object) {
                report(Hazard::kNoAction, id, " which is not there: ");
            }
            if (!comes_before(cell.writer, now_)) report(cell.writer, id, " beside its writer ");
            for (std::int32_t& reader : cell.readers) {
                if (queue_of(reader) != queue_of(now_)) continue;
                reader = now_;
                return;
            }
            cell.readers.push_back(now_);
        });
    }

    void write(const Tensor& tensor, Object object, TensorId id) {
        visit(tensor, [&](Cell& cell) {
            if (!comes_before(cell.writer, now_)) report(cell.writer, id, " beside a writer, ");
            for (const std::int32_t reader : cell.readers) {
                if (!comes_before(reader, now_)) report(reader, id, " beside a reader, ");
            }
            cell.readers.clear();
            cell.writer = now_;
            cell.object = object;
        });
    }

    // ---- words ---------------------------------------------------------------------------------

    std::string name_of_action(std::int32_t i) const {
        if (i == Hazard::kNoAction) return "the caller";
        const Action& action = action_at(i);
        return text("action ", i, " on ", team_[action.runner].name, suffix_of(action.queue));
    }

    void report(std::int32_t other, TensorId id, std::string_view how) {
        const std::int32_t first = other < 0 ? Hazard::kNoAction : other % (count_ + 1) - 1;
        if (found_.size() >= kEnough || !seen_.insert({first, action_, id}).second) return;
        Hazard hazard;
        hazard.first = first;
        hazard.second = action_;
        hazard.tensor = id;
        hazard.text =
            text(name_of_action(action_), " in run ", run_, " touches ", describe(index_[id]), how);
        hazard.text += other < 0 ? "nothing wrote it, or something else is in its memory"
                                 : text(name_of_action(first), " of run ", other / (count_ + 1));
        found_.push_back(std::move(hazard));
    }

    const GraphIndex& index_;
    Splits& splits_;
    const Program& program_;
    const Team& team_;
    const int slots_, runs_;
    const std::int32_t count_;
    const std::size_t queue_count_;

    /// Instances: in each run the caller, then the actions.
    std::vector<std::int32_t>
        clocks_;  ///< of each instance and queue: the last that comes before it
    std::vector<std::int32_t> latest_;  ///< of each queue
    std::map<const Buffer*, ByteMap<Cell>> spaces_;
    std::set<const ConstantCache::Entry*> kept_;
    std::set<std::tuple<std::int32_t, std::int32_t, TensorId>> seen_;
    std::vector<Hazard> found_;
    int run_ = 0;
    std::int32_t action_ = 0, now_ = 0;
};

}  // namespace

std::vector<Hazard> find_hazards(const GraphIndex& index, const Placement&, Splits& splits,
                                 const Program& program, const Team& team, int slots) {
    if (program.homes.size() != index.size()) return {};
    return Checker(index, splits, program, team, slots).run();
}

}  // namespace heddle::sched
