#include "backends/vulkan/step.hpp"

namespace heddle::vulkan {

StepNodes Step::nodes() const {
    StepNodes all;
    if (const Tensor* node = single()) all.add(node);
    if (const auto* pair = std::get_if<ScaledNorm>(&work)) {
        for (const Tensor* node : {pair->norm, pair->product}) all.add(node);
    }
    if (const auto* pair = std::get_if<RopeStore>(&work)) {
        for (const Tensor* node : {pair->rope, pair->store}) all.add(node);
    }
    if (const auto* group = std::get_if<ColumnGroup>(&work)) {
        for (const Tensor* node : {group->norm, group->scale}) all.add(node);
        for (const Tensor* node : group->products) all.add(node);
        for (const Tensor* node : {group->gate, group->sum}) all.add(node);
    }
    return all;
}

StepNodes Step::results() const {
    StepNodes written;
    if (const Tensor* node = single()) written.add(node);
    if (const auto* pair = std::get_if<ScaledNorm>(&work)) written.add(pair->product);
    if (const auto* pair = std::get_if<RopeStore>(&work)) written.add(pair->store);
    if (const auto* group = std::get_if<ColumnGroup>(&work)) {
        const Tensor* const end = group->gate != nullptr ? group->gate : group->sum;
        if (end != nullptr) {
            written.add(end);
        } else {
            for (const Tensor* node : group->products) written.add(node);
        }
    }
    return written;
}

const char* Step::name() const {
    if (std::holds_alternative<ScaledNorm>(work)) return "rms_norm_f32 and mul";
    if (std::holds_alternative<RopeStore>(work)) return "rope and set_rows";
    return kernel->name;
}

void Step::record(Recorder& recorder) const {
    if (const Tensor* node = single()) kernel->record(*node, recorder);
    if (const auto* pair = std::get_if<ScaledNorm>(&work)) record_scaled_norm(*pair, recorder);
    if (const auto* pair = std::get_if<RopeStore>(&work)) record_rope_store(*pair, recorder);
    if (const auto* group = std::get_if<ColumnGroup>(&work)) record_columns(*group, recorder);
}

}  // namespace heddle::vulkan
