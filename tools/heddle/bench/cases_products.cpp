#include <cmath>

#include "bench/cases.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"

/// Matrix products and attention: most of what models compute.
namespace heddle::tool::bench {
namespace {

struct ProductShape {
    std::int64_t rows, columns, n;
};

Case product(ggml_type type, const ProductShape& shape) {
    const std::int64_t m = shape.rows, k = shape.columns, n = shape.n;
    return {.op = "MUL_MAT",
            .type = ggml_type_name(type),
            .main_type = type,
            .shape = std::to_string(m) + "x" + std::to_string(k) + " n=" + std::to_string(n),
            .build =
                [=](Inputs& inputs) {
                    return ggml_mul_mat(inputs.context(), inputs.weights(type, {k, m}),
                                        inputs.input(GGML_TYPE_F32, {k, n}));
                },
            // Few columns are decoding, where every weight comes from memory once.
            .from_memory = n < 8};
}

/// A layer of experts, of which each token uses two.
Case expert_product(ggml_type type, std::int64_t tokens, bool quick) {
    const std::int64_t m = quick ? 512 : 1408, k = quick ? 512 : 2048, experts = 8, used = 2;
    return {.op = "MUL_MAT_ID",
            .type = ggml_type_name(type),
            .main_type = type,
            .shape = std::to_string(m) + "x" + std::to_string(k) +
                     " 2 of 8 experts n=" + std::to_string(tokens),
            .build = [=](Inputs& inputs) {
                return ggml_mul_mat_id(inputs.context(), inputs.weights(type, {k, m, experts}),
                                       inputs.input(GGML_TYPE_F32, {k, 1, tokens}),
                                       inputs.input(GGML_TYPE_I32, {used, tokens},
                                                    {Content::Kind::scattered, experts}));
            }};
}

Case outer_product(std::int64_t size) {
    return {.op = "OUT_PROD",
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = std::to_string(size) + "x" + std::to_string(size) + " n=512",
            .build = [=](Inputs& inputs) {
                return ggml_out_prod(inputs.context(), inputs.input(GGML_TYPE_F32, {size, 512}),
                                     inputs.input(GGML_TYPE_F32, {size, 512}));
            }};
}

struct AttentionShape {
    std::int64_t width, heads, kv_heads, kv, queries;
    bool masked = true;
    bool cached = false;  ///< the heads of a token are side by side, as in a cache
};

Case attention(ggml_type type, const AttentionShape& shape) {
    const auto s = shape;
    return {.op = "FLASH_ATTN_EXT",
            .type = ggml_type_name(type),
            .main_type = type,
            .shape = "head " + std::to_string(s.width) + " x " + std::to_string(s.heads) + "/" +
                     std::to_string(s.kv_heads) + " kv=" + std::to_string(s.kv) +
                     " q=" + std::to_string(s.queries) + (s.cached ? " cache" : ""),
            .build =
                [=](Inputs& inputs) {
                    ggml_tensor* q = inputs.input(GGML_TYPE_F32, {s.width, s.queries, s.heads});
                    const auto rows = [&] {
                        if (!s.cached) return inputs.weights(type, {s.width, s.kv, s.kv_heads});
                        return ggml_permute(inputs.context(),
                                            inputs.weights(type, {s.width, s.kv_heads, s.kv}), 0, 2,
                                            1, 3);
                    };
                    ggml_tensor *k = rows(), *v = rows();
                    ggml_tensor* mask = s.masked ? inputs.input(GGML_TYPE_F16, {s.kv, s.queries},
                                                                {Content::Kind::zeros})
                                                 : nullptr;
                    const float scale = 1.0f / std::sqrt(static_cast<float>(s.width));
                    return ggml_flash_attn_ext(inputs.context(), q, k, v, mask, scale, 0, 0);
                },
            // Every layer has a cache of its own.
            .from_memory = s.queries == 1};
}

}  // namespace

std::vector<Case> product_cases(const Wish& wish) {
    std::vector<Case> cases;
    if (wish.model == "llm") {
        const std::int64_t size = wish.quick ? 1024 : 4096;
        for (const ggml_type type :
             wish.types_or({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                            GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K})) {
            for (const std::int64_t n : {1, 2, 8, 32, 512}) {
                cases.push_back(product(type, {size, size, n}));
            }
        }
        for (const ggml_type type : wish.types_or({GGML_TYPE_F16, GGML_TYPE_Q4_0})) {
            cases.push_back(expert_product(type, wish.quick ? 32 : 128, wish.quick));
        }
        cases.push_back(outer_product(wish.quick ? 512 : 2048));
    } else if (wish.model == "speech") {  // an encoder over 30 seconds, and a decoder
        const std::int64_t frames = wish.quick ? 150 : 1500;
        for (const ggml_type type : wish.types_or({GGML_TYPE_F16, GGML_TYPE_Q5_0})) {
            cases.push_back(product(type, {1280, 1280, frames}));
            cases.push_back(product(type, {5120, 1280, frames}));
            cases.push_back(product(type, {51866, 1280, 1}));
            cases.push_back(product(type, {51866, 1280, 5}));          // of as many beams
            cases.push_back(product(type, {1280, 3 * 1280, frames}));  // its second convolution
            if (3 * 80 % ggml_blck_size(type) != 0) continue;
            cases.push_back(product(type, {1280, 3 * 80, 2 * frames}));  // and its first
        }
    } else {  // patches of an image, and a network that paints one
        const std::int64_t patches = wish.quick ? 64 : 577;
        for (const ggml_type type : wish.types_or({GGML_TYPE_F16, GGML_TYPE_Q8_0})) {
            cases.push_back(product(type, {1024, 1024, patches}));
            cases.push_back(product(type, {4096, 1024, patches}));
            cases.push_back(product(type, {1280, 1280, wish.quick ? 128 : 4096}));
        }
    }
    return cases;
}

std::vector<Case> attention_cases(const Wish& wish) {
    const std::int64_t kv = wish.quick ? 512 : 4096, frames = wish.quick ? 150 : 1500;
    const std::int64_t patches = wish.quick ? 64 : 577;
    std::vector<AttentionShape> shapes;
    if (wish.model == "llm") {
        shapes = {{128, 32, 8, kv, 1},
                  {128, 32, 8, kv, 1, true, true},
                  {128, 32, 8, kv, wish.quick ? 32 : 512}};
    } else if (wish.model == "speech") {
        shapes = {{64, 20, 20, frames, frames, false}, {64, 20, 20, frames, 1, false}};
    } else {
        shapes = {{64, 16, 16, patches, patches, false}};
    }
    std::vector<Case> cases;
    for (const ggml_type type :
         wish.types_or({GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0})) {
        for (const AttentionShape& shape : shapes) {
            // Some blocks are longer than a head is wide.
            if (shape.width % ggml_blck_size(type) == 0) cases.push_back(attention(type, shape));
        }
    }
    return cases;
}

}  // namespace heddle::tool::bench
