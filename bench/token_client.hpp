#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ggml/ops.h"

/// A program in the manner of llama.cpp that reads one token after the other, with clocks between
/// its calls: on devices that have done everything at once, all that they show is the host's.
namespace heddle::bench {

struct TokenShape {
    int layers = 32;
    std::int64_t width = 64, heads = 4, kv_heads = 4, hidden = 128, cached = 32, words = 256;
    ggml_type weights = GGML_TYPE_F32, cache = GGML_TYPE_F32;
    bool has_words_on_host = false;  ///< the table of words, as llama.cpp has it

    std::int64_t head() const { return width / heads; }
    std::int64_t kv_width() const { return head() * kv_heads; }
};

/// What differs between the graphs of a token and of the one before it.
enum class TokenChange {
    nothing,
    names,       ///< of the nodes
    cache_size,  ///< one more row of the caches is seen
    cache_end,   ///< and keys and values are copied to a view at the end of them
};

/// Weights and caches in memory of the device.
class TokenModel {
public:
    struct Layer {
        ggml_tensor *attention_norm, *q, *k, *v, *out, *keys, *values;
        ggml_tensor *network_norm, *gate, *up, *down;
    };

    TokenModel(const TokenShape& shape, ggml_backend_buffer_type_t type)
        : shape_(shape), device_(tensors(shape)), host_(tensors(shape)) {
        const ggml_type w = shape.weights;
        for (int i = 0; i < shape.layers; ++i) {
            layers_.push_back(
                {vector(shape.width), add(w, shape.width, shape.width),
                 add(w, shape.width, shape.kv_width()), add(w, shape.width, shape.kv_width()),
                 add(w, shape.width, shape.width), add(shape.cache, shape.kv_width(), shape.cached),
                 add(shape.cache, shape.kv_width(), shape.cached), vector(shape.width),
                 add(w, shape.width, shape.hidden), add(w, shape.width, shape.hidden),
                 add(w, shape.hidden, shape.width)});
        }
        words = ggml_new_tensor_2d(shape.has_words_on_host ? host_.get() : device_.get(), w,
                                   shape.width, shape.words);
        norm = vector(shape.width);
        head = add(w, shape.width, shape.words);
        memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(device_.get(), type));
        ggml_backend_buffer_set_usage(memory_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        if (!shape.has_words_on_host) return;
        host_memory_.reset(
            ggml_backend_alloc_ctx_tensors_from_buft(host_.get(), ggml_backend_cpu_buffer_type()));
        ggml_backend_buffer_set_usage(host_memory_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }

    const TokenShape& shape() const { return shape_; }
    const std::vector<Layer>& layers() const { return layers_; }
    ggml_tensor *words, *norm, *head;

private:
    static ggml_context_ptr tensors(const TokenShape& shape) {
        const auto most = static_cast<std::size_t>(shape.layers) * 11 + 8;
        return ggml_context_ptr(ggml_init(
            {.mem_size = most * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true}));
    }
    ggml_tensor* add(ggml_type type, std::int64_t columns, std::int64_t rows) {
        return ggml_new_tensor_2d(device_.get(), type, columns, rows);
    }
    ggml_tensor* vector(std::int64_t length) { return add(GGML_TYPE_F32, length, 1); }

    const TokenShape shape_;
    ggml_context_ptr device_, host_;
    ggml_backend_buffer_ptr memory_, host_memory_;
    std::vector<Layer> layers_;
};

/// The graph of one token, built in the same memory again and again.
class TokenGraph {
public:
    explicit TokenGraph(const TokenModel& model, TokenChange change = TokenChange::nothing)
        : model_(model),
          shape_(model.shape()),
          change_(change),
          most_nodes_(model.layers().size() * 40 + 64),
          memory_(most_nodes_ * ggml_tensor_overhead() +
                  ggml_graph_overhead_custom(most_nodes_, false) + 4096),
          mask_bytes_(static_cast<std::size_t>(shape_.cached)) {
        build();
    }

    /// Of the next token.
    void build() {
        const bool grows = change_ == TokenChange::cache_size || change_ == TokenChange::cache_end;
        position_ = (position_ + 1) % (shape_.cached - 1);
        seen_ = grows ? position_ + 1 : shape_.cached;
        context_.reset();
        context_.reset(ggml_init(
            {.mem_size = memory_.size(), .mem_buffer = memory_.data(), .no_alloc = true}));
        ggml_context* const c = context_.get();
        graph = ggml_new_graph_custom(c, most_nodes_, false);
        word_ = input(ggml_new_tensor_1d(c, GGML_TYPE_I32, 1), "inp_tokens");
        place_ = input(ggml_new_tensor_1d(c, GGML_TYPE_I32, 1), "inp_pos");
        row_ = change_ == TokenChange::cache_end
                   ? nullptr
                   : input(ggml_new_tensor_1d(c, GGML_TYPE_I64, 1), "inp_rows");
        mask_ = input(ggml_new_tensor_2d(c, GGML_TYPE_F16, seen_, 1), "mask");
        ggml_tensor* x = named(ggml_get_rows(c, model_.words, word_), "inp_embd", -1);
        int number = 0;
        for (const TokenModel::Layer& layer : model_.layers()) {
            x = network(layer, attention(layer, x, number), number);
            ++number;
        }
        x = named(ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), model_.norm), "result_norm", -1);
        logits = named(ggml_mul_mat(c, model_.head, x), "result_output", -1);
        ggml_set_output(logits);
        ggml_build_forward_expand(graph, logits);
    }

    void set_inputs() {
        const std::int32_t word = ++number_ % static_cast<std::int32_t>(shape_.words);
        const auto place = static_cast<std::int32_t>(position_);
        ggml_backend_tensor_set(word_, &word, 0, sizeof word);
        ggml_backend_tensor_set(place_, &place, 0, sizeof place);
        if (row_ != nullptr) ggml_backend_tensor_set(row_, &position_, 0, sizeof position_);
        ggml_backend_tensor_set(mask_, mask_bytes_.data(), 0, ggml_nbytes(mask_));
    }

    ggml_cgraph* graph = nullptr;
    ggml_tensor* logits = nullptr;

private:
    static ggml_tensor* input(ggml_tensor* tensor, const char* name) {
        ggml_set_name(tensor, name);
        ggml_set_input(tensor);
        return tensor;
    }
    ggml_tensor* named(ggml_tensor* tensor, const char* name, int layer) {
        if (change_ == TokenChange::names) {
            ggml_format_name(tensor, "%s-%d@%d", name, layer, static_cast<int>(position_));
        } else if (layer >= 0) {
            ggml_format_name(tensor, "%s-%d", name, layer);
        } else {
            ggml_set_name(tensor, name);
        }
        return tensor;
    }
    ggml_tensor* rotated(ggml_tensor* x, std::int64_t heads) {
        ggml_context* const c = context_.get();
        x = ggml_reshape_3d(c, x, shape_.head(), heads, 1);
        return ggml_rope_ext(c, x, place_, nullptr, static_cast<int>(shape_.head()), 0, 0, 10000, 1,
                             0, 1, 0, 0);
    }
    ggml_tensor* heads_of(ggml_tensor* cache) {
        ggml_context* const c = context_.get();
        ggml_tensor* const view =
            ggml_view_3d(c, cache, shape_.head(), shape_.kv_heads, seen_,
                         ggml_row_size(cache->type, shape_.head()), cache->nb[1], 0);
        return ggml_permute(c, view, 0, 2, 1, 3);
    }
    void store(ggml_tensor* cache, ggml_tensor* row) {
        ggml_context* const c = context_.get();
        row = ggml_reshape_2d(c, row, shape_.kv_width(), 1);
        if (row_ != nullptr) {
            ggml_build_forward_expand(graph, ggml_set_rows(c, cache, row, row_));
            return;
        }
        ggml_tensor* const place = ggml_view_2d(c, cache, shape_.kv_width(), 1, cache->nb[1],
                                                static_cast<std::size_t>(position_) * cache->nb[1]);
        ggml_build_forward_expand(graph, ggml_cpy(c, row, place));
    }
    ggml_tensor* normed(ggml_tensor* x, ggml_tensor* weights, const char* name, int number) {
        ggml_context* const c = context_.get();
        return named(ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), weights), name, number);
    }
    ggml_tensor* attention(const TokenModel::Layer& layer, ggml_tensor* x, int number) {
        ggml_context* const c = context_.get();
        ggml_tensor* const y = normed(x, layer.attention_norm, "attn_norm", number);
        ggml_tensor* const q =
            named(rotated(ggml_mul_mat(c, layer.q, y), shape_.heads), "Qcur", number);
        ggml_tensor* const k =
            named(rotated(ggml_mul_mat(c, layer.k, y), shape_.kv_heads), "Kcur", number);
        ggml_tensor* const v = named(ggml_mul_mat(c, layer.v, y), "Vcur", number);
        for (ggml_tensor* each : {q, k, v}) ggml_build_forward_expand(graph, each);
        store(layer.keys, k);
        store(layer.values, v);
        ggml_tensor* seen =
            ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), heads_of(layer.keys),
                                heads_of(layer.values), mask_, 0.25F, 0, 0);
        seen = named(ggml_reshape_2d(c, seen, shape_.width, 1), "kqv_out", number);
        return named(ggml_add(c, ggml_mul_mat(c, layer.out, seen), x), "ffn_inp", number);
    }
    ggml_tensor* network(const TokenModel::Layer& layer, ggml_tensor* x, int number) {
        ggml_context* const c = context_.get();
        ggml_tensor* const y = normed(x, layer.network_norm, "ffn_norm", number);
        ggml_tensor* const gate = named(ggml_mul_mat(c, layer.gate, y), "ffn_gate", number);
        ggml_tensor* const up = named(ggml_mul_mat(c, layer.up, y), "ffn_up", number);
        ggml_tensor* const inner = named(ggml_swiglu_split(c, gate, up), "ffn_swiglu", number);
        return named(ggml_add(c, ggml_mul_mat(c, layer.down, inner), x), "l_out", number);
    }

    const TokenModel& model_;
    const TokenShape& shape_;
    const TokenChange change_;
    const std::size_t most_nodes_;
    std::vector<char> memory_;
    ggml_context_ptr context_;
    ggml_tensor *word_ = nullptr, *place_ = nullptr, *row_ = nullptr, *mask_ = nullptr;
    std::vector<ggml_fp16_t> mask_bytes_;
    std::int32_t number_ = 0;
    std::int64_t position_ = 0, seen_ = 0;
};

/// Microseconds of processor time that this thread has taken: other programs disturb it less.
inline double thread_us() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Medians in microseconds, of the host's work for one token.
struct TokenStages {
    enum Stage { building, allocating, inputs, computing, reading, kCount };
    static constexpr std::array<const char*, kCount> kNames{"building", "allocating", "inputs",
                                                            "computing", "reading"};
    std::array<double, kCount> us{};
    double all = 0;
    int nodes = 0, splits = 0;

    /// All but what the program itself does.
    double own() const { return all - us[building]; }
};

/// The stages of `runs` tokens on `stream`, scheduled by `sched`. `rebuilds`: a graph for each.
inline TokenStages measure_tokens(const TokenModel& model, ggml_backend_t stream,
                                  ggml_backend_sched_t sched, TokenChange change, bool rebuilds,
                                  int runs) {
    TokenGraph token(model, change);
    std::vector<float> logits(static_cast<std::size_t>(model.shape().words));
    std::array<std::vector<double>, TokenStages::kCount> times;
    std::vector<double> all;
    bool is_allocated = false;
    for (int run = -20; run < runs; ++run) {
        std::array<double, TokenStages::kCount + 1> at{};
        at[0] = thread_us();
        if (rebuilds) token.build();
        at[1] = thread_us();
        if (rebuilds || !is_allocated) {
            ggml_backend_sched_reset(sched);
            if (!ggml_backend_sched_alloc_graph(sched, token.graph)) std::puts("not allocated");
            is_allocated = true;
        }
        at[2] = thread_us();
        token.set_inputs();
        at[3] = thread_us();
        if (ggml_backend_sched_graph_compute_async(sched, token.graph) != GGML_STATUS_SUCCESS) {
            std::puts("not computed");
        }
        at[4] = thread_us();
        ggml_backend_tensor_get_async(stream, token.logits, logits.data(), 0,
                                      ggml_nbytes(token.logits));
        ggml_backend_sched_synchronize(sched);
        at[5] = thread_us();
        if (run < 0) continue;
        for (std::size_t i = 0; i < times.size(); ++i) times[i].push_back(at[i + 1] - at[i]);
        all.push_back(at.back() - at.front());
    }
    TokenStages stages{.all = median(all),
                       .nodes = ggml_graph_n_nodes(token.graph),
                       .splits = ggml_backend_sched_get_n_splits(sched)};
    for (std::size_t i = 0; i < times.size(); ++i) stages.us[i] = median(times[i]);
    return stages;
}

inline void print_stages(const TokenModel& model, ggml_backend_t stream, ggml_backend_sched_t sched,
                         int runs) {
    std::printf("%-28s %6s %6s", "graph", "nodes", "splits");
    for (const char* name : TokenStages::kNames) std::printf(" %10s", name);
    std::printf(" %10s %12s %9s\n", "own us", "ns per node", "tokens/s");
    struct Row {
        const char* name;
        TokenChange change;
        bool rebuilds;
    };
    constexpr std::array kRows{Row{"reused", TokenChange::nothing, false},
                               Row{"built again", TokenChange::nothing, true},
                               Row{"other names", TokenChange::names, true},
                               Row{"one more row seen", TokenChange::cache_size, true},
                               Row{"and copied to a view", TokenChange::cache_end, true}};
    for (const Row& row : kRows) {
        const TokenStages stages =
            measure_tokens(model, stream, sched, row.change, row.rebuilds, runs);
        std::printf("%-28s %6d %6d", row.name, stages.nodes, stages.splits);
        for (const double us : stages.us) std::printf(" %10.2f", us);
        std::printf(" %10.2f %12.1f %9.0f\n", stages.own(), stages.own() * 1e3 / stages.nodes,
                    1e6 / stages.all);
        std::fflush(stdout);
    }
}

}  // namespace heddle::bench
