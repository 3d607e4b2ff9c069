#include "runtime/transfer.hpp"
#include "sched/submit/run.hpp"

namespace heddle::sched {
namespace {

bool in_host_memory(const Tensor& tensor) {
    Buffer* const buffer = root_buffer(tensor);
    return buffer != nullptr && is_host(*buffer) && !has_lost_memory(tensor, *buffer);
}

/// Failures before the last bits of a generation; neither ever gets so far.
constexpr int kWriteBits = 40;

}  // namespace

// ---- constants ---------------------------------------------------------------------------------

/// Never 0, and another number after every write and after every failure.
std::uint64_t Run::generation_of(const Tensor& constant) const {
    const Buffer* const buffer = root_buffer(constant);
    const std::uint64_t writes = buffer != nullptr ? write_generation(*buffer) : 0;
    return (state_.failures << kWriteBits) + writes + 1;
}

bool Run::is_up_to_date(const Action& action) const {
    const auto i = static_cast<std::size_t>(action.index);
    const ConstantCache::Entry* const entry = program_.cached[i];
    return entry != nullptr && entry->generation == generation_of(index_[splits_.copies[i].tensor]);
}

// ---- copies ------------------------------------------------------------------------------------

Result<> Run::copy(const Action& action) {
    const auto i = static_cast<std::size_t>(action.index);
    const Copy& copy = splits_.copies[i];
    const Tensor& source = (*wired_)[copy.tensor];
    Tensor& target = splits_.stand_in(copy, options_.slot);
    ++state_.copies_made;
    const auto done = [&]() -> Result<> {
        ConstantCache::Entry* const entry = program_.cached[i];
        if (entry == nullptr) {
            if (copy.chooser == kNoTensor || !in_host_memory(source)) {
                return copy_into(action, copy, source, target);
            }
            return copy_experts(action, source, target, state_.prepared.choosing[i]);
        }
        // Runs before this one may still read the old bytes.
        if (overlaps_) HEDDLE_TRY(state_.queues.wait_for_own(action.runner, action.queue, copy.to));
        const std::uint64_t generation = generation_of(source);
        entry->generation = 0;
        HEDDLE_TRY(copy_into(action, copy, source, target));
        entry->generation = generation;
        return ok();
    }();
    if (done) return ok();
    const std::string from = copy.from != kNoRunner ? team_[copy.from].name : "elsewhere";
    return Error(done.error())
        .within(text("copy of '", heddle::name_of(source), "' from ", from, " to ",
                     team_[copy.to].name));
}

Result<> Run::copy_into(const Action& action, const Copy& copy, const Tensor& source,
                        Tensor& target) {
    const std::size_t size = byte_size(source);
    if (size == 0) return ok();
    if (blocks(action)) return copy_tensor(source, target);
    if (overlaps_ && copy.from != kNoRunner && !state_.queues.blocks(copy.from)) {
        // Callers may have queued something on the source's stream.
        HEDDLE_TRY(state_.queues.wait_for_own(action.runner, action.queue, copy.from));
    }
    Stream& queue = stream_of(action);
    if (action.runner != copy.to) {
        if (!in_host_memory(target)) {
            return copy_tensor_async(queue, *team_[copy.to].stream, source, target);
        }
        return read_tensor_async(queue, source, target.data, 0, size);
    }
    if (in_host_memory(source)) return write_tensor_async(queue, target, source.data, 0, size);
    if (copy.from == kNoRunner) {
        HEDDLE_TRY(heddle::finish(queue));
        return copy_tensor(source, target);
    }
    if (state_.queues.blocks(copy.from)) {
        return copy_tensor_async(*team_[copy.from].stream, queue, source, target);
    }
    // Either of the two streams may be the one that does it, so both wait.
    if (state_.queues.enter(copy.from, Queue::download)) {
        HEDDLE_TRY(wait_for_last_run(copy.from, Queue::download));
    }
    if (overlaps_) {
        // What is kept has one place for all slots, which the last run may still be reading.
        const bool is_kept = program_.cached[static_cast<std::size_t>(action.index)] != nullptr;
        HEDDLE_TRY(is_kept ? state_.queues.wait_for_own(copy.from, Queue::download, copy.to)
                           : state_.queues.wait_for_slot(copy.from, Queue::download, copy.to,
                                                         options_.slot));
        HEDDLE_TRY(state_.queues.wait_for_own(copy.from, Queue::download, copy.from));
    }
    HEDDLE_TRY(wait_for_others(action, copy.from, Queue::download));
    Stream& from = state_.queues.stream(copy.from, Queue::download);
    return copy_tensor_async(from, queue, source, target);
}

/// Only the experts that are going to be asked; the others' bytes stay as they are.
Result<> Run::copy_experts(const Action& action, const Tensor& source, Tensor& target,
                           const Prepared::Choosing& choosing) {
    const Tensor& ids =
        choosing.copy < 0
            ? (*wired_)[choosing.ids]
            : splits_.stand_in(splits_.copies[static_cast<std::size_t>(choosing.copy)],
                               options_.slot);
    if (choosing.producer >= 0) {
        HEDDLE_TRY(
            wait_on_host(state_.prepared.marks[static_cast<std::size_t>(choosing.producer)]));
    } else if (!in_host_memory(ids) && !blocks(action)) {
        HEDDLE_TRY(heddle::finish(stream_of(action)));  // callers may just have written them
    }
    HEDDLE_TRY_ASSIGN(const auto* const is_used,
                      state_.experts.of(choosing.ids, ids, source.ne[2]));
    used_ranges(source, *is_used, state_.ranges);
    const auto* const bytes = static_cast<const std::byte*>(source.data);
    for (const auto& [offset, count] : state_.ranges) {
        if (blocks(action)) {
            HEDDLE_TRY(write_tensor(target, bytes + offset, offset, count));
        } else {
            HEDDLE_TRY(
                write_tensor_async(stream_of(action), target, bytes + offset, offset, count));
        }
    }
    return ok();
}

// ---- back --------------------------------------------------------------------------------------

Result<> Run::write_back(const Action& action) {
    const Detour& detour = splits_.detours[static_cast<std::size_t>(action.index)];
    const Tensor& source = splits_.stand_ins[static_cast<std::size_t>(detour.stand_in)];
    Tensor& target = (*wired_)[detour.node];
    const RunnerId from = splits_.splits[static_cast<std::size_t>(detour.split)].runner;
    const std::size_t size = byte_size(source);
    if (size == 0) return ok();
    const auto done = [&]() -> Result<> {
        if (blocks(action)) return copy_tensor(source, target);
        Stream& queue = stream_of(action);
        if (action.runner == from && in_host_memory(target)) {
            return read_tensor_async(queue, source, target.data, 0, size);
        }
        if (action.runner != from && in_host_memory(source)) {
            return write_tensor_async(queue, target, source.data, 0, size);
        }
        HEDDLE_TRY(heddle::finish(queue));
        HEDDLE_TRY(heddle::finish(*team_[from].stream));
        return copy_tensor(source, target);
    }();
    if (done) return ok();
    return Error(done.error())
        .within(text("copy of '", heddle::name_of(target), "' from ", team_[from].name,
                     " back to its own memory"));
}

}  // namespace heddle::sched
