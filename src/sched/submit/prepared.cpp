#include "sched/submit/prepared.hpp"

#include <algorithm>

namespace heddle::sched {
namespace {

class Preparation {
public:
    Preparation(const GraphIndex& index, Splits& splits, const Program& program, const Team& team)
        : index_(index), splits_(splits), program_(program), team_(team) {}

    Prepared run(Prepared old) {
        const std::size_t count = program_.actions.size();
        made_.serial = program_.serial;
        made_.is_marked.assign(count, 0);
        made_.used.assign(team_.size(), 0);
        made_.can_use_threads = program_.wants_threads;
        last_taker_.assign(team_.size() * kQueues, -1);
        last_out_.assign(team_.size() * kQueues * team_.size(), -1);
        for (std::size_t i = 0; i < count; ++i) look_at(static_cast<std::int32_t>(i));
        list_choices();
        list_takers();
        list_copies_out();
        make_marks(std::move(old));
        return std::move(made_);
    }

private:
    const Action& action(std::int32_t i) const {
        return program_.actions[static_cast<std::size_t>(i)];
    }
    std::size_t queue_of(const Action& action) const {
        return number_of(action.runner, action.queue);
    }
    bool is_async(const Action& action) const { return team_[action.runner].is_async; }
    void use(RunnerId runner) {
        if (runner != kNoRunner) made_.used[static_cast<std::size_t>(runner)] = 1;
    }
    void mark(std::int32_t i) { made_.is_marked[static_cast<std::size_t>(i)] = 1; }

    bool on_host(const Buffer* buffer) {
        if (buffer != asked_) {
            asked_ = buffer;
            answer_ = buffer != nullptr && is_host(*buffer->buft);
        }
        return answer_;
    }

    void look_at(std::int32_t i) {
        const Action& each = action(i);
        use(each.runner);
        if (each.awaited) mark_async(i);
        if (each.kind == Action::Kind::copy) {
            look_at_copy(i, splits_.copies[static_cast<std::size_t>(each.index)]);
        } else if (each.kind == Action::Kind::compute && is_async(each)) {
            const Split& split = splits_.splits[static_cast<std::size_t>(each.index)];
            if (reads_host(split)) last_taker_[queue_of(each)] = i;
        } else if (each.kind == Action::Kind::write_back) {
            // It reads or writes memory of the host that leafs of the caller may share.
            if (is_async(each)) last_taker_[queue_of(each)] = i;
            made_.can_use_threads = false;
        }
    }

    void look_at_copy(std::int32_t i, const Copy& copy) {
        const Action& each = action(i);
        use(copy.from);
        use(copy.to);
        const RunnerId other = each.runner == copy.to ? copy.from : copy.to;
        const bool is_other_async = other != kNoRunner && team_[other].is_async;
        const bool is_other_far = other == kNoRunner || !team_[other].on_host;
        if (is_async(each) ? !is_other_async && is_other_far : is_other_async) {
            made_.can_use_threads = false;
        }
        if (!is_async(each)) {
            if (copy.chooser != kNoTensor) made_.can_use_threads = false;
            return;
        }
        if (copy.kind != Copy::Kind::constant && on_host(root_buffer(index_[copy.tensor]))) {
            last_taker_[queue_of(each)] = i;
        }
        if (copy.from != kNoRunner) {
            last_out_[queue_of(each) * team_.size() + static_cast<std::size_t>(copy.from)] = i;
        }
    }

    /// Whether the split reads, where it is, memory of the host that is no weight.
    bool reads_host(const Split& split) {
        std::uint32_t patch = split.first_patch;
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId node = splits_.order[static_cast<std::size_t>(at)];
            if (index_.is_view(node)) continue;
            for (const GraphIndex::Source& source : index_.sources(node)) {
                if (is_patched(at, source.slot, patch, split.last_patch)) continue;
                const Buffer* const buffer = memory_of(index_.root(source.tensor));
                if (on_host(buffer) && buffer->usage != GGML_BACKEND_BUFFER_USAGE_WEIGHTS) {
                    return true;
                }
            }
        }
        return false;
    }

    /// Patches come in the order of positions; `patch` moves on to those of `position`.
    bool is_patched(std::int32_t position, std::uint8_t slot, std::uint32_t& patch,
                    std::uint32_t last) const {
        while (patch < last && splits_.patches[patch].position < position) ++patch;
        for (std::uint32_t p = patch; p < last && splits_.patches[p].position == position; ++p) {
            if (splits_.patches[p].slot == slot) return true;
        }
        return false;
    }

    const Buffer* memory_of(TensorId root) const {
        const Home& home = program_.homes[static_cast<std::size_t>(root)];
        return home.buffer != nullptr ? home.buffer : index_.facts(root).buffer;
    }

    // ---- experts -------------------------------------------------------------------------------

    void list_choices() {
        for (std::size_t k = 0; k < splits_.copies.size(); ++k) {
            const Copy& copy = splits_.copies[k];
            if (copy.chooser == kNoTensor || program_.cached[k] != nullptr) continue;
            made_.choosing.resize(splits_.copies.size());
            made_.choosing[k] = choice_for(copy, program_.action_of_copy[k]);
            if (made_.choosing[k].producer >= 0) mark_async(made_.choosing[k].producer);
        }
    }

    Prepared::Choosing choice_for(const Copy& copy, std::int32_t at) const {
        Prepared::Choosing choice;
        for (const GraphIndex::Source& source : index_.sources(copy.chooser)) {
            if (source.slot == 2) choice.ids = source.tensor;  // of MUL_MAT_ID
        }
        const Split& split = splits_.splits[static_cast<std::size_t>(copy.split)];
        for (std::uint32_t p = split.first_patch; p < split.last_patch; ++p) {
            const Patch& patch = splits_.patches[p];
            if (patch.original != choice.ids) continue;
            const std::int32_t made = program_.action_of_copy[static_cast<std::size_t>(patch.copy)];
            if (made >= at) continue;
            choice.copy = patch.copy;
            choice.producer = made;
            return choice;
        }
        for (std::int32_t s = copy.split - 1; s >= 0 && choice.producer < 0; --s) {
            if (writes(splits_.splits[static_cast<std::size_t>(s)], index_.root(choice.ids))) {
                choice.producer = program_.action_of_split[static_cast<std::size_t>(s)];
            }
        }
        return choice;
    }

    bool writes(const Split& split, TensorId root) const {
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId node = splits_.order[static_cast<std::size_t>(at)];
            if (index_.root(node) == root && !index_.is_view(node)) return true;
        }
        return false;
    }

    void mark_async(std::int32_t i) {
        if (is_async(action(i))) mark(i);
    }

    // ---- lists ---------------------------------------------------------------------------------

    void list_takers() {
        for (const std::int32_t i : last_taker_) {
            if (i < 0) continue;
            made_.takers.push_back(i);
            mark(i);
        }
    }

    void list_copies_out() {
        if (!program_.overlaps_runs) return;
        for (std::size_t k = 0; k < last_out_.size(); ++k) {
            if (last_out_[k] < 0) continue;
            made_.copies_out.push_back({static_cast<RunnerId>(k % team_.size()), last_out_[k]});
            mark(last_out_[k]);
        }
    }

    void make_marks(Prepared old) {
        made_.marks.resize(program_.actions.size());
        std::vector<OwnedEvent> spare;
        for (Mark& each : old.marks) {
            if (each.event != nullptr) spare.push_back(std::move(each.event));
        }
        for (std::size_t i = 0; i < made_.marks.size(); ++i) {
            if (made_.is_marked[i] == 0) continue;
            const Runner& runner = team_[program_.actions[i].runner];
            while (!spare.empty() && spare.back()->device != runner.device) spare.pop_back();
            if (spare.empty()) {
                made_.marks[i] = make_mark(runner);
            } else {
                made_.marks[i].event = std::move(spare.back());
                spare.pop_back();
            }
            if (made_.marks[i].event == nullptr) made_.can_use_threads = false;
        }
    }

    const GraphIndex& index_;
    Splits& splits_;
    const Program& program_;
    const Team& team_;
    Prepared made_;
    std::vector<std::int32_t> last_taker_;  ///< of each queue
    std::vector<std::int32_t> last_out_;    ///< of each queue and runner
    const Buffer* asked_ = nullptr;
    bool answer_ = false;
};

}  // namespace

Prepared prepare(const GraphIndex& index, Splits& splits, const Program& program, const Team& team,
                 Prepared old) {
    return Preparation(index, splits, program, team).run(std::move(old));
}

}  // namespace heddle::sched
