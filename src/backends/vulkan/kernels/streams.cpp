// DSV4_HC_COMB, DSV4_HC_PRE, DSV4_HC_POST (hyper-connections) and LIGHTNING_INDEXER.

#include "backends/gpu/conditions/streams.hpp"

#include "backends/vulkan/kernels/common.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

/// As shaders/hyper.comp has them.
enum Function { comb, pre, post, indexer };

void record_comb(const Tensor& node, Recorder& recorder) {
    const auto params = unpack<ops::Dsv4HcComb::Params>(node);
    Arguments a = arguments(node);
    a.f[0] = params.eps;
    a.i[0] = params.iterations;
    recorder.run_elements({.shader = Shader::hyper, .workgroup = 64, .values = {comb}}, a,
                          node.ne[2]);
}

template <int kFunction>
void record_elements(const Tensor& node, Recorder& recorder) {
    const bool is_indexer = kFunction == indexer;
    recorder.run_elements({.shader = Shader::hyper,
                           .values = {kFunction, is_indexer ? type_of(node.src[1]) : 0,
                                      is_indexer ? type_of(node.src[3]) : 0}},
                          arguments(node), element_count(node));
}

using namespace gpu::streams;

constexpr Kernel kKernels[] = {
    {"dsv4_hc_comb_f32", GGML_OP_DSV4_HC_COMB, comb_objection, record_comb},
    {"dsv4_hc_pre_f32", GGML_OP_DSV4_HC_PRE, pre_objection, record_elements<pre>},
    {"dsv4_hc_post_f32", GGML_OP_DSV4_HC_POST, post_objection, record_elements<post>},
    {"lightning_indexer", GGML_OP_LIGHTNING_INDEXER, indexer_objection, record_elements<indexer>},
};

}  // namespace

std::span<const Kernel> stream_kernels() { return kKernels; }

}  // namespace heddle::vulkan
