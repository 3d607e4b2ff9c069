// UNARY and other functions of one number, ADD to DIV and ADD_ID, GLU, SILU_BACK.

#include "backends/gpu/conditions/binary.hpp"
#include "backends/gpu/conditions/glu.hpp"
#include "backends/gpu/conditions/training.hpp"
#include "backends/gpu/conditions/unary.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ops/clamp.hpp"
#include "ops/leaky_relu.hpp"
#include "ops/scale.hpp"

namespace heddle::vulkan {
namespace {

// ---- one operand -------------------------------------------------------------------------------

/// As shaders/unary.comp has them, behind the numbers of UNARY.
enum Function { sqr = 100, sqrt, log, sin, cos, scale, clamp, leaky };

void record_map(const Tensor& node, Recorder& recorder, int function, const Arguments& arguments) {
    recorder.run_elements(
        {.shader = Shader::unary, .values = {function, type_of(node.src[0]), type_of(&node)}},
        arguments, element_count(node));
}

void record_unary(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Unary::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.alpha_n, a.f[1] = params.alpha_p, a.f[2] = params.beta, a.f[3] = params.eps;
    record_map(node, recorder, params.function, a);
}

template <int kFunction>
void record_plain(const Tensor& node, Recorder& recorder) {
    record_map(node, recorder, kFunction, arguments(node));
}

void record_scale(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Scale::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.scale, a.f[1] = params.bias;
    record_map(node, recorder, scale, a);
}

void record_clamp(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Clamp::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.min, a.f[1] = params.max;
    record_map(node, recorder, clamp, a);
}

void record_leaky_relu(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.f[0] = unpack<ops::LeakyRelu::Params>(node).slope;
    record_map(node, recorder, leaky, a);
}

// ---- two operands ------------------------------------------------------------------------------

/// As shaders/binary.comp has them.
enum Combination { add, subtract, multiply, divide, add_id, silu_back };

template <int kCombination>
void record_binary(const Tensor& node, Recorder& recorder) {
    const bool tiles = kCombination != add_id && !same_shape(*node.src[1], node);
    recorder.run_elements({.shader = Shader::binary,
                           .values = {kCombination, type_of(node.src[0]), type_of(node.src[1]),
                                      type_of(&node), tiles ? 1 : 0}},
                          arguments(node), element_count(node));
}

void record_glu(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Glu::Params>(node);
    Arguments a = arguments(node);
    const bool is_split = node.src[1] != nullptr;
    const auto half = static_cast<std::int32_t>(node.ne[0]);
    if (!is_split) {
        a.src[1] = a.src[0];
        a.i[params.swapped != 0 ? 0 : 1] = half;
    }
    a.f[0] = params.alpha, a.f[1] = params.limit;
    const Tensor* second = is_split ? node.src[1] : node.src[0];
    recorder.run_elements(
        {.shader = Shader::glu,
         .values = {params.function, type_of(node.src[0]), type_of(second), type_of(&node)}},
        a, element_count(node));
}

constexpr Kernel kKernels[] = {
    {"unary", GGML_OP_UNARY, gpu::unary::unary_objection, record_unary},
    {"scale", GGML_OP_SCALE, gpu::unary::map_objection, record_scale},
    {"clamp", GGML_OP_CLAMP, gpu::unary::map_objection, record_clamp},
    {"leaky_relu", GGML_OP_LEAKY_RELU, gpu::unary::map_objection, record_leaky_relu},
    {"sqr", GGML_OP_SQR, gpu::unary::map_objection, record_plain<sqr>},
    {"sqrt", GGML_OP_SQRT, gpu::unary::map_objection, record_plain<sqrt>},
    {"log", GGML_OP_LOG, gpu::unary::map_objection, record_plain<log>},
    {"sin", GGML_OP_SIN, gpu::unary::map_objection, record_plain<sin>},
    {"cos", GGML_OP_COS, gpu::unary::map_objection, record_plain<cos>},
    {"add", GGML_OP_ADD, gpu::binary::binary_objection, record_binary<add>},
    {"sub", GGML_OP_SUB, gpu::binary::binary_objection, record_binary<subtract>},
    {"mul", GGML_OP_MUL, gpu::binary::binary_objection, record_binary<multiply>},
    {"div", GGML_OP_DIV, gpu::binary::binary_objection, record_binary<divide>},
    {"add1", GGML_OP_ADD1, gpu::binary::binary_objection, record_binary<add>},
    {"add_id", GGML_OP_ADD_ID, gpu::binary::add_id_objection, record_binary<add_id>},
    {"silu_back", GGML_OP_SILU_BACK, gpu::training::silu_objection, record_binary<silu_back>},
    {"glu", GGML_OP_GLU, gpu::glu::objection, record_glu},
};

}  // namespace

std::span<const Kernel> elementwise_kernels() { return kKernels; }

}  // namespace heddle::vulkan
