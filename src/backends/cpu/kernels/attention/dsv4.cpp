#include "ops/dsv4.hpp"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel.hpp"
#include "ggml/op_list.h"

/// Hyper-connections. Nothing here is hot: each element is touched a few times.
namespace heddle::cpu {
namespace {

std::string_view all_f32(const Tensor& node) {
    for (const Tensor* source : node.src) {
        if (source != nullptr && source->type != GGML_TYPE_F32) return "an operand is not f32";
    }
    return node.type == GGML_TYPE_F32 ? "" : "the result is not f32";
}

// ---- the weights between streams ---------------------------------------------------------------

constexpr int kStreams = ops::Dsv4HcComb::kStreams;

/// weight[s][d]: how much of stream s goes to stream d.
using Weights = float[kStreams][kStreams];

/// Makes the weights that leave each stream, and then those that reach each stream, add up to one.
void normalise_from(Weights& c, float eps) {
    for (float(&from)[kStreams] : c) {
        float sum = 0;
        for (const float weight : from) sum += weight;
        const float factor = 1 / (eps + sum);
        for (float& weight : from) weight *= factor;
    }
}

void normalise_to(Weights& c, float eps) {
    for (int d = 0; d < kStreams; ++d) {
        float sum = 0;
        for (int s = 0; s < kStreams; ++s) sum += c[s][d];
        const float factor = 1 / (eps + sum);
        for (int s = 0; s < kStreams; ++s) c[s][d] *= factor;
    }
}

void soft_max(float (&row)[kStreams], float eps) {
    const float most = *std::max_element(row, row + kStreams);
    float sum = 0;
    for (float& weight : row) sum += weight = std::exp(weight - most);
    for (float& weight : row) weight = weight / sum + eps;
}

std::string_view comb_objection(const Tensor& node) {
    if (node.src[0]->ne[0] != ops::Dsv4HcComb::kMixes) return "mixes are not those of four streams";
    return all_f32(node);
}

void run_comb(const Tensor& node, const Task& task) {
    const auto [eps, iterations] = unpack<ops::Dsv4HcComb::Params>(node);
    const Tensor &mixes = *node.src[0], &scale = *node.src[1], &base = *node.src[2];
    const Range tokens = task.share(node.ne[2]);
    const float factor = tokens.begin < tokens.end ? *at<const float>(scale, 2) : 0;
    for (std::int64_t t = tokens.begin; t < tokens.end; ++t) {
        Weights c;
        for (int s = 0; s < kStreams; ++s) {
            for (int d = 0; d < kStreams; ++d) {
                const std::int64_t i = 2 * kStreams + d + kStreams * s;
                c[s][d] = *at<const float>(mixes, i, t) * factor + *at<const float>(base, i);
            }
            soft_max(c[s], eps);
        }
        normalise_to(c, eps);
        for (int i = 1; i < iterations; ++i) {
            normalise_from(c, eps);
            normalise_to(c, eps);
        }
        for (int s = 0; s < kStreams; ++s) {
            for (int d = 0; d < kStreams; ++d) *at<float>(node, d, s, t) = c[s][d];
        }
    }
}

Demand comb_demand(const Tensor& node, int threads) {
    const auto [eps, iterations] = unpack<ops::Dsv4HcComb::Params>(node);
    const double flops = static_cast<double>(element_count(node)) * (20 + 4.0 * iterations);
    return {.tasks = worthwhile_tasks(0, flops, node.ne[2], threads)};
}

// ---- sums of streams ---------------------------------------------------------------------------

/// y[i] += factor * x[i], over any strides.
void add_scaled(const Tensor& x, const float* from, float factor, const Tensor& y, float* to) {
    const std::size_t step = x.nb[0] / sizeof(float), out_step = y.nb[0] / sizeof(float);
    if (step == 1 && out_step == 1) {
        for (std::int64_t i = 0; i < y.ne[0]; ++i) to[i] += factor * from[i];
        return;
    }
    for (std::int64_t i = 0; i < y.ne[0]; ++i) {
        to[static_cast<std::size_t>(i) * out_step] +=
            factor * from[static_cast<std::size_t>(i) * step];
    }
}

void clear(const Tensor& y, float* to) {
    for (std::int64_t i = 0; i < y.ne[0]; ++i) {
        to[static_cast<std::size_t>(i) * (y.nb[0] / sizeof(float))] = 0;
    }
}

void run_pre(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &weights = *node.src[1];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* to = row_at<float>(node, row);
        clear(node, to);
        for (std::int64_t h = 0; h < x.ne[1]; ++h) {
            add_scaled(x, at<const float>(x, 0, h, row.i1), *at<const float>(weights, h, row.i1),
                       node, to);
        }
    });
}

void run_post(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &residual = *node.src[1];
    const Tensor &post = *node.src[2], &comb = *node.src[3];
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const std::int64_t d = row.i1, t = row.i2;
        float* to = row_at<float>(node, row);
        clear(node, to);
        add_scaled(x, at<const float>(x, 0, t), *at<const float>(post, d, t), node, to);
        for (std::int64_t s = 0; s < residual.ne[1]; ++s) {
            add_scaled(residual, at<const float>(residual, 0, s, t),
                       *at<const float>(comb, d, s, t), node, to);
        }
    });
}

}  // namespace

extern const Kernel kDsv4HcComb{.name = "dsv4_hc_comb",
                                .op = GGML_OP_DSV4_HC_COMB,
                                .objection = comb_objection,
                                .run = run_comb,
                                .demand = comb_demand};
extern const Kernel kDsv4HcPre{
    .name = "dsv4_hc_pre", .op = GGML_OP_DSV4_HC_PRE, .objection = all_f32, .run = run_pre};
extern const Kernel kDsv4HcPost{
    .name = "dsv4_hc_post", .op = GGML_OP_DSV4_HC_POST, .objection = all_f32, .run = run_post};

}  // namespace heddle::cpu
