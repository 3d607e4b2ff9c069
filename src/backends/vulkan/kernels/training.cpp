// CROSS_ENTROPY_LOSS and its gradient, OPT_STEP_ADAMW, OPT_STEP_SGD.

#include "backends/gpu/conditions/training.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/soft_max.comp has them.
enum Function { loss_of_rows = 2, loss, loss_back };

/// One number for each row.
std::size_t loss_scratch(const Tensor& node, const DeviceFacts&) {
    return static_cast<std::size_t>(row_count(*node.src[0])) * sizeof(float);
}

void record_loss(const Tensor& node, Recorder& recorder) {
    const std::int64_t rows = row_count(*node.src[0]);
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(rows);
    recorder.run_rows({.shader = Shader::soft_max,
                       .workgroup = row_workgroup(node.src[0]->ne[0]),
                       .values = {loss_of_rows}},
                      a, rows);
    recorder.barrier();
    recorder.run_rows({.shader = Shader::soft_max, .values = {loss}}, a, 1);
}

void record_loss_back(const Tensor& node, Recorder& recorder) {
    recorder.run_rows(
        {.shader = Shader::soft_max, .workgroup = row_workgroup(node.ne[0]), .values = {loss_back}},
        arguments(node), row_count(node));
}

template <int kFunction>
void record_step(const Tensor& node, Recorder& recorder) {
    recorder.run_elements({.shader = Shader::optimizer, .values = {kFunction}}, arguments(node),
                          element_count(node));
}

using namespace gpu::training;

constexpr Kernel kKernels[] = {
    {"cross_entropy_loss_f32", GGML_OP_CROSS_ENTROPY_LOSS, loss_objection, record_loss,
     loss_scratch},
    {"cross_entropy_loss_back_f32", GGML_OP_CROSS_ENTROPY_LOSS_BACK, loss_back_objection,
     record_loss_back},
    {.name = "opt_step_adamw_f32",
     .op = GGML_OP_OPT_STEP_ADAMW,
     .objection = adamw_objection,
     .record = record_step<0>,
     .writes_operands = true},
    {.name = "opt_step_sgd_f32",
     .op = GGML_OP_OPT_STEP_SGD,
     .objection = sgd_objection,
     .record = record_step<1>,
     .writes_operands = true},
};

}  // namespace

std::span<const Kernel> training_kernels() { return kKernels; }

}  // namespace heddle::vulkan
