// FILL, ARANGE, TIMESTEP_EMBEDDING, TRI, DIAG, DIAG_MASK_INF and DIAG_MASK_ZERO.

#include "backends/gpu/conditions/generate.hpp"

#include <cmath>
#include <limits>

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"
#include "ops/mask.hpp"

namespace heddle::vulkan {
namespace {

/// As shaders/generate.comp has them.
enum Function { fill, arange, timestep, tri, diag, mask };

void record(const Tensor& node, Recorder& recorder, int function, const Arguments& arguments) {
    recorder.run_elements(
        {.shader = Shader::generate, .values = {function, type_of(node.src[0]), type_of(&node)}},
        arguments, element_count(node));
}

void record_fill(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.f[0] = unpack<ops::Fill::Params>(node).value;
    record(node, recorder, fill, a);
}

void record_arange(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Arange::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.start, a.f[1] = params.step;
    record(node, recorder, arange, a);
}

void record_timestep(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::TimestepEmbedding::Params>(node);
    Arguments a = arguments(node);
    a.i[0] = params.dim / 2;
    a.f[0] = std::log(static_cast<float>(params.max_period));
    record(node, recorder, timestep, a);
}

void record_tri(const Tensor& node, Recorder& recorder) {
    Arguments a = arguments(node);
    a.i[0] = unpack<ops::Tri::Params>(node).type;
    record(node, recorder, tri, a);
}

void record_diag(const Tensor& node, Recorder& recorder) {
    record(node, recorder, diag, arguments(node));
}

void record_mask(const Tensor& node, Recorder& recorder, float masked) {
    Arguments a = arguments(node);
    a.i[0] = unpack<ops::DiagMask::Params>(node).n_past;
    a.f[0] = masked;
    record(node, recorder, mask, a);
}
void record_mask_inf(const Tensor& node, Recorder& recorder) {
    record_mask(node, recorder, -std::numeric_limits<float>::infinity());
}
void record_mask_zero(const Tensor& node, Recorder& recorder) { record_mask(node, recorder, 0); }

using namespace gpu::generate;

constexpr Kernel kKernels[] = {
    {"fill", GGML_OP_FILL, float_result, record_fill},
    {"arange", GGML_OP_ARANGE, float_result, record_arange},
    {"timestep_embedding", GGML_OP_TIMESTEP_EMBEDDING, timestep_objection, record_timestep},
    {"tri", GGML_OP_TRI, tri_objection, record_tri},
    {"diag", GGML_OP_DIAG, float_operand, record_diag},
    {"diag_mask_inf", GGML_OP_DIAG_MASK_INF, same_shape_objection, record_mask_inf},
    {"diag_mask_zero", GGML_OP_DIAG_MASK_ZERO, same_shape_objection, record_mask_zero},
};

}  // namespace

std::span<const Kernel> generate_kernels() { return kKernels; }

}  // namespace heddle::vulkan
