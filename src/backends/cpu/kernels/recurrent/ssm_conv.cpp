#include "backends/cpu/kernels/node_flops.hpp"
#include "ops/state_space.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &kernel = *node.src[1];
    if (x.type != GGML_TYPE_F32 || kernel.type != GGML_TYPE_F32) return "only f32";
    if (x.nb[0] != sizeof(float) || kernel.nb[0] != sizeof(float)) return "rows are not dense";
    return {};
}

/// Channels are parted, not tokens: when text is generated there is one token at a time.
void run(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &kernel = *node.src[1];
    const Range channels = task.share(node.ne[0]);
    for (std::int64_t sequence = 0; sequence < node.ne[2]; ++sequence) {
        for (std::int64_t channel = channels.begin; channel < channels.end; ++channel) {
            const float* from = at<const float>(x, 0, channel, sequence);
            const float* weights = at<const float>(kernel, 0, channel);
            for (std::int64_t token = 0; token < node.ne[1]; ++token) {
                float sum = 0;
                for (std::int64_t k = 0; k < kernel.ne[0]; ++k) sum += from[token + k] * weights[k];
                *at<float>(node, channel, token, sequence) = sum;
            }
        }
    }
}

Demand demand(const Tensor& node, int threads) {
    return flops_demand<ops::SsmConv>(node, node.ne[0], threads);
}

}  // namespace

extern const Kernel kSsmConv{.name = "ssm_conv_f32",
                             .op = GGML_OP_SSM_CONV,
                             .objection = objection,
                             .run = run,
                             .demand = demand};

}  // namespace heddle::cpu
