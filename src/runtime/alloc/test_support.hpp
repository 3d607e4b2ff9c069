#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/graph.hpp"
#include "ggml.h"
#include "ggml/ops.h"

/// For tests and benchmarks of the planner: graphs like those of models, and others.
namespace heddle::test {

/// A context of its own with one graph in it. Nothing has memory unless said otherwise.
class SampleGraph {
public:
    explicit SampleGraph(std::size_t nodes)
        : context_(ggml_init({.mem_size = 2 * nodes * ggml_tensor_overhead() +
                                          ggml_graph_overhead_custom(nodes, false) + (1 << 16),
                              .mem_buffer = nullptr,
                              .no_alloc = true})),
          graph_(ggml_new_graph_custom(context_, nodes, false)) {}
    ~SampleGraph() { ggml_free(context_); }
    SampleGraph(const SampleGraph&) = delete;
    SampleGraph& operator=(const SampleGraph&) = delete;

    ggml_context* context() { return context_; }
    Graph& graph() { return *graph_; }

    /// A tensor that counts as having memory. No node reads it here.
    ggml_tensor* weight(std::int64_t columns, std::int64_t rows = 1, std::int64_t planes = 1) {
        ggml_tensor* tensor = ggml_new_tensor_3d(context_, GGML_TYPE_F16, columns, rows, planes);
        tensor->data = memory_.data();
        return tensor;
    }
    ggml_tensor* input(ggml_type type, std::int64_t columns, std::int64_t rows = 1) {
        ggml_tensor* tensor = ggml_new_tensor_2d(context_, type, columns, rows);
        ggml_set_input(tensor);
        return tensor;
    }

private:
    ggml_context* context_;
    ggml_cgraph* graph_;
    std::array<std::byte, 64> memory_{};
};

struct TransformerShape {
    int layers = 32;
    std::int64_t width = 4096, heads = 32, groups = 8, hidden = 14336, words = 32000;
    std::int64_t tokens = 512, cached = 4096;
    bool glu = false;  ///< the gate is one node, not two
};

/// The layer that most language models of today repeat: attention over cached keys and values that
/// lie outside, then a gated network.
class Transformer {
public:
    Transformer(SampleGraph& sample, const TransformerShape& shape)
        : s_(sample), c_(sample.context()), shape_(shape), head_(shape.width / shape.heads) {}

    void build() {
        const TransformerShape& d = shape_;
        positions_ = s_.input(GGML_TYPE_I32, d.tokens);
        mask_ = s_.input(GGML_TYPE_F32, d.cached, d.tokens);
        ggml_tensor* words = s_.input(GGML_TYPE_I32, d.tokens);
        ggml_tensor* x = ggml_get_rows(c_, s_.weight(d.width, d.words), words);
        for (int i = 0; i < d.layers; ++i) x = layer(x);
        ggml_tensor* logits = ggml_mul_mat(c_, s_.weight(d.width, d.words), norm(x));
        ggml_set_output(logits);
        ggml_build_forward_expand(&s_.graph(), logits);
    }

private:
    ggml_tensor* norm(ggml_tensor* x) {
        ggml_tensor* gain = ggml_new_tensor_1d(c_, GGML_TYPE_F32, x->ne[0]);
        gain->data = mask_;  // any address: it counts as having memory
        return ggml_mul(c_, ggml_rms_norm(c_, x, 1e-5f), gain);
    }

    ggml_tensor* rotated(ggml_tensor* x, std::int64_t heads) {
        x = ggml_reshape_3d(c_, x, head_, heads, shape_.tokens);
        return ggml_rope(c_, x, positions_, static_cast<int>(head_), 0);
    }

    /// Writes `x` behind what the cache holds already.
    void store(ggml_tensor* x, ggml_tensor* cache) {
        ggml_tensor* end = ggml_view_1d(c_, cache, ggml_nelements(x), 0);
        ggml_build_forward_expand(&s_.graph(), ggml_cpy(c_, x, end));
    }

    ggml_tensor* attention(ggml_tensor* x) {
        const TransformerShape& d = shape_;
        const std::int64_t narrow = head_ * d.groups;
        ggml_tensor* q = rotated(ggml_mul_mat(c_, s_.weight(d.width, d.width), x), d.heads);
        ggml_tensor* k = rotated(ggml_mul_mat(c_, s_.weight(d.width, narrow), x), d.groups);
        ggml_tensor* v = ggml_mul_mat(c_, s_.weight(d.width, narrow), x);
        ggml_tensor* keys = s_.weight(head_, d.groups, d.cached);
        ggml_tensor* values = s_.weight(d.cached, head_, d.groups);
        store(k, keys);
        store(v, values);
        ggml_tensor* scores =
            ggml_mul_mat(c_, ggml_permute(c_, keys, 0, 2, 1, 3), ggml_permute(c_, q, 0, 2, 1, 3));
        scores = ggml_soft_max_ext(c_, scores, mask_, 0.1f, 0.0f);
        ggml_tensor* mixed = ggml_mul_mat(c_, values, scores);
        mixed = ggml_cont_2d(c_, ggml_permute(c_, mixed, 0, 2, 1, 3), d.width, d.tokens);
        return ggml_mul_mat(c_, s_.weight(d.width, d.width), mixed);
    }

    ggml_tensor* layer(ggml_tensor* x) {
        const TransformerShape& d = shape_;
        x = ggml_add(c_, attention(norm(x)), x);
        ggml_tensor* y = norm(x);
        ggml_tensor* down = ggml_mul_mat(c_, s_.weight(d.hidden, d.width), gated(y));
        return ggml_add(c_, down, x);
    }

    ggml_tensor* gated(ggml_tensor* y) {
        const TransformerShape& d = shape_;
        ggml_tensor* gate = ggml_mul_mat(c_, s_.weight(d.width, d.hidden), y);
        if (!d.glu) gate = ggml_silu(c_, gate);
        ggml_tensor* up = ggml_mul_mat(c_, s_.weight(d.width, d.hidden), y);
        return d.glu ? ggml_swiglu_split(c_, gate, up) : ggml_mul(c_, gate, up);
    }

    SampleGraph& s_;
    ggml_context* c_;
    TransformerShape shape_;
    std::int64_t head_;
    ggml_tensor *positions_ = nullptr, *mask_ = nullptr;
};

/// `nodes` nodes with sizes over four orders of magnitude, that read what is near, sometimes what
/// is far, in place or not, through views. Some are results; what leads to none is left out.
inline void build_random(SampleGraph& sample, int nodes, std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const auto any_size = [&] { return static_cast<std::int64_t>(std::exp2(below(1300) / 100.0)); };
    std::vector<ggml_tensor*> made;
    for (std::size_t i = 0; i < 2 + below(6); ++i) {
        made.push_back(sample.input(GGML_TYPE_F32, any_size()));
    }
    const auto pick = [&] {
        const std::size_t reach =
            below(10) == 0 ? made.size() : std::min<std::size_t>(made.size(), 6);
        return made[made.size() - 1 - below(reach)];
    };
    for (int i = 0; i < nodes; ++i) {
        ggml_tensor *a = pick(), *b = pick(), *node = nullptr;
        switch (below(6)) {
            case 0:
                node = ggml_silu(sample.context(), a);
                break;
            case 1:
                node = ggml_scale(sample.context(), a, 2);
                break;
            case 2:
                node = ggml_reshape_2d(sample.context(), a, 1, ggml_nelements(a));
                break;
            case 3:
                if (ggml_are_same_shape(a, b)) node = ggml_add(sample.context(), a, b);
                [[fallthrough]];
            default:  // shapes do not matter here, only sizes
                if (node != nullptr) break;
                node = ggml_new_tensor_1d(sample.context(), GGML_TYPE_F32, any_size());
                node->op = GGML_OP_MUL_MAT;
                node->src[0] = a;
                node->src[1] = b;
        }
        made.push_back(node);
        if (i + 1 < nodes && below(50) != 0) continue;
        ggml_set_output(node);
        ggml_build_forward_expand(&sample.graph(), node);
    }
}

}  // namespace heddle::test
