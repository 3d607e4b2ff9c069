#include "bench/cases.hpp"
#include "ggml/ops.h"

/// What training adds to a language model: the loss, gradients that are ops, and the optimiser.
namespace heddle::tool::bench {
namespace {

using enum SizedOp::Beside;

ggml_tensor* rows_of(Inputs& inputs, std::int64_t columns, std::int64_t rows) {
    return inputs.input(GGML_TYPE_F32, {columns, rows});
}

constexpr std::int64_t kWidth = 4096, kWords = 32000;

ggml_tensor* loss(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* logits = rows_of(inputs, kWords, tokens);
    return ggml_cross_entropy_loss(inputs.context(), logits, rows_of(inputs, kWords, tokens));
}

ggml_tensor* loss_back(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* gradient = inputs.input(GGML_TYPE_F32, {1});
    ggml_tensor* logits = rows_of(inputs, kWords, tokens);
    return ggml_cross_entropy_loss_back(inputs.context(), gradient, logits,
                                        rows_of(inputs, kWords, tokens));
}

ggml_tensor* weights(Inputs& inputs, std::int64_t rows) {
    ggml_tensor* w = rows_of(inputs, kWidth, rows);
    if (w != nullptr) ggml_set_param(w);
    return w;
}

ggml_tensor* adam(Inputs& inputs, std::int64_t rows, ggml_type) {
    ggml_tensor* w = weights(inputs, rows);
    ggml_tensor* gradient = rows_of(inputs, kWidth, rows);
    ggml_tensor* mean = rows_of(inputs, kWidth, rows);
    ggml_tensor* square = rows_of(inputs, kWidth, rows);
    return ggml_opt_step_adamw(inputs.context(), w, gradient, mean, square,
                               inputs.input(GGML_TYPE_F32, {7}));
}

ggml_tensor* descent(Inputs& inputs, std::int64_t rows, ggml_type) {
    ggml_tensor* w = weights(inputs, rows);
    ggml_tensor* gradient = rows_of(inputs, kWidth, rows);
    return ggml_opt_step_sgd(inputs.context(), w, gradient, inputs.input(GGML_TYPE_F32, {2}));
}

ggml_tensor* silu_back(Inputs& inputs, std::int64_t rows, ggml_type) {
    ggml_tensor* gradient = rows_of(inputs, kWidth, rows);
    return ggml_silu_back(inputs.context(), gradient, rows_of(inputs, kWidth, rows));
}

ggml_tensor* norm_back(Inputs& inputs, std::int64_t rows, ggml_type) {
    ggml_tensor* gradient = rows_of(inputs, kWidth, rows);
    return ggml_rms_norm_back(inputs.context(), gradient, rows_of(inputs, kWidth, rows), 1e-5f);
}

ggml_tensor* soft_max_back(Inputs& inputs, std::int64_t rows, ggml_type) {
    ggml_tensor* gradient = rows_of(inputs, kWidth, rows);
    return ggml_soft_max_ext_back(inputs.context(), gradient, rows_of(inputs, kWidth, rows), 1, 0);
}

ggml_tensor* rope_back(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr int width = 128;
    ggml_tensor* gradient = inputs.input(GGML_TYPE_F32, {width, kWidth / width, tokens});
    ggml_tensor* positions =
        inputs.input(GGML_TYPE_I32, {tokens}, {Content::Kind::numbers, 1 << 16});
    return ggml_rope_ext_back(inputs.context(), gradient, positions, nullptr, width,
                              GGML_ROPE_TYPE_NORMAL, 0, 10000, 1, 0, 1, 32, 1);
}

/// Bias: the gradients of all tokens added up.
ggml_tensor* repeat_back(Inputs& inputs, std::int64_t tokens, ggml_type) {
    ggml_tensor* gradient = rows_of(inputs, kWidth, tokens);
    return ggml_repeat_back(inputs.context(), gradient, rows_of(inputs, kWidth, 1));
}

ggml_tensor* get_rows_back(Inputs& inputs, std::int64_t tokens, ggml_type) {
    constexpr std::int64_t words = 1024;
    ggml_tensor* gradient = rows_of(inputs, kWidth, tokens);
    ggml_tensor* ids = inputs.input(GGML_TYPE_I32, {tokens}, {Content::Kind::scattered, words});
    return ggml_get_rows_back(inputs.context(), gradient, ids, rows_of(inputs, kWidth, words));
}

// clang-format off
constexpr SizedOp kTable[] = {
    // op                      model  shape               size  quick  beside  how
    {"CROSS_ENTROPY_LOSS",      "llm", "32000x{}",          128,  4, copy, loss},
    {"CROSS_ENTROPY_LOSS_BACK", "llm", "32000x{}",          128,  4, copy, loss_back},
    {"OPT_STEP_ADAMW",          "llm", "4096x{}",          1024, 16, copy, adam},
    {"OPT_STEP_SGD",            "llm", "4096x{}",          1024, 16, copy, descent},
    {"SILU_BACK",               "llm", "4096x{}",          1024, 16, copy, silu_back},
    {"RMS_NORM_BACK",           "llm", "4096x{}",          1024, 16, copy, norm_back},
    {"SOFT_MAX_BACK",           "llm", "4096x{}",          1024, 16, copy, soft_max_back},
    {"ROPE_BACK",               "llm", "head 128 x 32x{}", 1024, 16, copy, rope_back},
    {"REPEAT_BACK",             "llm", "4096x{} to 1",     1024, 16, copy, repeat_back},
    {"GET_ROWS_BACK",           "llm", "4096x{} to 1024",  1024, 16, copy, get_rows_back},
};
// clang-format on

}  // namespace

std::vector<Case> training_cases(const Wish& wish) { return cases_of(kTable, wish); }

}  // namespace heddle::tool::bench
