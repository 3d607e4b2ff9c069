#include "train/reset.hpp"

#include <cstring>

#include "ops/optimizer.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

/// The loss is a single number, and so is its gradient with respect to itself.
Result<> set_to_one(const Tensor& loss, Tensor& accumulator) {
    if (!is_scalar(accumulator) || accumulator.type != GGML_TYPE_F32) {
        return invalid("graph reset: the gradient ", describe(accumulator), " of the loss ",
                       describe(loss), " is not a single f32");
    }
    constexpr float one = 1;
    const Tensor& root = accumulator.view_src != nullptr ? *accumulator.view_src : accumulator;
    if (root.buffer != nullptr) return write_tensor(accumulator, &one, 0, sizeof one);
    if (accumulator.data == nullptr) {
        return invalid("graph reset: the gradient ", describe(accumulator), " has no memory");
    }
    std::memcpy(accumulator.data, &one, sizeof one);
    return ok();
}

}  // namespace

Result<> reset_gradients(Graph& graph) {
    if (graph.grads == nullptr || graph.grad_accs == nullptr) {
        return invalid("graph reset: the graph was made without tables for gradients");
    }
    for (Tensor* node : nodes_of(graph)) {
        if (node->op == ops::OptStepAdamw::id) {
            HEDDLE_TRY(zero_tensor(*node->src[ops::OptStepAdamw::kFirstMoment]));
            HEDDLE_TRY(zero_tensor(*node->src[ops::OptStepAdamw::kSecondMoment]));
        }
        Tensor* accumulator = accumulator_of(graph, *node);
        if (accumulator == nullptr) continue;
        const bool is_loss = (node->flags & GGML_TENSOR_FLAG_LOSS) != 0;
        HEDDLE_TRY(is_loss ? set_to_one(*node, *accumulator) : zero_tensor(*accumulator));
    }
    return ok();
}

}  // namespace heddle
