// What clients ask of a CUDA device and must not be declined: types, shapes and strides. Needs no
// device.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/kernel.hpp"
#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops.h"
#include "heddle/heddle.h"

namespace heddle::cuda {
namespace {

constexpr ggml_type kF32 = GGML_TYPE_F32, kF16 = GGML_TYPE_F16, kBf16 = GGML_TYPE_BF16,
                    kI32 = GGML_TYPE_I32, kI64 = GGML_TYPE_I64;

/// All types that weights have.
std::vector<ggml_type> weight_types() {
    std::vector<ggml_type> types{kF32, kF16, kBf16};
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        if (ggml_is_quantized(type) && type != GGML_TYPE_Q8_1) types.push_back(type);
    }
    return types;
}

class Floor : public testing::Test {
protected:
    void SetUp() override { heddle_set_error_mode(HEDDLE_ERROR_MODE_RETURN); }

    ggml_tensor* make(ggml_type type, std::int64_t a, std::int64_t b = 1, std::int64_t c = 1,
                      std::int64_t d = 1) const {
        return ggml_new_tensor_4d(c_, type, a, b, c, d);
    }
    /// Every second row of one twice as high, and planes in another order.
    ggml_tensor* strided(ggml_type type, std::int64_t a, std::int64_t b, std::int64_t c) const {
        ggml_tensor* const root = make(type, a, 2 * c, b);
        return ggml_view_3d(c_, root, a, b, c, root->nb[2], 2 * root->nb[1], 0);
    }
    void takes(const ggml_tensor* node, const std::string& what) const {
        ASSERT_NE(node, nullptr) << what << ": " << heddle_last_error();
        Objections why;
        EXPECT_NE(choose_kernel(*node, &why), nullptr) << what << ": " << why.text_for(*node);
    }

    ggml_context_ptr context_{
        ggml_init({.mem_size = 16u << 20, .mem_buffer = nullptr, .no_alloc = true})};
    ggml_context* c_ = context_.get();
};

TEST_F(Floor, ProductsOfAllWeights) {
    for (const ggml_type type : weight_types()) {
        const std::string name = ggml_type_name(type);
        for (const std::int64_t columns : {1, 5, 8, 9, 512}) {
            takes(ggml_mul_mat(c_, make(type, 256, 32), make(kF32, 256, columns)), name);
        }
        takes(ggml_mul_mat(c_, strided(type, 256, 32, 2), make(kF32, 256, 3, 4)),
              name + " strided");
        takes(ggml_mul_mat(c_, make(type, 256, 32), strided(kF32, 256, 9, 2)),
              name + ", b strided");
        for (const std::int64_t tokens : {1, 7, 600}) {
            takes(ggml_mul_mat_id(c_, make(type, 256, 32, 8), make(kF32, 256, 1, tokens),
                                  make(kI32, 2, tokens)),
                  name + " by expert");
        }
    }
    takes(ggml_mul_mat(c_, make(kF16, 100, 32), make(kF16, 100, 7)), "f16 with f16");
    takes(ggml_out_prod(c_, make(kF32, 20, 30), make(kF32, 10, 30)), "out_prod");
    takes(ggml_out_prod(c_, make(kF32, 20, 30), ggml_transpose(c_, make(kF32, 30, 10))),
          "out_prod, transposed");
}

TEST_F(Floor, AttentionOfAnyHeadAndAnyCache) {
    const std::pair<std::int64_t, std::int64_t> heads[] = {
        {40, 40},   {48, 48},   {64, 64},   {72, 72},   {80, 80},   {96, 96},   {112, 112},
        {128, 128}, {160, 160}, {192, 128}, {256, 256}, {320, 256}, {512, 512}, {576, 512}};
    for (const auto& [dk, dv] : heads) {
        for (const std::int64_t keys : {113, 256, 1500}) {
            for (const std::int64_t queries : {1, 35}) {
                takes(ggml_flash_attn_ext(c_, make(kF32, dk, queries, 8), make(kF16, dk, keys, 2),
                                          make(kF16, dv, keys, 2), make(kF16, keys, queries), 1, 8,
                                          30),
                      "heads of " + std::to_string(dk) + " and " + std::to_string(dv));
            }
        }
    }
    const ggml_type caches[] = {kF32,           kF16,           kBf16,
                                GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL};
    for (const ggml_type k : caches) {
        for (const ggml_type v : caches) {
            ggml_tensor* const node =
                ggml_flash_attn_ext(c_, make(kF32, 128, 3, 8), make(k, 128, 77, 4),
                                    make(v, 128, 77, 4), nullptr, 1, 0, 0);
            ggml_flash_attn_ext_add_sinks(node, make(kF32, 8));
            takes(node, std::string(ggml_type_name(k)) + " and " + ggml_type_name(v));
        }
    }
}

TEST_F(Floor, CopiesAndRows) {
    const ggml_type floats[] = {kF32, kF16, kBf16};
    const ggml_type coded[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                               GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL};
    const auto copies = [&](ggml_type from, ggml_type to) {
        const auto what = std::string(ggml_type_name(from)) + " to " + ggml_type_name(to);
        takes(ggml_cpy(c_, strided(from, 64, 5, 2), make(to, 64, 5, 2)), what);
        takes(ggml_cpy(c_, make(from, 64, 5, 2), strided(to, 64, 5, 2)), what + ", strided");
    };
    for (const ggml_type from : floats) {
        for (const ggml_type to : floats) copies(from, to);
        for (const ggml_type to : coded) {
            copies(from, to);
            copies(to, from);
        }
    }
    copies(kF32, kI32), copies(kI32, kF32), copies(kI32, kI32);
    for (const ggml_type type : {kF32, kF16, kBf16, kI32, GGML_TYPE_I16}) {
        takes(ggml_cont(c_, ggml_transpose(c_, make(type, 10, 20))), "cont, transposed");
    }
    for (const ggml_type index : {kI32, kI64}) {
        for (const ggml_type type :
             {kF32, kF16, kBf16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
              GGML_TYPE_Q8_0, GGML_TYPE_IQ4_NL}) {
            takes(ggml_set_rows(c_, make(type, 64, 10), make(kF32, 64, 3), make(index, 3)),
                  std::string("set_rows ") + ggml_type_name(type));
        }
    }
    for (const ggml_type type : weight_types()) {
        takes(ggml_get_rows(c_, make(type, 256, 10), make(kI32, 70'000)),
              std::string("get_rows ") + ggml_type_name(type));
    }
    takes(ggml_get_rows(c_, make(kI32, 20, 10), make(kI32, 7)), "get_rows i32");
}

TEST_F(Floor, Movement) {
    for (const ggml_type type : {kF32, kF16, kI32, GGML_TYPE_I16, GGML_TYPE_I8, kI64}) {
        for (int dim = 0; dim < 4; ++dim) {
            takes(ggml_concat(c_, make(type, 8, 3), make(type, 8, 3), dim), "concat");
        }
    }
    takes(ggml_concat(c_, make(GGML_TYPE_Q4_0, 64, 3), make(GGML_TYPE_Q4_0, 64, 2), 1), "q4_0");
    takes(ggml_repeat(c_, make(kF16, 4, 5), make(kF16, 8, 10)), "repeat f16");
    takes(ggml_repeat_back(c_, make(kF32, 8, 10), make(kF32, 4, 5)), "repeat_back");
    takes(ggml_roll(c_, make(kF32, 8, 10), 1, -2, 0, 0), "roll");
    takes(ggml_pad_ext(c_, strided(kF32, 8, 3, 2), 1, 2, 3, 4, 0, 1, 0, 0), "pad");
    takes(ggml_pad_circular(c_, make(kF32, 8, 3), 1, 1, 0, 0), "pad, circular");
    takes(ggml_pad_reflect_1d(c_, make(kF32, 8, 3), 2, 3), "pad_reflect_1d");
    for (const ggml_scale_mode mode :
         {GGML_SCALE_MODE_NEAREST, GGML_SCALE_MODE_BILINEAR, GGML_SCALE_MODE_BICUBIC}) {
        takes(ggml_upscale(c_, strided(kF32, 8, 3, 2), 2, mode), "upscale");
    }
    for (const ggml_type type : {kF32, kF16}) {
        takes(ggml_fill(c_, make(type, 10), 3), "fill");
        takes(ggml_diag(c_, make(type, 10)), "diag");
    }
    takes(ggml_tri(c_, make(kF32, 10, 10), GGML_TRI_TYPE_LOWER), "tri");
    takes(ggml_set(c_, make(kI32, 10, 3), make(kI32, 5, 2), 40, 120, 120, 0), "set i32");
    takes(ggml_acc(c_, make(kF32, 10, 3), make(kF32, 5, 2), 40, 120, 120, 0), "acc");
}

TEST_F(Floor, Elements) {
    for (const ggml_type a : {kF32, kF16}) {
        for (const ggml_type b : {kF32, kF16}) {
            takes(ggml_add(c_, make(a, 10, 20), make(b, 1, 20)), "add");
            takes(ggml_div(c_, strided(a, 10, 20, 3), strided(b, 10, 20, 3)), "div, strided");
        }
        for (int i = 0; i < GGML_UNARY_OP_COUNT; ++i) {
            takes(ggml_unary(c_, strided(a, 10, 5, 2), static_cast<ggml_unary_op>(i)), "unary");
        }
        takes(ggml_sqr(c_, strided(a, 10, 5, 2)), "sqr");
        takes(ggml_log(c_, strided(a, 10, 5, 2)), "log");
        takes(ggml_clamp(c_, make(a, 10, 5), 0, 1), "clamp");
        takes(ggml_leaky_relu(c_, make(a, 10, 5), 0.1f, false), "leaky_relu");
        for (const int swapped : {0, 1}) {
            takes(ggml_swiglu_split(c_, make(a, 10, 5), make(a, 10, 5)), "swiglu");
            takes(ggml_glu(c_, make(a, 20, 5), GGML_GLU_OP_GEGLU_ERF, swapped != 0), "geglu_erf");
        }
        takes(ggml_rope(c_, strided(a, 64, 5, 2), make(kI32, 2), 64, 2), "rope");
    }
    takes(ggml_scale_bias(c_, make(kF32, 10, 5), 2, 1), "scale");
    takes(ggml_add_id(c_, make(kF32, 10, 2, 3), make(kF32, 10, 8), make(kI32, 2, 3)), "add_id");
}

TEST_F(Floor, RowsAsAWhole) {
    ggml_tensor* const x = strided(kF32, 100, 5, 2);
    takes(ggml_norm(c_, x, 1e-5f), "norm");
    takes(ggml_rms_norm(c_, x, 1e-5f), "rms_norm");
    takes(ggml_l2_norm(c_, x, 1e-5f), "l2_norm");
    takes(ggml_group_norm(c_, make(kF32, 8, 8, 32), 4, 1e-5f), "group_norm");
    takes(ggml_sum(c_, x), "sum of padded rows");
    takes(ggml_sum_rows(c_, x), "sum_rows");
    takes(ggml_mean(c_, x), "mean");
    takes(ggml_cumsum(c_, x), "cumsum of padded rows");
    takes(ggml_argmax(c_, make(kF32, 260'000, 2)), "argmax");
    takes(ggml_argsort(c_, make(kF32, 1 << 20), GGML_SORT_ORDER_DESC), "argsort");
    takes(ggml_top_k(c_, make(kF32, 1 << 19), 9999), "top_k");
    for (const ggml_type mask : {kF32, kF16}) {
        ggml_tensor* const node =
            ggml_soft_max_ext(c_, make(kF32, 643'251, 3), make(mask, 643'251, 3), 1, 8);
        ggml_soft_max_add_sinks(node, make(kF32, 1));
        takes(node, "soft_max");
    }
}

TEST_F(Floor, StatesOfAnySize) {
    for (const std::int64_t width : {2, 3, 4, 5, 7, 9, 15}) {
        takes(ggml_ssm_conv(c_, make(kF32, width + 9, 130, 2), make(kF32, width, 130)), "ssm_conv");
    }
    for (const std::int64_t size : {16, 32, 48, 64, 128}) {
        const auto rows = [&] { return make(kF32, size, 4, 10); };
        takes(ggml_rwkv_wkv6(c_, rows(), rows(), rows(), make(kF32, size, 4), rows(),
                             make(kF32, size * size * 4, 2)),
              "rwkv_wkv6, heads of " + std::to_string(size));
        takes(ggml_gated_linear_attn(c_, rows(), rows(), rows(), rows(),
                                     make(kF32, size * size * 4, 2), 1),
              "gated_linear_attn, heads of " + std::to_string(size));
    }
    takes(ggml_solve_tri(c_, make(kF32, 20, 20), make(kF32, 7, 20), true, true, false),
          "solve_tri");
}

}  // namespace
}  // namespace heddle::cuda
