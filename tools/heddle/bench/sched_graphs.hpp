#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops.h"

/// Graphs for the benchmarks of the scheduler, `heddle bench sched` and `bench/sched_bench.cpp`:
/// weights that stay, and graphs over them that are built again and again.
namespace heddle::bench {

struct Shape {
    int layers = 32;
    std::int64_t width = 32, heads = 4, hidden = 64, tokens = 2, cached = 32;
};

/// Memory for tensors of models and graphs.
class Arena {
public:
    explicit Arena(std::size_t tensors, std::size_t nodes = 0)
        : context_(ggml_init(
              {.mem_size = tensors * ggml_tensor_overhead() +
                           (nodes == 0 ? 0 : ggml_graph_overhead_custom(nodes, false)) + 4096,
               .mem_buffer = nullptr,
               .no_alloc = true})) {}

    ggml_context* get() const { return context_.get(); }
    void clear() { ggml_reset(context_.get()); }

private:
    ggml_context_ptr context_;
};

/// Weights and caches of a language model, each layer on a device of its own choice.
class Model {
public:
    struct Layer {
        ggml_tensor *attention_norm, *q, *k, *v, *out, *keys, *values;
        ggml_tensor *network_norm, *gate, *up, *down;
    };

    /// `home` gives the buffer type for the weights of a layer; caches go to `cache_home`.
    Model(const Shape& shape, const std::function<ggml_backend_buffer_type_t(int)>& home,
          const std::function<ggml_backend_buffer_type_t(int)>& cache_home)
        : shape_(shape) {
        const auto add = [](ggml_context* context, std::int64_t columns, std::int64_t rows) {
            return ggml_new_tensor_2d(context, GGML_TYPE_F32, columns, rows);
        };
        for (int i = 0; i < shape.layers; ++i) {
            ggml_context* w = context_for(home(i), true);
            ggml_context* c = context_for(cache_home(i), false);
            const std::int64_t n = shape.width, h = shape.hidden;
            layers_.push_back({add(w, n, 1), add(w, n, n), add(w, n, n), add(w, n, n), add(w, n, n),
                               add(c, n, shape.cached), add(c, shape.cached, n), add(w, n, 1),
                               add(w, n, h), add(w, n, h), add(w, h, n)});
        }
        for (Home& each : homes_) {
            each.buffer.reset(
                ggml_backend_alloc_ctx_tensors_from_buft(each.arena->get(), each.type));
            ggml_backend_buffer_clear(each.buffer.get(), 0);
            if (each.is_weights) {
                ggml_backend_buffer_set_usage(each.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            }
        }
    }

    const Shape& shape() const { return shape_; }
    const Layer& layer(int i) const { return layers_[static_cast<std::size_t>(i)]; }

private:
    struct Home {
        ggml_backend_buffer_type_t type;
        bool is_weights;
        std::unique_ptr<Arena> arena;
        ggml_backend_buffer_ptr buffer;
    };

    ggml_context* context_for(ggml_backend_buffer_type_t type, bool is_weights) {
        for (const Home& home : homes_) {
            if (home.type == type && home.is_weights == is_weights) return home.arena->get();
        }
        const auto tensors = static_cast<std::size_t>(shape_.layers) * 12 + 8;
        homes_.push_back({type, is_weights, std::make_unique<Arena>(tensors), nullptr});
        return homes_.back().arena->get();
    }

    Shape shape_;
    std::vector<Home> homes_;
    std::vector<Layer> layers_;
};

/// A transformer over a model: attention over cached keys and values, then a gated network.
class TransformerBuilder {
public:
    TransformerBuilder(const Model& model, Arena& arena, std::size_t capacity)
        : model_(model),
          c_(arena.get()),
          graph_(ggml_new_graph_custom(c_, capacity, false)),
          head_(model.shape().width / model.shape().heads) {}

    /// `layers` may be fewer than the model has.
    ggml_cgraph* build(int layers) {
        const Shape& d = model_.shape();
        ggml_tensor* x = ggml_new_tensor_2d(c_, GGML_TYPE_F32, d.width, d.tokens);
        ggml_set_input(x);
        ggml_set_name(x, "tokens");
        positions_ = ggml_new_tensor_1d(c_, GGML_TYPE_I32, d.tokens);
        ggml_set_input(positions_);
        ggml_set_name(positions_, "positions");
        for (int i = 0; i < layers; ++i) x = layer(model_.layer(i), x);
        ggml_set_output(x);
        ggml_set_name(x, "result");
        ggml_build_forward_expand(graph_, x);
        return graph_;
    }

private:
    ggml_tensor* norm(ggml_tensor* x, ggml_tensor* gain) {
        return ggml_mul(c_, ggml_rms_norm(c_, x, 1e-5f), gain);
    }
    ggml_tensor* rotated(ggml_tensor* x) {
        const Shape& d = model_.shape();
        x = ggml_reshape_3d(c_, x, head_, d.heads, d.tokens);
        return ggml_rope(c_, x, positions_, static_cast<int>(head_), 0);
    }
    void store(ggml_tensor* x, ggml_tensor* cache) {
        ggml_tensor* end = ggml_view_1d(c_, cache, ggml_nelements(x), 0);
        ggml_build_forward_expand(graph_, ggml_cpy(c_, x, end));
    }

    ggml_tensor* attention(const Model::Layer& w, ggml_tensor* x) {
        const Shape& d = model_.shape();
        ggml_tensor* q = rotated(ggml_mul_mat(c_, w.q, x));
        store(rotated(ggml_mul_mat(c_, w.k, x)), w.keys);
        store(ggml_mul_mat(c_, w.v, x), w.values);
        ggml_tensor* keys = ggml_reshape_3d(c_, w.keys, head_, d.heads, d.cached);
        ggml_tensor* values = ggml_reshape_3d(c_, w.values, d.cached, head_, d.heads);
        ggml_tensor* scores =
            ggml_mul_mat(c_, ggml_permute(c_, keys, 0, 2, 1, 3), ggml_permute(c_, q, 0, 2, 1, 3));
        scores = ggml_soft_max_ext(c_, scores, nullptr, 0.1f, 0.0f);
        ggml_tensor* mixed = ggml_mul_mat(c_, values, scores);
        mixed = ggml_cont_2d(c_, ggml_permute(c_, mixed, 0, 2, 1, 3), d.width, d.tokens);
        return ggml_mul_mat(c_, w.out, mixed);
    }

    ggml_tensor* layer(const Model::Layer& w, ggml_tensor* x) {
        x = ggml_add(c_, attention(w, norm(x, w.attention_norm)), x);
        ggml_tensor* y = norm(x, w.network_norm);
        ggml_tensor* gate = ggml_silu(c_, ggml_mul_mat(c_, w.gate, y));
        ggml_tensor* mixed = ggml_mul(c_, gate, ggml_mul_mat(c_, w.up, y));
        return ggml_add(c_, ggml_mul_mat(c_, w.down, mixed), x);
    }

    const Model& model_;
    ggml_context* c_;
    ggml_cgraph* graph_;
    std::int64_t head_;
    ggml_tensor* positions_ = nullptr;
};

/// One unary op after the other.
inline ggml_cgraph* build_chain(Arena& arena, std::size_t nodes) {
    ggml_tensor* x = ggml_new_tensor_1d(arena.get(), GGML_TYPE_F32, 16);
    ggml_set_input(x);
    ggml_cgraph* graph = ggml_new_graph_custom(arena.get(), nodes + 8, false);
    for (std::size_t i = 0; i < nodes; ++i) {
        x = i % 2 == 0 ? ggml_silu(arena.get(), x) : ggml_neg(arena.get(), x);
    }
    ggml_set_output(x);
    ggml_build_forward_expand(graph, x);
    return graph;
}

}  // namespace heddle::bench
