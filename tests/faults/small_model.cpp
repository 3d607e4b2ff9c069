#include "tests/faults/small_model.hpp"

#include <array>
#include <cmath>

#include "ggml/ops.h"

namespace heddle::faults {
namespace {

/// Numbers between -0.5 and 0.5 that differ from tensor to tensor.
void numbers(std::span<float> values, unsigned seed) {
    for (float& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24) - 0.5f;
    }
}

}  // namespace

SmallModel::SmallModel(Run& run)
    : context_(run.made("the context of the model", [] {
          return ggml_init({.mem_size = 1 << 18, .mem_buffer = nullptr, .no_alloc = true});
      })) {
    words_ = run.made("the words",
                      [&] { return ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, kTokens); });
    positions_ = run.made("the positions", [&] {
        return ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, kTokens);
    });
    ggml_tensor* x = node(run, ggml_get_rows, weights(run, kWidth, kWords), words_);
    x = node(run, ggml_add, x, attention(run, node(run, ggml_rms_norm, x, 1e-5f)));
    ggml_tensor* y = node(run, ggml_norm, x, 1e-5f);
    ggml_tensor* gate = node(run, ggml_mul_mat, weights(run, kWidth, 2 * kWidth), y);
    ggml_tensor* up = node(run, ggml_mul_mat, weights(run, kWidth, 2 * kWidth), y);
    y = node(run, ggml_swiglu_split, gate, up);
    y = node(run, ggml_mul_mat, weights(run, 2 * kWidth, kWidth), y);
    result_ = node(run, ggml_add, x, y);
    ggml_set_output(result_);
    graph_ = run.made("the graph of the model",
                      [&] { return ggml_new_graph_custom(context_.get(), 64, false); });
    run.done("expanding the model", [&] { ggml_build_forward_expand(graph_, result_); });
}

ggml_tensor* SmallModel::weights(Run& run, std::int64_t columns, std::int64_t rows) {
    return run.made("weights", [&] {
        return ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, columns, rows);
    });
}

ggml_tensor* SmallModel::attention(Run& run, ggml_tensor* x) {
    const auto heads = [&](ggml_tensor* y) {
        y = node(run, ggml_reshape_3d, y, kWidth / 2, std::int64_t{2}, kTokens);
        y = node(run, ggml_rope, y, positions_, static_cast<int>(kWidth / 2), 0);
        return node(run, ggml_permute, y, 0, 2, 1, 3);
    };
    ggml_tensor* q = heads(node(run, ggml_mul_mat, weights(run, kWidth, kWidth), x));
    ggml_tensor* k = heads(node(run, ggml_mul_mat, weights(run, kWidth, kWidth), x));
    ggml_tensor* scores = node(run, ggml_soft_max, node(run, ggml_mul_mat, k, q));
    ggml_tensor* v = node(run, ggml_mul_mat, weights(run, kWidth, kWidth), x);
    v = node(run, ggml_reshape_3d, v, kWidth / 2, std::int64_t{2}, kTokens);
    v = node(run, ggml_cont, node(run, ggml_permute, v, 1, 2, 0, 3));
    ggml_tensor* mixed = node(run, ggml_mul_mat, v, scores);
    mixed = node(run, ggml_permute, mixed, 0, 2, 1, 3);
    return node(run, ggml_cont_2d, mixed, kWidth, kTokens);
}

void SmallModel::set_values() const {
    std::array<float, 2 * kWidth * kWidth> values;
    unsigned seed = 1;
    for (ggml_tensor* tensor = ggml_get_first_tensor(context()); tensor != nullptr;
         tensor = ggml_get_next_tensor(context(), tensor)) {
        if (tensor->op != GGML_OP_NONE || tensor->type != GGML_TYPE_F32) continue;
        numbers(values, seed++);
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
    std::array<std::int32_t, kTokens> words{3, 1, 4, 1, 5, 9, 2, 6},
        positions{0, 1, 2, 3, 4, 5, 6, 7};
    ggml_backend_tensor_set(words_, words.data(), 0, sizeof words);
    ggml_backend_tensor_set(positions_, positions.data(), 0, sizeof positions);
}

void SmallModel::fill(Run& run) const {
    run.done("filling the model", [&] { set_values(); });
}

void SmallModel::check(Run& run) const {
    static std::array<float, kResults> first;
    static bool is_known = false;
    std::array<float, kResults> values;
    run.done("reading the result",
             [&] { ggml_backend_tensor_get(result_, values.data(), 0, sizeof values); });
    if (!is_known) first = values;
    is_known = true;
    run.expect("the result is a number", std::isfinite(values[0]) && values[0] != 0);
    run.expect_near("the result is that of the first run", values, first);
}

}  // namespace heddle::faults
