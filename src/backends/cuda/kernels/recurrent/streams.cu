// DSV4_HC_COMB, DSV4_HC_PRE, DSV4_HC_POST (hyper-connections) and LIGHTNING_INDEXER.

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/operand.cuh"
#include "backends/gpu/conditions/streams.hpp"
#include "ggml/op_list.h"
#include "ops/dsv4.hpp"

namespace heddle::cuda {
namespace {

using namespace gpu::streams;

// ---- DSV4_HC_COMB ------------------------------------------------------------------------------

constexpr int kStreams = ops::Dsv4HcComb::kStreams;

/// Shares of streams in streams, by target and source.
struct Mixture {
    float share[kStreams][kStreams];
    float eps;

    /// The shares that each source gives sum to one.
    __device__ void scale_sources() {
        for (int s = 0; s < kStreams; ++s) {
            float total = eps;
            for (int d = 0; d < kStreams; ++d) total += share[d][s];
            for (int d = 0; d < kStreams; ++d) share[d][s] /= total;
        }
    }
    /// The shares that each target takes sum to one.
    __device__ void scale_targets() {
        for (int d = 0; d < kStreams; ++d) {
            float total = eps;
            for (int s = 0; s < kStreams; ++s) total += share[d][s];
            for (int s = 0; s < kStreams; ++s) share[d][s] /= total;
        }
    }
    __device__ void soft_max_of_source(int s) {
        float largest = -INFINITY, total = 0;
        for (int d = 0; d < kStreams; ++d) largest = fmaxf(largest, share[d][s]);
        for (int d = 0; d < kStreams; ++d) {
            share[d][s] = expf(share[d][s] - largest);
            total += share[d][s];
        }
        for (int d = 0; d < kStreams; ++d) share[d][s] = share[d][s] / total + eps;
    }
};

/// A soft-max whose rows and columns are then made to sum to one by turns; a thread per token.
void launch_comb(const Tensor& node, const Launch& launch) {
    const auto params = unpack<ops::Dsv4HcComb::Params>(node);
    const Operand mixes = operand(node.src[0]), scale = operand(node.src[1]);
    const Operand base = operand(node.src[2]), y = operand(&node);
    for_each(launch, node.ne[2], [=] __device__(std::int64_t t) {
        Mixture mixture;
        mixture.eps = params.eps;
        for (int s = 0; s < kStreams; ++s) {
            for (int d = 0; d < kStreams; ++d) {
                const int at = 2 * kStreams + d + kStreams * s;
                mixture.share[d][s] = mixes(at, t) * scale(2) + base(at);
            }
            mixture.soft_max_of_source(s);
        }
        mixture.scale_targets();
        for (int i = 1; i < params.iterations; ++i) {
            mixture.scale_sources();
            mixture.scale_targets();
        }
        for (int s = 0; s < kStreams; ++s) {
            for (int d = 0; d < kStreams; ++d) y.put(mixture.share[d][s], d, s, t);
        }
    });
}

// ---- DSV4_HC_PRE, DSV4_HC_POST -----------------------------------------------------------------

void launch_pre(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), weights = operand(node.src[1]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = 0;
        for (std::int64_t h = 0; h < x.extent[1]; ++h) total += x(p.i0, h, p.i1) * weights(h, p.i1);
        y.put(total, p.i0, p.i1);
    });
}

void launch_post(const Tensor& node, const Launch& launch) {
    const Operand x = operand(node.src[0]), residual = operand(node.src[1]);
    const Operand post = operand(node.src[2]), comb = operand(node.src[3]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        float total = x(p.i0, p.i2) * post(p.i1, p.i2);
        for (std::int64_t s = 0; s < residual.extent[1]; ++s) {
            total += residual(p.i0, s, p.i2) * comb(p.i1, s, p.i2);
        }
        y.put(total, p.i0, p.i1, p.i2);
    });
}

// ---- LIGHTNING_INDEXER -------------------------------------------------------------------------

/// A thread for each key and token.
template <class F>
void launch_indexer_of(const Tensor& node, const Launch& launch) {
    const Operand q = operand(node.src[0]), k = operand(node.src[1]), mask = operand(node.src[3]);
    const Operand weights = operand(node.src[2]), y = operand(&node);
    for_each_place(launch, node, [=] __device__(Place p) {
        const std::byte* const key = k.at(0, 0, p.i0, p.i3);
        float total = 0;
        for (std::int64_t h = 0; h < q.extent[1]; ++h) {
            float dot = 0, values[8];
            for (std::int64_t d = 0; d < q.extent[0]; d += 8) {
                decode8_of_row<F>(key, d, values);
                for (int j = 0; j < 8; ++j) dot += q(d + j, h, p.i1, p.i3) * values[j];
            }
            total += weights(h, p.i1, 0, p.i3) * fmaxf(dot, 0.0f);
        }
        y.put(total + mask(p.i0, p.i1, 0, p.i3 % mask.extent[3]), p.i0, p.i1, p.i2, p.i3);
    });
}

void launch_indexer(const Tensor& node, const Launch& launch) {
    dispatch_format(node.src[1]->type,
                    [&](auto format) { launch_indexer_of<decltype(format)>(node, launch); });
}

constexpr Kernel kKernels[] = {
    {"dsv4_hc_comb_f32", GGML_OP_DSV4_HC_COMB, comb_objection, nullptr, launch_comb},
    {"dsv4_hc_pre_f32", GGML_OP_DSV4_HC_PRE, pre_objection, nullptr, launch_pre},
    {"dsv4_hc_post_f32", GGML_OP_DSV4_HC_POST, post_objection, nullptr, launch_post},
    {"lightning_indexer", GGML_OP_LIGHTNING_INDEXER, indexer_objection, nullptr, launch_indexer},
};

}  // namespace

std::span<const Kernel> stream_kernels() { return kKernels; }

}  // namespace heddle::cuda
