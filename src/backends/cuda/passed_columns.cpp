#include "backends/cuda/passed_columns.hpp"

#include "backends/cuda/fusion.hpp"
#include "backends/cuda/kernels/attention/attention.hpp"

namespace heddle::cuda {
namespace {

/// What a step makes, if it can be left coded; else null.
const Tensor* passed_result(const Step& step) {
    if (const auto* one = std::get_if<SingleNode>(&step.work)) {
        return can_pass(*one->node, *one->kernel) ? one->node : nullptr;
    }
    const auto* group = std::get_if<ColumnGroup>(&step.work);
    if (group == nullptr || group->has_end(0)) return nullptr;
    if (group->count != 1 && group->gate == nullptr) return nullptr;
    return &group->result(0);
}

/// Whether the group reads all of `result`, as codes.
bool takes(const ColumnGroup& group, const Tensor& result) {
    const Tensor& column = group.activations();
    if (&column != &result && column.view_src != &result) return false;
    const std::int64_t depth = column.ne[0];
    return column.data == result.data && depth == element_count(result) &&
           depth % PassedColumn::kBlock == 0 && depth <= kMostPassed &&
           result.type == GGML_TYPE_F32 && is_passed_to(group.products[0]->src[0]->type);
}

/// Whether the step can multiply its result with the weights of the group's norm, if there is one:
/// attention and gates do not, and weights that it writes itself are not there yet.
bool can_weigh(const Step& step, const Tensor& result, const ColumnGroup& group) {
    if (group.norm == nullptr) return true;
    const auto* const maker = std::get_if<ColumnGroup>(&step.work);
    return maker != nullptr && maker->gate == nullptr && !overlap(result, group.norm_weights());
}

}  // namespace

void pass_columns(std::vector<Step>& steps) {
    bool is_odd = false;
    for (std::size_t i = 1; i < steps.size(); ++i) {
        const auto* group = std::get_if<ColumnGroup>(&steps[i].work);
        if (group == nullptr) continue;
        const auto* before = std::get_if<ColumnGroup>(&steps[i - 1].work);
        if (before != nullptr && group->norm != nullptr && before->norm == group->norm) {
            const bool is_able = is_passed_to(group->products[0]->src[0]->type);
            if (is_able) steps[i].takes = steps[i - 1].takes;  // both read the same
            continue;
        }
        const Tensor* const result = passed_result(steps[i - 1]);
        if (result == nullptr || !takes(*group, *result)) continue;
        if (!can_weigh(steps[i - 1], *result, *group)) continue;
        is_odd = !is_odd;  // the step before may read the other one
        steps[i - 1].leaves = {is_odd ? 1 : 0,
                               group->norm != nullptr ? &group->norm_weights() : nullptr};
        steps[i].takes = is_odd ? 1 : 0;
        auto* const maker = std::get_if<ColumnGroup>(&steps[i - 1].work);
        const bool has_weights = group->norm != nullptr && !steps[i].reads_ahead;
        // Weights of the norm that are not constant are read after all kernels before.
        if (maker != nullptr && has_weights) maker->has_early_inputs = false;
    }
}

}  // namespace heddle::cuda
