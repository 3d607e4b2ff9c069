#include "model/llama.hpp"

#include <cmath>

namespace heddle::tool {

Tensor Llama::attention(Context& context, std::size_t number, const Tensor& x, const Batch& batch,
                        std::int64_t seen) const {
    const Layer& layer = layers_[number];
    const std::string suffix = "_" + std::to_string(number);
    const std::int64_t tokens = x.extent(1), width = shape_.head_width;
    const auto heads_of = [&](const char* name, const Tensor& weights, const Tensor& bias,
                              std::int64_t heads) {
        Tensor made = matmul(weights, x).named(name + suffix);
        if (bias) made = (made + bias).named(name + suffix + "_biased");
        return reshape(made, {width, heads, tokens, 1});
    };
    const auto turned = [&](const char* name, const Tensor& made) {
        return rope(made, batch.positions, rope_factors_, shape_.rope).named(name + suffix);
    };
    const Tensor q = turned("q_rope", heads_of("q", layer.q, layer.q_bias, shape_.heads));
    const Tensor k = turned("k_rope", heads_of("k", layer.k, layer.k_bias, shape_.kv_heads));
    const Tensor v = heads_of("v", layer.v, layer.v_bias, shape_.kv_heads);

    // What is new goes into the cache; attention then reads the first `seen` rows of it.
    const auto remember = [&](const Tensor& cache, const Tensor& made) {
        const Tensor rows = reshape(made, {shape_.kv_width(), tokens, 1, 1});
        const Tensor written = set_rows(context.wrap(cache.c()), rows, batch.rows);
        const std::size_t row = cache.stride(1);
        const Tensor read = view(written, {width, shape_.kv_heads, seen, 1},
                                 {static_cast<std::size_t>(width) * sizeof(ggml_fp16_t), row,
                                  row * static_cast<std::size_t>(seen)});
        return permute(read, {0, 2, 1, 3});
    };
    const Tensor keys = remember(layer.keys, k);
    const Tensor values = remember(layer.values, v);
    const float scale = 1.0f / std::sqrt(static_cast<float>(width));
    const Tensor attended =
        flash_attention(permute(q, {0, 2, 1, 3}), keys, values, batch.mask, scale)
            .named("attended" + suffix);
    return matmul(layer.output, reshape(attended, {width * shape_.heads, tokens, 1, 1}))
        .named("attention_out" + suffix);
}

Llama::Batch Llama::build(Context& context, std::int64_t tokens, std::int64_t seen,
                          bool every_token) const {
    Batch batch;
    batch.tokens = context.tensor(GGML_TYPE_I32, {tokens}, "tokens").as_input();
    batch.positions = context.tensor(GGML_TYPE_I32, {tokens}, "positions").as_input();
    batch.rows = context.tensor(GGML_TYPE_I64, {tokens}, "cache_rows").as_input();
    batch.mask = context.tensor(GGML_TYPE_F16, {seen, tokens}, "mask").as_input();

    Tensor x = get_rows(embedding_, batch.tokens).named("embedding");
    for (std::size_t i = 0; i < layers_.size() && x; ++i) {
        const Layer& layer = layers_[i];
        const std::string suffix = "_" + std::to_string(i);
        const auto norm = [&](const Tensor& weights, const std::string& whose) {
            const Tensor even = rms_norm(x, shape_.epsilon).named(whose + "_rms" + suffix);
            batch.norms.emplace_back(even, weights);
            return (even * weights).named(whose + "_norm" + suffix);
        };
        x = x + attention(context, i, norm(layer.attention_norm, "attention"), batch, seen);
        x.named("attention_sum" + suffix);
        const Tensor inner = norm(layer.ffn_norm, "ffn");
        const Tensor gate = matmul(layer.gate, inner).named("gate" + suffix);
        const Tensor up = matmul(layer.up, inner).named("up" + suffix);
        const Tensor hidden = swiglu(gate, up).named("hidden" + suffix);
        x = (x + matmul(layer.down, hidden).named("down" + suffix)).named("layer" + suffix);
    }
    if (!x) return batch;  // the context knows why
    // Only the last token is continued.
    const std::size_t row = x.stride(1);
    const Tensor asked = every_token ? x
                                     : view(x, {shape_.width, 1, 1, 1}, {row, row, row},
                                            static_cast<std::size_t>(tokens - 1) * row);
    batch.logits =
        matmul(output_, (rms_norm(asked, shape_.epsilon) * output_norm_).named("output_norm"))
            .named("logits")
            .as_output();
    return batch;
}

}  // namespace heddle::tool
