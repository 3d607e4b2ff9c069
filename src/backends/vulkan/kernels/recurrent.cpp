// RWKV_WKV6, RWKV_WKV7, GATED_LINEAR_ATTN, GATED_DELTA_NET, SOLVE_TRI, SSM_CONV and SSM_SCAN.

#include "backends/gpu/conditions/recurrent.hpp"

#include "backends/gpu/conditions/state_space.hpp"
#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/recurrent.comp has them.
enum Function { wkv6, wkv7, gla, delta, solve };

/// What of heads with a matrix as state every shader needs; `like` is [S, H, tokens].
void set_heads(Arguments& a, const Tensor& like, std::int64_t sequences) {
    a.i[0] = static_cast<std::int32_t>(like.ne[0]);
    a.i[1] = static_cast<std::int32_t>(like.ne[1]);
    a.i[2] = static_cast<std::int32_t>(like.ne[2]);
    a.i[3] = static_cast<std::int32_t>(sequences);
    a.i[4] = static_cast<std::int32_t>(like.ne[2] / sequences);
}

void record(Recorder& recorder, int function, const Arguments& a, std::int64_t size,
            std::int64_t rows) {
    recorder.run_rows(
        {.shader = Shader::recurrent, .workgroup = row_workgroup(size), .values = {function}}, a,
        rows);
}

void record_wkv6(const Tensor& node, Recorder& recorder) {
    const Tensor &like = *node.src[0], &states = *node.src[5];
    Arguments a = arguments(node);
    set_heads(a, like, states.ne[1]);
    record(recorder, wkv6, a, like.ne[0], like.ne[1] * states.ne[1]);
}

void record_gla(const Tensor& node, Recorder& recorder) {
    const Tensor &like = *node.src[0], &states = *node.src[4];
    Arguments a = arguments(node);
    set_heads(a, like, states.ne[1]);
    a.f[0] = unpack<ops::GatedLinearAttn::Params>(node).scale;
    record(recorder, gla, a, like.ne[0], like.ne[1] * states.ne[1]);
}

void record_wkv7(const Tensor& node, Recorder& recorder) {
    const Tensor &like = *node.src[2], &states = *node.src[6];
    Arguments a = arguments(node);
    set_heads(a, like, states.ne[1]);
    record(recorder, wkv7, a, like.ne[0], like.ne[0] * like.ne[1] * states.ne[1]);
}

void record_delta(const Tensor& node, Recorder& recorder) {
    const Tensor& v = *node.src[2];
    const std::int32_t slots =
        static_cast<std::int32_t>(unpack<ops::GatedDeltaNet::Params>(node).snapshots);
    if (v.ne[2] == 0 && slots > 1) return;
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(v.ne[0]);
    a.i[1] = static_cast<std::int32_t>(v.ne[1]);
    a.i[2] = static_cast<std::int32_t>(v.ne[2] * v.ne[3]);
    a.i[3] = static_cast<std::int32_t>(v.ne[3]);
    a.i[4] = static_cast<std::int32_t>(v.ne[2]);
    a.i[5] = slots;
    record(recorder, delta, a, v.ne[0], v.ne[0] * v.ne[1] * v.ne[3]);
}

void record_solve(const Tensor& node, Recorder& recorder) {
    recorder.run_elements({.shader = Shader::recurrent, .workgroup = 64, .values = {solve}},
                          arguments(node), node.ne[0] * node.ne[2] * node.ne[3]);
}

void record_conv(const Tensor& node, Recorder& recorder) {
    recorder.run_elements({.shader = Shader::ssm, .values = {0}}, arguments(node),
                          element_count(node));
}

void record_scan(const Tensor& node, Recorder& recorder) {
    const Tensor &pool = *node.src[0], &x = *node.src[1];
    if (x.ne[2] == 0) return;
    Arguments a = arguments(node);
    a.i[0] = static_cast<std::int32_t>(unpack<ops::SsmScan::Params>(node).snapshots);
    recorder.run_rows(
        {.shader = Shader::ssm, .workgroup = row_workgroup(pool.ne[0]), .values = {1}}, a,
        x.ne[0] * x.ne[1] * x.ne[3]);
}

using namespace gpu::recurrent;

constexpr Kernel kKernels[] = {
    {"rwkv_wkv6_f32", GGML_OP_RWKV_WKV6, wkv6_objection, record_wkv6},
    {"rwkv_wkv7_f32", GGML_OP_RWKV_WKV7, wkv7_objection, record_wkv7},
    {"gated_linear_attn_f32", GGML_OP_GATED_LINEAR_ATTN, gla_objection, record_gla},
    {"gated_delta_net_f32", GGML_OP_GATED_DELTA_NET, delta_objection, record_delta},
    {"solve_tri_f32", GGML_OP_SOLVE_TRI, solve_objection, record_solve},
    {"ssm_conv_f32", GGML_OP_SSM_CONV, gpu::state_space::conv_objection, record_conv},
    {"ssm_scan_f32", GGML_OP_SSM_SCAN, gpu::state_space::scan_objection, record_scan},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace heddle::vulkan
