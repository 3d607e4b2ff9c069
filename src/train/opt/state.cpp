#include "train/opt/state.hpp"

#include <algorithm>

#include "runtime/alloc/context_allocator.hpp"
#include "runtime/device.hpp"
#include "runtime/host_buffer.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

Result<> check_parameter(const Tensor& parameter) {
    if (parameter.type != GGML_TYPE_F32) {
        return failure(Errc::unsupported, "training: the parameter ", describe(parameter),
                       " is not f32");
    }
    if (parameter.data != nullptr) return ok();
    return invalid("training: the parameter ", describe(parameter), " has no memory");
}

}  // namespace

Result<TrainingState> TrainingState::make(const Scheduler& scheduler, const Options& options) {
    TrainingState made;
    made.options_ = options;
    Block first;
    HEDDLE_TRY_ASSIGN(first.context, make_context(kTensorOverhead, nullptr, true));
    HEDDLE_TRY_ASSIGN(made.loss_gradient_,
                      new_tensor(*first.context, TensorSpec::dense(GGML_TYPE_F32, {1, 1, 1, 1})));
    set_name(*made.loss_gradient_, "loss_gradient");
    HEDDLE_TRY(made.place(std::move(first), *scheduler.team()[0].type));
    if (options.steps) {
        Block values;
        HEDDLE_TRY_ASSIGN(values.context, make_context(kTensorOverhead, nullptr, true));
        HEDDLE_TRY_ASSIGN(made.values_,
                          new_tensor(*values.context,
                                     TensorSpec::dense(GGML_TYPE_F32,
                                                       {value_count(options.optimizer), 1, 1, 1})));
        set_name(*made.values_, text(name_of(options.optimizer), "_params"));
        made.values_->flags |= GGML_TENSOR_FLAG_INPUT;
        HEDDLE_TRY(made.place(std::move(values), host_buffer_type()));
    }
    HEDDLE_TRY(made.zero_gradients());
    return made;
}

/// Everything begins at zero.
Result<> TrainingState::place(Block block, BufferType& type) {
    HEDDLE_TRY_ASSIGN(block.memory, allocate_context(*block.context, type));
    if (block.memory == nullptr) return ok();
    HEDDLE_TRY(clear_buffer(*block.memory, 0));
    blocks_.push_back(std::move(block));
    return ok();
}

TrainingState::Key TrainingState::key_of(const Tensor& parameter) {
    return {root_buffer(parameter), parameter.data};
}

/// Where to keep what belongs to a parameter: beside it, if steps can run there, since they write
/// the moments where they are. Mapped memory is a file of the caller's.
Result<BufferType*> TrainingState::type_for(Tensor& parameter) const {
    const Buffer* buffer = root_buffer(parameter);
    if (buffer == nullptr || buffer->buft == &mapped_buffer_type()) return &host_buffer_type();
    Device* device = device_of(*buffer->buft);
    if (device == nullptr || !options_.steps) return buffer->buft;
    HEDDLE_TRY_ASSIGN(const OwnedContext probe, make_context(4 * kTensorOverhead, nullptr, true));
    std::array<Tensor*, 3> like{};
    for (Tensor*& tensor : like) {
        HEDDLE_TRY_ASSIGN(tensor, new_tensor(*probe, TensorSpec::like(parameter)));
    }
    HEDDLE_TRY_ASSIGN(const Tensor* step, build_step(*probe, options_.optimizer, parameter,
                                                     {like[0], like[1], like[2], values_}));
    return supports_op(*device, *step) ? buffer->buft : &host_buffer_type();
}

Result<> TrainingState::provide(std::span<Tensor* const> parameters) {
    std::map<BufferType*, std::vector<Tensor*>> groups;
    for (Tensor* parameter : parameters) {
        HEDDLE_TRY(check_parameter(*parameter));
        const auto known = entries_.find(key_of(*parameter));
        if (known == entries_.end()) {
            HEDDLE_TRY_ASSIGN(BufferType * type, type_for(*parameter));
            groups[type].push_back(parameter);
        } else if (known->second.extents != extents_of(*parameter)) {
            return invalid("training: the parameter ", describe(*parameter), " had the extents ",
                           describe(known->second.extents), " before");
        }
    }
    for (const auto& [type, members] : groups) HEDDLE_TRY(provide_in(*type, members));
    return ok();
}

Result<> TrainingState::provide_in(BufferType& type, std::span<Tensor* const> parameters) {
    constexpr std::size_t most = 3;  // of a slot
    Block block;
    HEDDLE_TRY_ASSIGN(block.context,
                      make_context(most * parameters.size() * kTensorOverhead, nullptr, true));
    std::vector<std::pair<Key, Entry>> made;
    for (const Tensor* parameter : parameters) {
        HEDDLE_TRY_ASSIGN(const Slot slot, make_slot(*block.context, *parameter));
        made.push_back(
            {key_of(*parameter), {slot, extents_of(*parameter), root_buffer(*parameter)}});
    }
    HEDDLE_TRY(place(std::move(block), type));
    entries_.insert(made.begin(), made.end());
    return ok();
}

Result<TrainingState::Slot> TrainingState::make_slot(Context& context,
                                                     const Tensor& parameter) const {
    const auto make = [&](std::string_view prefix) -> Result<Tensor*> {
        auto tensor = new_tensor(context, TensorSpec::like(parameter));
        if (tensor) set_name(**tensor, text(prefix, name_of(parameter)));
        return tensor;
    };
    Slot slot;
    if (options_.accumulates) {
        HEDDLE_TRY_ASSIGN(slot.accumulator, make("gradient sum for "));
    }
    if (options_.steps && options_.optimizer == GGML_OPT_OPTIMIZER_TYPE_ADAMW) {
        HEDDLE_TRY_ASSIGN(slot.first_moment, make("AdamW m for "));
        HEDDLE_TRY_ASSIGN(slot.second_moment, make("AdamW v for "));
    }
    return slot;
}

const TrainingState::Slot& TrainingState::slot_of(const Tensor& parameter) const {
    return entries_.at(key_of(parameter)).slot;
}

Result<> TrainingState::zero_gradients() {
    constexpr float one = 1;
    HEDDLE_TRY(write_tensor(*loss_gradient_, &one, 0, sizeof one));
    if (!options_.accumulates) return ok();
    for (const auto& [key, entry] : entries_) HEDDLE_TRY(zero_tensor(*entry.slot.accumulator));
    return ok();
}

Result<> TrainingState::zero_moments() {
    for (const auto& [key, entry] : entries_) {
        if (entry.slot.first_moment == nullptr) continue;
        HEDDLE_TRY(zero_tensor(*entry.slot.first_moment));
        HEDDLE_TRY(zero_tensor(*entry.slot.second_moment));
    }
    return ok();
}

void TrainingState::note_step() {
    for (const auto& [key, entry] : entries_) {
        if (entry.weights != nullptr) note_write(*entry.weights);
    }
}

}  // namespace heddle
