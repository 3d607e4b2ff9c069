#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/context.hpp"
#include "runtime/owned.hpp"
#include "sched/scheduler.hpp"
#include "train/opt/optimizer.hpp"

namespace heddle {

/// What a training keeps from one evaluation to the next beside the weights: for each parameter
/// where its gradient is summed up and the moments of the optimiser, the gradient that all others
/// start from, and the values for the next step.
///
/// What belongs to a parameter lies in the same kind of memory as the parameter, if that is where
/// steps can run. Parameters are known by their memory, so that graphs may come and go.
class TrainingState {
public:
    struct Options {
        bool accumulates = false;
        bool steps = false;  ///< false: there are neither moments nor values
        Optimizer optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
    };

    /// Null where the options ask for none.
    struct Slot {
        Tensor *accumulator = nullptr, *first_moment = nullptr, *second_moment = nullptr;
    };

    /// The scheduler is borrowed for as long as this call.
    static Result<TrainingState> make(const Scheduler& scheduler, const Options& options);

    /// Gets memory for all of `parameters` that have not been seen before; it begins at zero.
    Result<> provide(std::span<Tensor* const> parameters);

    /// Of a parameter that was provided for.
    const Slot& slot_of(const Tensor& parameter) const;

    Tensor& loss_gradient() const { return *loss_gradient_; }
    Tensor* values() const { return values_; }  ///< null without steps

    Result<> zero_gradients();  ///< and the start of all gradients to 1
    Result<> zero_moments();

    /// After a step: caches of constants must not take the weights for what they were.
    void note_step();

private:
    using Key = std::pair<const Buffer*, const void*>;
    struct Entry {
        Slot slot;
        Extents extents;
        Buffer* weights;  ///< null: the weights are in a context
    };
    struct Block {
        OwnedContext context;
        OwnedBuffer memory;
    };

    static Key key_of(const Tensor& parameter);
    Result<BufferType*> type_for(Tensor& parameter) const;
    Result<> provide_in(BufferType& type, std::span<Tensor* const> parameters);
    Result<Slot> make_slot(Context& context, const Tensor& parameter) const;
    Result<> place(Block block, BufferType& type);

    Options options_;
    std::vector<Block> blocks_;
    std::map<Key, Entry> entries_;
    Tensor *loss_gradient_ = nullptr, *values_ = nullptr;
};

}  // namespace heddle
