// A client in the manner of llama.cpp: weights on the device, embeddings and inputs on the host, a
// cache written by SET_ROWS, graphs that are reserved and reused.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml/ops.h"
#include "heddle/heddle.h"

namespace heddle::cuda {

inline constexpr int kLayers = 2, kWidth = 128, kHeads = 4, kKeyHeads = 2, kHead = 32,
                     kHidden = 256, kWords = 300, kContext = 256, kKeyWidth = kKeyHeads * kHead;

struct Layer {
    ggml_tensor *norm, *q, *k, *v, *output, *ffn_norm, *gate, *up, *down, *keys, *values;
};

/// The same numbers wherever it lies.
class Model {
public:
    Model() {
        embeddings_ = ggml_new_tensor_2d(on_host_.get(), GGML_TYPE_Q8_0, kWidth, kWords);
        for (Layer& layer : layers_) {
            layer.norm = vector(), layer.ffn_norm = vector();
            layer.q = matrix(GGML_TYPE_Q8_0, kWidth, kWidth);
            layer.k = matrix(GGML_TYPE_Q8_0, kWidth, kKeyWidth);
            layer.v = matrix(GGML_TYPE_F16, kWidth, kKeyWidth);
            layer.output = matrix(GGML_TYPE_Q4_0, kWidth, kWidth);
            layer.gate = matrix(GGML_TYPE_Q8_0, kWidth, kHidden);
            layer.up = matrix(GGML_TYPE_F16, kWidth, kHidden);
            layer.down = matrix(GGML_TYPE_Q8_0, kHidden, kWidth);
            layer.keys = matrix(GGML_TYPE_F16, kKeyWidth, kContext);
            layer.values = matrix(GGML_TYPE_F16, kKeyWidth, kContext);
        }
        output_ = matrix(GGML_TYPE_Q8_0, kWidth, kWords);
    }

    /// Memory on these streams, and numbers in it. False, with heddle_last_error(), if that fails.
    bool fill(ggml_backend_t place, ggml_backend_t host) {
        memory_.reset(ggml_backend_alloc_ctx_tensors(on_device_.get(), place));
        host_memory_.reset(ggml_backend_alloc_ctx_tensors(on_host_.get(), host));
        if (memory_ == nullptr || host_memory_ == nullptr) return false;
        for (const ggml_backend_buffer_ptr* memory : {&memory_, &host_memory_}) {
            ggml_backend_buffer_set_usage(memory->get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        }
        std::mt19937 random(5);
        for (ggml_context* context : {on_host_.get(), on_device_.get()}) write(context, random);
        clear_caches(0);
        return *heddle_last_error() == '\0';
    }

    struct Inputs {
        ggml_tensor *tokens, *positions, *rows, *mask, *logits;
    };

    Inputs build(ggml_context* context, ggml_cgraph* graph, int tokens) const {
        Inputs inputs{};
        const auto input = [&](ggml_tensor* tensor) {
            ggml_set_input(tensor);
            return tensor;
        };
        inputs.tokens = input(ggml_new_tensor_1d(context, GGML_TYPE_I32, tokens));
        inputs.positions = input(ggml_new_tensor_1d(context, GGML_TYPE_I32, tokens));
        inputs.rows = input(ggml_new_tensor_1d(context, GGML_TYPE_I64, tokens));
        inputs.mask = input(ggml_new_tensor_2d(context, GGML_TYPE_F16, kContext, tokens));
        ggml_tensor* x = ggml_get_rows(context, embeddings_, inputs.tokens);
        for (const Layer& layer : layers_) x = add_layer(context, graph, layer, x, inputs, tokens);
        x = ggml_view_2d(context, x, kWidth, 1, x->nb[1],
                         x->nb[1] * static_cast<std::size_t>(tokens - 1));
        inputs.logits = ggml_mul_mat(context, output_, ggml_rms_norm(context, x, 1e-5f));
        ggml_set_output(inputs.logits);
        ggml_build_forward_expand(graph, inputs.logits);
        return inputs;
    }

    using State = std::vector<std::vector<std::uint8_t>>;
    State save() const {
        State state;
        for (const Layer& layer : layers_) {
            for (const ggml_tensor* cache : {layer.keys, layer.values}) {
                state.emplace_back(ggml_nbytes(cache));
                ggml_backend_tensor_get(cache, state.back().data(), 0, state.back().size());
            }
        }
        return state;
    }
    void restore(const State& state) {
        std::size_t number = 0;
        for (const Layer& layer : layers_) {
            for (ggml_tensor* cache : {layer.keys, layer.values}) {
                ggml_backend_tensor_set(cache, state[number].data(), 0, state[number].size());
                ++number;
            }
        }
    }
    void clear_caches(std::uint8_t byte) {
        for (const Layer& layer : layers_) {
            for (ggml_tensor* cache : {layer.keys, layer.values}) {
                ggml_backend_tensor_memset(cache, byte, 0, ggml_nbytes(cache));
            }
        }
    }

private:
    ggml_tensor* vector() const {
        return ggml_new_tensor_1d(on_device_.get(), GGML_TYPE_F32, kWidth);
    }
    ggml_tensor* matrix(ggml_type type, int columns, int rows) const {
        return ggml_new_tensor_2d(on_device_.get(), type, columns, rows);
    }
    static void write(ggml_context* context, std::mt19937& random) {
        std::normal_distribution<float> normal(0, 0.12f);
        for (ggml_tensor* t = ggml_get_first_tensor(context); t != nullptr;
             t = ggml_get_next_tensor(context, t)) {
            std::vector<float> values(static_cast<std::size_t>(ggml_nelements(t)));
            for (float& value : values) value = normal(random) + (t->ne[1] == 1 ? 1.0f : 0.0f);
            std::vector<std::uint8_t> bytes(ggml_nbytes(t));
            ggml_quantize_chunk(t->type, values.data(), bytes.data(), 0, ggml_nrows(t), t->ne[0],
                                nullptr);
            if (t->type == GGML_TYPE_F32) std::memcpy(bytes.data(), values.data(), bytes.size());
            ggml_backend_tensor_set(t, bytes.data(), 0, bytes.size());
        }
    }

    static ggml_tensor* cached(ggml_context* context, ggml_tensor* cache) {
        return ggml_permute(context, ggml_reshape_3d(context, cache, kHead, kKeyHeads, kContext), 0,
                            2, 1, 3);
    }
    static ggml_tensor* add_layer(ggml_context* context, ggml_cgraph* graph, const Layer& layer,
                                  ggml_tensor* x, const Inputs& inputs, int tokens) {
        const auto normed = [&](ggml_tensor* what, ggml_tensor* weight) {
            return ggml_mul(context, ggml_rms_norm(context, what, 1e-5f), weight);
        };
        const auto turned = [&](ggml_tensor* what, int heads) {
            return ggml_rope(context, ggml_reshape_3d(context, what, kHead, heads, tokens),
                             inputs.positions, kHead, 0);
        };
        ggml_tensor* const h = normed(x, layer.norm);
        ggml_tensor* const q = turned(ggml_mul_mat(context, layer.q, h), kHeads);
        ggml_tensor* const k = turned(ggml_mul_mat(context, layer.k, h), kKeyHeads);
        ggml_tensor* const v = ggml_mul_mat(context, layer.v, h);
        ggml_build_forward_expand(
            graph, ggml_set_rows(context, layer.keys,
                                 ggml_reshape_2d(context, k, kKeyWidth, tokens), inputs.rows));
        ggml_build_forward_expand(graph, ggml_set_rows(context, layer.values, v, inputs.rows));
        ggml_tensor* attention = ggml_flash_attn_ext(
            context, ggml_permute(context, q, 0, 2, 1, 3), cached(context, layer.keys),
            cached(context, layer.values), inputs.mask, 1 / std::sqrt(float{kHead}), 0, 0);
        attention = ggml_reshape_2d(context, attention, kWidth, tokens);
        x = ggml_add(context, x, ggml_mul_mat(context, layer.output, attention));
        ggml_tensor* const f = normed(x, layer.ffn_norm);
        ggml_tensor* const gated = ggml_swiglu_split(context, ggml_mul_mat(context, layer.gate, f),
                                                     ggml_mul_mat(context, layer.up, f));
        return ggml_add(context, x, ggml_mul_mat(context, layer.down, gated));
    }

    static ggml_context_ptr tensors_only() {
        return ggml_context_ptr(
            ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
    }
    ggml_context_ptr on_device_ = tensors_only(), on_host_ = tensors_only();
    ggml_backend_buffer_ptr memory_, host_memory_;
    std::array<Layer, kLayers> layers_{};
    ggml_tensor *embeddings_ = nullptr, *output_ = nullptr;
};

/// Reads tokens; keeps its graph while the number of tokens stays the same.
class Client {
public:
    /// On the CPU alone if `number` is negative. Null, with heddle_last_error(), if anything
    /// fails.
    static std::unique_ptr<Client> load(int number) {
        heddle_clear_error();
        auto client = std::make_unique<Client>();
        client->cpu_.reset(ggml_backend_cpu_init());
        std::vector<ggml_backend_t> streams{client->cpu_.get()};
        if (number >= 0) {
            client->device_.reset(ggml_backend_cuda_init(number));
            if (client->device_ == nullptr) return nullptr;
            streams.insert(streams.begin(), client->device_.get());
        }
        if (!client->model_.fill(streams.front(), streams.back())) return nullptr;
        client->scheduler_.reset(ggml_backend_sched_new(
            streams.data(), nullptr, static_cast<int>(streams.size()), 512, false, true));
        client->describe(32);
        if (client->scheduler_ == nullptr ||
            !ggml_backend_sched_reserve(client->scheduler_.get(), client->graph_)) {
            return nullptr;
        }
        return client;
    }

    bool reuses = true;
    Model& model() { return model_; }
    ggml_backend_sched_t scheduler() { return scheduler_.get(); }

    /// None, with heddle_last_error(), if anything fails; it may be tried again.
    std::optional<std::vector<float>> try_read(const std::vector<std::int32_t>& tokens,
                                               int position) {
        heddle_clear_error();
        const auto count = static_cast<int>(tokens.size());
        if (count != tokens_ || !reuses || !is_placed_) {
            describe(count);
            ggml_backend_sched_reset(scheduler_.get());
            if (!ggml_backend_sched_alloc_graph(scheduler_.get(), graph_)) return std::nullopt;
            is_placed_ = true;
        }
        write_inputs(tokens, position);
        if (*heddle_last_error() != '\0') return std::nullopt;
        if (ggml_backend_sched_graph_compute(scheduler_.get(), graph_) != GGML_STATUS_SUCCESS) {
            return std::nullopt;
        }
        std::vector<float> logits(kWords);
        ggml_backend_tensor_get(inputs_.logits, logits.data(), 0, kWords * sizeof(float));
        if (*heddle_last_error() != '\0') return std::nullopt;
        return logits;
    }
    std::vector<float> read(const std::vector<std::int32_t>& tokens, int position) {
        const auto logits = try_read(tokens, position);
        EXPECT_TRUE(logits) << heddle_last_error();
        return logits.value_or(std::vector<float>(kWords));
    }

private:
    void describe(int tokens) {
        tokens_ = tokens;
        is_placed_ = false;
        context_.reset(ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true}));
        graph_ = ggml_new_graph(context_.get());
        inputs_ = model_.build(context_.get(), graph_, tokens);
    }
    void write_inputs(const std::vector<std::int32_t>& tokens, int position) const {
        std::vector<std::int32_t> positions;
        std::vector<std::int64_t> rows;
        std::vector<ggml_fp16_t> mask;
        for (int i = 0; i < tokens_; ++i) {
            positions.push_back(position + i);
            rows.push_back(position + i);
            for (int j = 0; j < kContext; ++j) {
                mask.push_back(ggml_fp32_to_fp16(j <= position + i ? 0.0f : -INFINITY));
            }
        }
        const auto write = [](ggml_tensor* to, const auto& from) {
            ggml_backend_tensor_set(to, from.data(), 0, from.size() * sizeof from[0]);
        };
        write(inputs_.tokens, tokens);
        write(inputs_.positions, positions);
        write(inputs_.rows, rows);
        write(inputs_.mask, mask);
    }

    ggml_backend_ptr cpu_, device_;
    Model model_;
    ggml_backend_sched_ptr scheduler_;
    ggml_context_ptr context_;
    ggml_cgraph* graph_ = nullptr;
    Model::Inputs inputs_{};
    int tokens_ = 0;
    bool is_placed_ = false;
};

inline std::vector<std::int32_t> prompt_of(int count) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < count; ++i) tokens.push_back((17 * i + 3) % kWords);
    return tokens;
}

/// Logits of `count` tokens one by one, after so many.
inline std::vector<std::vector<float>> decode(Client& client, int position, int count) {
    std::vector<std::vector<float>> all;
    for (int i = 0; i < count; ++i) {
        all.push_back(client.read({(31 * (position + i) + 7) % kWords}, position + i));
    }
    return all;
}

}  // namespace heddle::cuda
