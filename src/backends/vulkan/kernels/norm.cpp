// NORM, RMS_NORM, L2_NORM, GROUP_NORM and RMS_NORM_BACK.

#include "backends/gpu/conditions/norm.hpp"

#include "backends/gpu/conditions/training.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "backends/vulkan/step.hpp"
#include "ggml/op_list.h"
#include "ops/backward.hpp"

namespace heddle::vulkan {
namespace {

/// As shaders/norm.comp has them.
enum Function { norm, rms_norm, l2_norm, group_norm, rms_norm_back };

template <class OpOf, int kFunction>
void record_rows(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.f[0] = unpack<typename OpOf::Params>(node).eps;
    recorder.run_rows(
        {.shader = Shader::norm, .workgroup = row_workgroup(node.ne[0]), .values = {kFunction}}, a,
        row_count(node));
}

void record_group_norm(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::GroupNorm::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.eps;
    a.i[0] = params.n_groups;
    a.i[1] = static_cast<std::int32_t>((node.ne[2] + params.n_groups - 1) / params.n_groups);
    recorder.run_rows({.shader = Shader::norm, .values = {group_norm}}, a,
                      params.n_groups * node.ne[3]);
}

constexpr Kernel kKernels[] = {
    {"norm_f32", GGML_OP_NORM, gpu::norm::row_objection, record_rows<ops::Norm, norm>},
    {"rms_norm_f32", GGML_OP_RMS_NORM, gpu::norm::row_objection,
     record_rows<ops::RmsNorm, rms_norm>},
    {"l2_norm_f32", GGML_OP_L2_NORM, gpu::norm::row_objection, record_rows<ops::L2Norm, l2_norm>},
    {"group_norm_f32", GGML_OP_GROUP_NORM, gpu::norm::group_objection, record_group_norm},
    {"rms_norm_back_f32", GGML_OP_RMS_NORM_BACK, gpu::training::rms_objection,
     record_rows<ops::RmsNormBack, rms_norm_back>},
};

}  // namespace

void record_scaled_norm(const ScaledNorm& pair, Recorder& recorder) {
    Arguments a = arguments(*pair.norm);
    a.y = operand(pair.product);
    a.src[1] = operand(&pair.weights());
    a.f[0] = unpack<ops::RmsNorm::Params>(*pair.norm).eps;
    recorder.run_rows({.shader = Shader::norm,
                       .workgroup = row_workgroup(pair.norm->ne[0]),
                       .values = {rms_norm, 1}},
                      a, row_count(*pair.norm));
}

std::span<const Kernel> norm_kernels() { return kKernels; }

}  // namespace heddle::vulkan
