#include <algorithm>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/tensor.hpp"
#include "runtime/buffer.hpp"
#include "sched/explain/stages.hpp"

namespace heddle::sched {
namespace {

/// Steps in which memory is needed; none yet if `last` is before `first`.
struct Life {
    int first = 0, last = -1;

    void include(int step) {
        first = last < first ? step : std::min(first, step);
        last = std::max(last, step);
    }
};

/// Follows the program and notes when each tensor is written and read. Planning counts in smaller
/// steps; this is how it looks from outside, and holds for graphs that reuse a plan as well.
class MemoryMap {
public:
    MemoryMap(const Scheduler::View& view, const Schedule& schedule)
        : view_(view),
          schedule_(schedule),
          tensors_(view.index.size()),
          stand_ins_(view.splits.stand_ins.size()),
          is_read_(view.index.size(), false) {}

    std::vector<Schedule::BlockInfo> make() {
        const auto count = static_cast<TensorId>(view_.index.size());
        for (TensorId id = 0; id < count; ++id) {
            // Leafs are filled before the run begins.
            if (!view_.index.is_node(id)) life(id).include(0);
        }
        for (std::size_t i = 0; i < view_.program.actions.size(); ++i) follow(i);
        keep_results();
        add_tensors();
        add_stand_ins();
        return merged();
    }

private:
    Life& life(TensorId id) { return tensors_[static_cast<std::size_t>(view_.index.root(id))]; }
    Life& stand_in_life(std::int32_t number) {
        return stand_ins_[static_cast<std::size_t>(number)];
    }

    void read(TensorId id, int step) {
        life(id).include(step);
        is_read_[static_cast<std::size_t>(id)] = true;
    }

    void follow(std::size_t number) {
        const Action& action = view_.program.actions[number];
        const int step = schedule_.actions[number].first_step;
        const auto i = static_cast<std::size_t>(action.index);
        if (action.kind == Action::Kind::copy) {
            const Copy& copy = view_.splits.copies[i];
            read(copy.tensor, step);
            stand_in_life(copy.first_stand_in).include(step);
        } else if (action.kind == Action::Kind::write_back) {
            const Detour& detour = view_.splits.detours[i];
            stand_in_life(detour.stand_in).include(step);
            life(detour.node).include(step);
        } else {
            follow_split(view_.splits.splits[i], step);
        }
    }

    void follow_split(const Split& split, int first_step) {
        const Splits& splits = view_.splits;
        std::uint32_t patch = split.first_patch;
        for (std::int32_t at = split.begin; at < split.end; ++at) {
            const TensorId id = splits.order[static_cast<std::size_t>(at)];
            const int step = first_step + (at - split.begin);
            if (!view_.index.is_view(id)) life(id).include(step);
            std::uint32_t patched_slots = 0;  // read from a copy instead of the original
            for (; patch < split.last_patch && splits.patches[patch].position == at; ++patch) {
                const auto copy = static_cast<std::size_t>(splits.patches[patch].copy);
                stand_in_life(splits.copies[copy].first_stand_in).include(step);
                patched_slots |= 1u << splits.patches[patch].slot;
            }
            for (const auto source : view_.index.sources(id)) {
                if ((patched_slots >> source.slot & 1) == 0) read(source.tensor, step);
            }
        }
        for (const std::int32_t number : split.detours) {
            const Detour& detour = splits.detours[static_cast<std::size_t>(number)];
            stand_in_life(detour.stand_in).include(first_step + detour.position - split.begin);
        }
    }

    /// Outputs, and what no node reads, are for the caller: they stay.
    void keep_results() {
        const auto count = static_cast<TensorId>(view_.index.size());
        for (TensorId id = 0; id < count; ++id) {
            const bool output = (view_.index[id].flags & GGML_TENSOR_FLAG_OUTPUT) != 0;
            if (output || (view_.index.is_node(id) && !is_read_[static_cast<std::size_t>(id)])) {
                life(id).include(schedule_.steps - 1);
            }
        }
    }

    void add_tensors() {
        const auto count =
            static_cast<TensorId>(std::min(view_.index.size(), view_.program.homes.size()));
        for (TensorId id = 0; id < count; ++id) {
            const Home& home = view_.program.homes[static_cast<std::size_t>(id)];
            if (home.buffer == nullptr || view_.index.root(id) != id) continue;
            add(view_.index[id], *home.buffer, home.data, life(id));
        }
    }

    void add_stand_ins() {
        for (const Copy& copy : view_.splits.copies) {
            for (std::int32_t slot = 0; slot < copy.stand_ins; ++slot) {
                // With several slots another run may need them at any time.
                const Life always{0, schedule_.steps - 1};
                add_stand_in(copy.first_stand_in + slot,
                             copy.stand_ins > 1 ? always : stand_in_life(copy.first_stand_in));
            }
        }
        for (const Detour& detour : view_.splits.detours) {
            add_stand_in(detour.stand_in, stand_in_life(detour.stand_in));
        }
    }
    void add_stand_in(std::int32_t number, const Life& life) {
        const Tensor& tensor = view_.splits.stand_ins[static_cast<std::size_t>(number)];
        if (tensor.buffer != nullptr) add(tensor, *tensor.buffer, tensor.data, life);
    }

    void add(const Tensor& tensor, Buffer& buffer, void* data, const Life& life) {
        if (life.last < life.first) return;
        for (RunnerId runner = 0; runner <= view_.team.last(); ++runner) {
            const std::span<const OwnedBuffer> chunks = view_.memory.chunks(runner);
            for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
                if (chunks[chunk].get() != &buffer) continue;
                const auto base = base_of(buffer);
                if (!base) return;
                blocks_.push_back({.device = runner,
                                   .chunk = static_cast<int>(chunk),
                                   .offset = static_cast<std::size_t>(static_cast<char*>(data) -
                                                                      static_cast<char*>(*base)),
                                   .size = byte_size(tensor),
                                   .first = life.first,
                                   .last = life.last,
                                   .tensors = std::string(heddle::name_of(tensor))});
                return;
            }
        }
    }

    /// Results that took over the memory of a source go on with its block.
    std::vector<Schedule::BlockInfo> merged() {
        const auto order = [](const Schedule::BlockInfo& block) {
            return std::tie(block.device, block.chunk, block.offset, block.first, block.last);
        };
        std::sort(blocks_.begin(), blocks_.end(),
                  [&](const auto& a, const auto& b) { return order(a) < order(b); });
        constexpr int kNamed = 6;
        std::vector<Schedule::BlockInfo> result;
        int names = 0;
        for (Schedule::BlockInfo& block : blocks_) {
            Schedule::BlockInfo* const last = result.empty() ? nullptr : &result.back();
            const bool goes_on = last != nullptr && last->device == block.device &&
                                 last->chunk == block.chunk && last->offset == block.offset &&
                                 block.first <= last->last;
            if (!goes_on) {
                result.push_back(std::move(block));
                names = 1;
                continue;
            }
            last->last = std::max(last->last, block.last);
            last->size = std::max(last->size, block.size);
            if (++names <= kNamed) last->tensors += ", " + block.tensors;
            if (names == kNamed + 1) last->tensors += ", ...";
        }
        return result;
    }

    const Scheduler::View& view_;
    const Schedule& schedule_;
    std::vector<Life> tensors_, stand_ins_;
    std::vector<bool> is_read_;
    std::vector<Schedule::BlockInfo> blocks_;
};

}  // namespace

std::vector<Schedule::BlockInfo> map_memory(const Scheduler::View& view, const Schedule& schedule) {
    return MemoryMap(view, schedule).make();
}

}  // namespace heddle::sched
