// SOFT_MAX with mask, ALiBi slopes and sinks, and its gradient.

#include "backends/gpu/conditions/soft_max.hpp"

#include <cmath>

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {

void set_alibi(Arguments& arguments, float max_bias, std::int64_t heads) {
    arguments.f[1] = max_bias;
    if (max_bias <= 0 || heads <= 0) return;
    const float power = std::exp2(std::floor(std::log2(static_cast<float>(heads))));
    arguments.f[2] = power;
    arguments.f[3] = std::exp2(-max_bias / power);
    arguments.f[4] = std::exp2(-max_bias / 2 / power);
}

namespace {

void record_soft_max(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::SoftMax::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.scale;
    set_alibi(a, params.max_bias, node.ne[2]);
    recorder.run_rows({.shader = Shader::soft_max,
                       .workgroup = row_workgroup(node.ne[0]),
                       .values = {0, type_of(node.src[1])}},
                      a, row_count(node));
}

void record_back(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.f[0] = unpack<ops::SoftMaxBack::Params>(node).scale;
    recorder.run_rows(
        {.shader = Shader::soft_max, .workgroup = row_workgroup(node.ne[0]), .values = {1}}, a,
        row_count(node));
}

constexpr Kernel kKernels[] = {
    {"soft_max_f32", GGML_OP_SOFT_MAX, gpu::soft_max::objection, record_soft_max},
    {"soft_max_back_f32", GGML_OP_SOFT_MAX_BACK, gpu::soft_max::back_objection, record_back},
};

}  // namespace

std::span<const Kernel> soft_max_kernels() { return kKernels; }

}  // namespace heddle::vulkan
