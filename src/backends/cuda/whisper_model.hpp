#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "ggml-cpp.h"
#include "ggml/ops.h"

/// A small model in the manner of whisper.cpp's, and how its graphs are written down: for
/// whisper_test.cpp.
namespace heddle::cuda::whisper {

inline constexpr int kMels = 20, kFrames = 75, kState = 128, kHeads = 2, kHead = kState / kHeads;
inline constexpr int kWords = 200, kContext = 96, kLayers = 2;
inline constexpr float kEpsilon = 1e-5f;

struct Attention {
    ggml_tensor *q, *q_bias, *k, *v, *v_bias, *out, *out_bias;
};
struct Norm {
    ggml_tensor *weight, *bias;
};
struct Network {
    Norm norm;
    ggml_tensor *up, *up_bias, *down, *down_bias;
};
struct EncoderLayer {
    Norm norm;
    Attention attention;
    Network network;
};
struct DecoderLayer {
    Norm norm, cross_norm;
    Attention attention, cross;
    Network network;
    ggml_tensor *keys = nullptr, *values = nullptr;  ///< caches
    ggml_tensor *cross_keys = nullptr, *cross_values = nullptr;
};

/// Weights and caches, the same numbers wherever they lie.
class Model {
public:
    explicit Model(ggml_backend_t place) {
        conv1 = tensor(GGML_TYPE_F16, {3, kMels, kState}), conv1_bias = tensor({1, kState});
        conv2 = tensor(GGML_TYPE_F16, {3, kState, kState}), conv2_bias = tensor({1, kState});
        positions = tensor({kState, kFrames}), text_positions = tensor({kState, kContext});
        words = tensor(GGML_TYPE_F16, {kState, kWords});
        for (EncoderLayer& layer : encoder) {
            layer = {norm(), attention(), network()};
        }
        for (DecoderLayer& layer : decoder) {
            layer = {norm(), norm(), attention(), attention(), network()};
            for (ggml_tensor** cache : {&layer.keys, &layer.values}) {
                *cache = tensor(GGML_TYPE_F16, {kState * kContext});
            }
            for (ggml_tensor** cache : {&layer.cross_keys, &layer.cross_values}) {
                *cache = tensor(GGML_TYPE_F16, {kState * kFrames});
            }
        }
        encoder_norm = norm(), decoder_norm = norm();
        encoded = tensor({kState, kFrames});
        memory_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), place));
        std::mt19937 random(11);
        for (ggml_tensor* t = ggml_get_first_tensor(context_.get()); t != nullptr;
             t = ggml_get_next_tensor(context_.get(), t)) {
            fill(t, random);
        }
    }

    ggml_tensor *conv1, *conv1_bias, *conv2, *conv2_bias, *positions, *text_positions, *words;
    std::array<EncoderLayer, kLayers> encoder{};
    std::array<DecoderLayer, kLayers> decoder{};
    Norm encoder_norm{}, decoder_norm{};
    ggml_tensor* encoded;

private:
    ggml_tensor* tensor(ggml_type type, std::vector<std::int64_t> extents) const {
        return ggml_new_tensor(context_.get(), type, static_cast<int>(extents.size()),
                               extents.data());
    }
    ggml_tensor* tensor(std::vector<std::int64_t> extents) const {
        return tensor(GGML_TYPE_F32, std::move(extents));
    }
    ggml_tensor* matrix(int columns, int rows) const {
        return tensor(GGML_TYPE_F16, {columns, rows});
    }
    Norm norm() const { return {tensor({kState}), tensor({kState})}; }
    Attention attention() const {
        return {matrix(kState, kState), tensor({kState}), matrix(kState, kState),
                matrix(kState, kState), tensor({kState}), matrix(kState, kState),
                tensor({kState})};
    }
    Network network() const {
        return {norm(), matrix(kState, 4 * kState), tensor({4 * kState}),
                matrix(4 * kState, kState), tensor({kState})};
    }
    static void fill(ggml_tensor* t, std::mt19937& random) {
        std::normal_distribution<float> normal(0, 0.1f);
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(t)));
        for (float& value : values) value = normal(random) + (t->ne[1] == 1 ? 0.5f : 0.0f);
        if (t->type == GGML_TYPE_F32) {
            ggml_backend_tensor_set(t, values.data(), 0, ggml_nbytes(t));
            return;
        }
        std::vector<ggml_fp16_t> halves(values.size());
        ggml_fp32_to_fp16_row(values.data(), halves.data(), ggml_nelements(t));
        ggml_backend_tensor_set(t, halves.data(), 0, ggml_nbytes(t));
    }

    ggml_context_ptr context_{
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_backend_buffer_ptr memory_;
};

/// Writes one graph down.
class Builder {
public:
    Builder(ggml_context* context, ggml_cgraph* graph, bool is_flash)
        : c(context), graph(graph), is_flash_(is_flash) {}

    ggml_context* const c;
    ggml_cgraph* const graph;

    ggml_tensor* product(ggml_tensor* weight, ggml_tensor* x, ggml_tensor* bias = nullptr) const {
        ggml_tensor* const y = ggml_mul_mat(c, weight, x);
        return bias != nullptr ? ggml_add(c, y, bias) : y;
    }
    ggml_tensor* normed(ggml_tensor* x, const Norm& norm) const {
        return ggml_add(c, ggml_mul(c, ggml_norm(c, x, kEpsilon), norm.weight), norm.bias);
    }
    ggml_tensor* network(ggml_tensor* x, const Network& layer) const {
        ggml_tensor* const inner =
            ggml_gelu(c, product(layer.up, normed(x, layer.norm), layer.up_bias));
        return ggml_add(c, product(layer.down, inner, layer.down_bias), x);
    }
    ggml_tensor* queries(const Attention& layer, ggml_tensor* x) const {
        ggml_tensor* const q = product(layer.q, x, layer.q_bias);
        return ggml_permute(c, ggml_reshape_3d(c, q, kHead, kHeads, x->ne[1]), 0, 2, 1, 3);
    }
    /// `x` goes to row `at` of a cache as rows of keys or, for attention that is written out,
    /// values as columns.
    void keep(ggml_tensor* cache, ggml_tensor* x, int at, bool as_columns) const {
        const std::int64_t rows = x->ne[1], room = ggml_nelements(cache) / kState;
        const std::size_t half = sizeof(ggml_fp16_t), first = static_cast<std::size_t>(at);
        ggml_tensor* to = nullptr;
        if (as_columns) {
            to = ggml_view_2d(c, cache, rows, kState, static_cast<std::size_t>(room) * half,
                              first * half);
            x = ggml_transpose(c, ggml_reshape_2d(c, x, kState, rows));
        } else {
            to = ggml_view_1d(c, cache, rows * kState, first * kState * half);
        }
        ggml_build_forward_expand(graph, ggml_cpy(c, x, to));
    }
    ggml_tensor* keys(ggml_tensor* cache, std::int64_t seen) const {
        const std::size_t half = sizeof(ggml_fp16_t);
        return ggml_view_3d(c, cache, kHead, seen, kHeads, half * kState, half * kHead, 0);
    }
    /// Attention over caches; `mask` is f32 or null.
    ggml_tensor* attend(ggml_tensor* q, ggml_tensor* k_cache, ggml_tensor* v_cache,
                        std::int64_t seen, ggml_tensor* mask) const {
        const float scale = 1 / std::sqrt(float{kHead});
        ggml_tensor* const k = keys(k_cache, seen);
        const std::int64_t tokens = q->ne[1];
        if (is_flash_) {
            ggml_tensor* const halves =
                mask != nullptr ? ggml_cast(c, mask, GGML_TYPE_F16) : nullptr;
            ggml_tensor* const y =
                ggml_flash_attn_ext(c, q, k, keys(v_cache, seen), halves, scale, 0, 0);
            return ggml_reshape_2d(c, y, kState, tokens);
        }
        const std::size_t half = sizeof(ggml_fp16_t);
        const auto room = static_cast<std::size_t>(ggml_nelements(v_cache) / kState);
        ggml_tensor* const v =
            ggml_view_3d(c, v_cache, seen, kHead, kHeads, room * half, room * half * kHead, 0);
        ggml_tensor* const weights = ggml_soft_max_ext(c, ggml_mul_mat(c, k, q), mask, scale, 0);
        ggml_tensor* const y = ggml_permute(c, ggml_mul_mat(c, v, weights), 0, 2, 1, 3);
        return ggml_cont_2d(c, y, kState, tokens);
    }
    /// The encoder's: nothing is kept, keys and values become halves on the way.
    ggml_tensor* attend_all(const Attention& layer, ggml_tensor* x) const {
        const std::int64_t frames = x->ne[1];
        const float scale = 1 / std::sqrt(float{kHead});
        const auto heads = [&](ggml_tensor* t) {
            return ggml_reshape_3d(c, t, kHead, kHeads, frames);
        };
        ggml_tensor* const q = queries(layer, x);
        ggml_tensor* const k =
            ggml_permute(c, ggml_cast(c, heads(product(layer.k, x)), GGML_TYPE_F16), 0, 2, 1, 3);
        ggml_tensor* const v = heads(product(layer.v, x, layer.v_bias));
        if (is_flash_) {
            ggml_tensor* const values = ggml_permute(c, ggml_cast(c, v, GGML_TYPE_F16), 0, 2, 1, 3);
            ggml_tensor* const y = ggml_flash_attn_ext(c, q, k, values, nullptr, scale, 0, 0);
            return ggml_reshape_2d(c, y, kState, frames);
        }
        ggml_tensor* const columns = ggml_cast(c, ggml_permute(c, v, 1, 2, 0, 3), GGML_TYPE_F16);
        ggml_tensor* const weights = ggml_soft_max_ext(c, ggml_mul_mat(c, k, q), nullptr, scale, 0);
        ggml_tensor* const y = ggml_permute(c, ggml_mul_mat(c, columns, weights), 0, 2, 1, 3);
        return ggml_cont_2d(c, y, kState, frames);
    }

private:
    const bool is_flash_;
};

}  // namespace heddle::cuda::whisper
