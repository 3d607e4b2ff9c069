#include "sched/split.hpp"

#include <algorithm>
#include <cstring>

#include "ggml/op_list.h"
#include "ops/optimizer.hpp"
#include "runtime/buffer.hpp"
#include "sched/reorder.hpp"

namespace heddle::sched {
namespace {

constexpr std::int32_t kNoCopy = -1;
constexpr std::uint8_t kExpertsSlot = 0, kIdsSlot = 2;  // of MUL_MAT_ID

/// "<runner>#<tensor>#<slot>". A name that is too long loses its end, not the slot: programs look
/// for what is between the marks.
void name_stand_in(Tensor& stand_in, std::string_view runner, const Tensor& original, int slot) {
    const std::string number = std::to_string(slot);
    char* to = stand_in.name;
    char* const end = stand_in.name + sizeof stand_in.name - number.size() - 2;
    const auto put = [&](std::string_view part, const char* limit) {
        const auto n = std::min(part.size(), static_cast<std::size_t>(limit - to));
        std::memcpy(to, part.data(), n);
        to += n;
    };
    put(runner, end - 1);
    *to++ = '#';
    put(heddle::name_of(original), end);
    *to++ = '#';
    put(number, stand_in.name + sizeof stand_in.name - 1);
    *to = '\0';
}

/// A tensor of the same layout, in no memory yet.
void take_layout(Tensor& stand_in, const Tensor& original) {
    stand_in.type = original.type;
    std::copy_n(original.ne, kMaxDims, stand_in.ne);
    std::copy_n(original.nb, kMaxDims, stand_in.nb);
}

/// Makes the stand-in of a detour compute what the node does.
void take_work(Tensor& stand_in, const Tensor& node) {
    stand_in.op = node.op;
    std::memcpy(stand_in.op_params, node.op_params, sizeof node.op_params);
    for (int slot = 0; slot < kMaxSources; ++slot) {
        // Casts have themselves as the place to copy to.
        stand_in.src[slot] = node.src[slot] == &node ? &stand_in : node.src[slot];
    }
    stand_in.flags = node.flags & GGML_TENSOR_FLAG_COMPUTE;
}

/// Walks the nodes once and cuts.
class Splitter {
public:
    Splitter(Abilities& abilities, const Placement& placement, int slots)
        : abilities_(abilities),
          index_(abilities.index()),
          placement_(placement),
          slots_(slots),
          runners_(abilities.team().size()),
          reach_(index_.size() * runners_),
          copy_of_(index_.size() * runners_, kNoCopy),
          last_write_(index_.size(), -1) {}

    Result<Splits> run() {
        for (const Runner& runner : abilities_.team().runners()) {
            made_.runner_names.push_back(runner.name);
        }
        made_.order.assign(index_.nodes().begin(), index_.nodes().end());
        count_ = static_cast<std::int32_t>(made_.order.size());
        if (count_ == 0) return std::move(made_);
        made_.patches.reserve(64);
        for (position_ = 0; position_ < count_; ++position_) HEDDLE_TRY(take(made_.order[at()]));
        if (made_.splits.empty()) open(std::max(placement_[made_.order[0]].runner, RunnerId{0}));
        close(count_);
        return std::move(made_);
    }

private:
    /// What is known of a copy beyond what others need.
    struct CopyState {
        std::int32_t version;           ///< where its memory had been written last
        TensorId ids = kNoTensor;       ///< of the chooser
        std::int32_t ids_version = -1;  ///< where those had been written last
    };

    std::size_t at() const { return static_cast<std::size_t>(position_); }
    std::size_t pair(TensorId tensor, RunnerId runner) const {
        return static_cast<std::size_t>(tensor) * runners_ + static_cast<std::size_t>(runner);
    }
    std::int32_t& last_write(TensorId root) { return last_write_[static_cast<std::size_t>(root)]; }
    Split& current() { return made_.splits.back(); }
    bool written_in_split(TensorId root) {
        return !made_.splits.empty() && last_write(root) >= current().begin;
    }

    /// Whether nothing is computed: a look at memory, or a parameter in the list of nodes.
    bool is_idle(TensorId id) const {
        return index_.is_view(id) || index_.facts(id).op == GGML_OP_NONE;
    }

    Result<> take(TensorId id) {
        if (is_idle(id)) return ok();
        const Choice& choice = placement_[id];
        if (choice.runner == kNoRunner) {
            return failure(Errc::unsupported, "no runner was chosen for ", describe(index_[id]));
        }
        runner_ = choice.runner;
        const bool all_here = reaches_sources(id);
        const bool is_detour = !reaches_own_memory(id);
        if (made_.splits.empty() || current().runner != runner_ ||
            ((!all_here || is_detour) && wants_new_split(id, is_detour))) {
            open(runner_);
        }
        if (!all_here) HEDDLE_TRY(bring_sources(id));
        if (is_detour) add_detour(id);
        note_writes(id);
        return ok();
    }

    /// Begins a split at this position; views in front belong to the first.
    void open(RunnerId runner) {
        const std::int32_t begin = made_.splits.empty() ? 0 : position_;
        if (!made_.splits.empty()) close(begin);
        Split& split = made_.splits.emplace_back();
        split.runner = runner;
        split.begin = begin;
        split.first_patch = static_cast<std::uint32_t>(made_.patches.size());
        detoured_.clear();
    }
    void close(std::int32_t end) {
        current().end = end;
        current().last_patch = static_cast<std::uint32_t>(made_.patches.size());
    }

    /// Whether the runner at work can use the memory of `root`. Asked once for each.
    bool reaches(TensorId root) {
        std::uint8_t& known = reach_[pair(root, runner_)];
        if (known == 0) {
            const Choice& choice = placement_[root];
            // Results without memory go to their runner: no need to look at the tensor. Parameters
            // are nodes too, and have memory that their runner may not reach.
            const bool own_result = choice.runner == runner_ && index_.is_node(root) &&
                                    index_.facts(root).op != GGML_OP_NONE &&
                                    choice.rule != Rule::pinned && choice.rule != Rule::away;
            known = own_result || abilities_.can_reach(runner_, root, placement_) ? 2 : 1;
        }
        return known == 2;
    }
    bool reaches_sources(TensorId id) {
        for (const auto source : index_.sources(id)) {
            if (!reaches(index_.root(source.tensor))) return false;
        }
        return true;
    }
    bool reaches_own_memory(TensorId id) { return reaches(index_.root(id)); }

    std::int32_t valid_copy(TensorId tensor, TensorId root) {
        const std::int32_t copy = copy_of_[pair(tensor, runner_)];
        if (copy == kNoCopy) return kNoCopy;
        return states_[static_cast<std::size_t>(copy)].version == last_write(root) ? copy : kNoCopy;
    }

    bool wants_new_split(TensorId id, bool is_detour) {
        const auto detoured = [&](TensorId root) {
            return std::find(detoured_.begin(), detoured_.end(), root) != detoured_.end();
        };
        // What a detour wrote is there when its split has run.
        if (is_detour && detoured(index_.root(id))) return true;
        for (const auto source : index_.sources(id)) {
            const TensorId root = index_.root(source.tensor);
            if (reaches(root)) continue;
            if (detoured(root)) return true;
            if (!is_weight(root) || valid_copy(source.tensor, root) != kNoCopy) continue;
            // The weights of each split take the place of those of the last.
            if (!current().inputs.empty()) return true;
            // Once the ids are known only the experts they name are copied.
            const TensorId ids = ids_of(id, source, root);
            if (ids != kNoTensor && written_in_split(index_.root(ids))) return true;
        }
        return false;
    }

    bool is_weight(TensorId root) const {
        const Buffer* buffer = index_.facts(root).buffer;
        return buffer != nullptr && buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
    }

    /// The ids that choose what the node reads of this source; kNoTensor if it may read all of it.
    TensorId ids_of(TensorId id, GraphIndex::Source source, TensorId root) const {
        if (source.slot != kExpertsSlot || index_.facts(id).op != GGML_OP_MUL_MAT_ID)
            return kNoTensor;
        if (!is_weight(root) || !is_host(*index_.facts(root).buffer)) return kNoTensor;
        for (const auto other : index_.sources(id)) {
            if (other.slot == kIdsSlot) return other.tensor;
        }
        return kNoTensor;
    }

    Result<> bring_sources(TensorId id) {
        for (const auto source : index_.sources(id)) {
            const TensorId root = index_.root(source.tensor);
            if (reaches(root) || source.tensor == id) continue;
            if (writes_source(id, source.slot)) {
                return failure(Errc::unsupported, describe(index_[id]), " on ",
                               made_.runner_names[static_cast<std::size_t>(runner_)], " changes ",
                               describe(index_[source.tensor]), ", which is not in its memory");
            }
            std::int32_t copy = valid_copy(source.tensor, root);
            const TensorId ids = ids_of(id, source, root);
            if (copy != kNoCopy && !can_share(copy, ids)) copy = kNoCopy;
            if (copy == kNoCopy) copy = add_copy(id, source.tensor, root, ids);
            made_.patches.push_back({position_, copy, source.tensor, source.slot});
        }
        return ok();
    }

    /// Whether a copy that is up to date has what a further reader needs. In the split that it is
    /// made for it can still be made to.
    bool can_share(std::int32_t number, TensorId ids) {
        Copy& copy = made_.copies[static_cast<std::size_t>(number)];
        if (copy.chooser == kNoTensor) return true;
        const CopyState& state = states_[static_cast<std::size_t>(number)];
        if (ids == state.ids && state.ids_version == last_write(index_.root(ids))) return true;
        if (copy.split + 1 != static_cast<std::int32_t>(made_.splits.size())) return false;
        copy.chooser = kNoTensor;
        return true;
    }

    std::int32_t add_copy(TensorId reader, TensorId tensor, TensorId root, TensorId ids) {
        const Tensor& original = index_[tensor];
        Copy copy;
        copy.tensor = tensor;
        copy.from = memory_owner(root);
        copy.to = runner_;
        copy.kind = kind_of(tensor, root);
        copy.split = static_cast<std::int32_t>(made_.splits.size() - 1);
        copy.first_stand_in = static_cast<std::int32_t>(made_.stand_ins.size());
        copy.stand_ins = copy.kind == Copy::Kind::constant ? 1 : slots_;
        copy.bytes = byte_size(original);
        CopyState state{.version = last_write(root)};
        if (state.version >= 0) {
            copy.writer = made_.order[static_cast<std::size_t>(state.version)];
        }
        if (ids != kNoTensor && copy.kind == Copy::Kind::constant &&
            !written_in_split(index_.root(ids))) {
            copy.chooser = reader;
            state.ids = ids;
            state.ids_version = last_write(index_.root(ids));
        }
        for (int slot = 0; slot < copy.stand_ins; ++slot) {
            Tensor& stand_in = made_.stand_ins.emplace_back();
            take_layout(stand_in, original);
            stand_in.flags = original.flags & GGML_TENSOR_FLAG_PARAM;  // optimiser steps ask for it
            if (copy.stand_ins > 1) {
                stand_in.flags |= GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT;
            }
            name_stand_in(stand_in, made_.runner_names[static_cast<std::size_t>(runner_)], original,
                          slot);
        }
        const auto number = static_cast<std::int32_t>(made_.copies.size());
        made_.copies.push_back(copy);
        states_.push_back(state);
        current().inputs.push_back(number);
        copy_of_[pair(tensor, runner_)] = number;
        return number;
    }

    /// Whose memory `root` is in, or will be.
    RunnerId memory_owner(TensorId root) const {
        const Choice& choice = placement_[root];
        return index_.facts(root).buffer != nullptr ? choice.home : choice.runner;
    }

    Copy::Kind kind_of(TensorId tensor, TensorId root) {
        if (last_write(root) >= 0) return Copy::Kind::value;
        const auto& memory = index_.facts(root);
        if (((index_.facts(tensor).flags | memory.flags) & GGML_TENSOR_FLAG_INPUT) != 0) {
            return Copy::Kind::input;
        }
        // A leaf that gets its memory from us is filled by the caller before each run.
        if (memory.buffer == nullptr) return Copy::Kind::input;
        if (is_written(root)) return Copy::Kind::value;
        if (is_weight(root)) return Copy::Kind::constant;
        // Other host memory may be written through pointers as soon as the call returns; other
        // memory of devices by graphs that others run, which its buffer does not count.
        return is_host(*memory.buffer) ? Copy::Kind::input : Copy::Kind::value;
    }

    /// Whether any node of the graph writes the memory of `root`, also later ones.
    bool is_written(TensorId root) {
        if (written_.empty()) {
            written_.resize(index_.size());
            for (const TensorId node : index_.nodes()) {
                if (is_idle(node)) continue;
                written_[static_cast<std::size_t>(index_.root(node))] = true;
                for_each_written_source(node, [&](TensorId written) {
                    written_[static_cast<std::size_t>(written)] = true;
                });
            }
        }
        return written_[static_cast<std::size_t>(root)];
    }

    /// The one op that changes sources it is no view of.
    bool writes_source(TensorId id, std::uint8_t slot) const {
        using Step = ops::OptStepAdamw;
        return (slot == Step::kFirstMoment || slot == Step::kSecondMoment) &&
               index_.facts(id).op == Step::id;
    }
    template <class Function>
    void for_each_written_source(TensorId id, Function function) const {
        const auto sources = index_.sources(id);
        if (sources.size() < ops::OptStepAdamw::sources.size()) return;
        for (const auto source : sources) {
            if (writes_source(id, source.slot)) function(index_.root(source.tensor));
        }
    }
    void note_writes(TensorId id) {
        last_write(index_.root(id)) = position_;
        for_each_written_source(id, [&](TensorId root) { last_write(root) = position_; });
    }

    void add_detour(TensorId id) {
        const Tensor& node = index_[id];
        Detour detour;
        detour.node = id;
        detour.position = position_;
        detour.stand_in = static_cast<std::int32_t>(made_.stand_ins.size());
        detour.split = static_cast<std::int32_t>(made_.splits.size() - 1);
        // Of memory that is not all its own a node may write only some, or leave gaps.
        detour.fetch_first = index_.root(id) != id || !is_contiguously_allocated(node);
        Tensor& stand_in = made_.stand_ins.emplace_back();
        take_layout(stand_in, node);
        take_work(stand_in, node);
        name_stand_in(stand_in, made_.runner_names[static_cast<std::size_t>(runner_)], node, 0);
        current().detours.push_back(static_cast<std::int32_t>(made_.detours.size()));
        made_.detours.push_back(detour);
        detoured_.push_back(index_.root(id));
    }

    Abilities& abilities_;
    const GraphIndex& index_;
    const Placement& placement_;
    const int slots_;
    const std::size_t runners_;

    std::vector<std::uint8_t> reach_;       ///< of each root and runner: 0 not asked, 1 no, 2 yes
    std::vector<std::int32_t> copy_of_;     ///< of each tensor and runner: the latest
    std::vector<std::int32_t> last_write_;  ///< of each root: position; -1: not yet
    std::vector<CopyState> states_;         ///< of each copy
    std::vector<TensorId> detoured_;        ///< roots that the current split writes by detours
    std::vector<bool> written_;             ///< of each root; empty until it is asked for

    Splits made_;
    std::int32_t position_ = 0, count_ = 0;
    RunnerId runner_ = kNoRunner;
};

/// Kilobytes or megabytes, never 0 for something.
std::string size_text(std::size_t bytes) {
    constexpr std::size_t kKilo = 1024, kMega = kKilo * kKilo;
    if (bytes < kMega) return std::to_string((bytes + kKilo - 1) / kKilo) + "K";
    return std::to_string((bytes + kMega - 1) / kMega) + "M";
}

}  // namespace

Result<Splits> split(Abilities& abilities, const Placement& placement, int slots) {
    if (slots < 1) return invalid("a scheduler needs at least 1 slot for copies, not ", slots);
    HEDDLE_TRY_ASSIGN(Splits splits, Splitter(abilities, placement, slots).run());
    reorder(splits, abilities.index(), abilities.team());
    return splits;
}

void rebind(Splits& splits, const GraphIndex& index) {
    for (const auto& wired : splits.wired) {
        if (wired != nullptr) wired->take_names(index);
    }
    const auto name_of_runner = [&](RunnerId runner) -> std::string_view {
        return splits.runner_names[static_cast<std::size_t>(runner)];
    };
    for (const Copy& copy : splits.copies) {
        for (int slot = 0; slot < copy.stand_ins; ++slot) {
            name_stand_in(splits.stand_in(copy, slot), name_of_runner(copy.to), index[copy.tensor],
                          slot);
        }
    }
    for (const Detour& detour : splits.detours) {
        Tensor& stand_in = splits.stand_ins[static_cast<std::size_t>(detour.stand_in)];
        const Split& split = splits.splits[static_cast<std::size_t>(detour.split)];
        take_work(stand_in, index[detour.node]);
        name_stand_in(stand_in, name_of_runner(split.runner), index[detour.node], 0);
    }
}

Splits unwired(const Splits& splits) {
    return {.order = splits.order,
            .splits = splits.splits,
            .copies = splits.copies,
            .detours = splits.detours,
            .patches = splits.patches,
            .runner_names = splits.runner_names,
            .stand_ins = splits.stand_ins,
            .wired = {}};
}

std::string to_text(const Splits& splits, const GraphIndex& index, const Team& team) {
    std::string out;
    for (std::size_t i = 0; i < splits.splits.size(); ++i) {
        const Split& split = splits.splits[i];
        out += text("split ", i, ": ", team[split.runner].name, ", ", split.end - split.begin,
                    " nodes, ", split.inputs.size(), " inputs");
        if (!split.inputs.empty()) out += ':';
        for (const std::int32_t number : split.inputs) {
            const Copy& copy = splits.copies[static_cast<std::size_t>(number)];
            out +=
                text(" [", heddle::name_of(index[copy.tensor]), " (", size_text(copy.bytes), ")]");
        }
        out += '\n';
    }
    return out;
}

}  // namespace heddle::sched
