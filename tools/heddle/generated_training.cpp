#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

void repeat_back(Draft& draft, int, Chance& chance) {
    const Extents small = any_extents(chance);
    Extents large = small;
    for (std::int64_t& extent : large) extent *= chance.between(1, 3);
    draft.calls = text("ggml_repeat_back(src0, ", leaf(GGML_TYPE_F32, small), ")");
    draft.source(dense_rows(chance, GGML_TYPE_F32, large));
}

void silu_back(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    const Extents extent = any_extents(chance);
    draft.calls = "ggml_silu_back(src0, src1)";
    draft.source(leaf(type, extent)).source(leaf(type, extent), uniform(-8, 8));
}

void rms_norm_back(Draft& draft, int, Chance& chance) {
    Extents extent = any_extents(chance);
    extent[0] = chance.extent({8, 64, 1025});
    draft.calls = text("ggml_rms_norm_back(src0, src1, ", chance.pick({1e-6, 1e-3}), ")");
    draft.source(dense_rows(chance, GGML_TYPE_F32, extent))
        .source(dense_rows(chance, GGML_TYPE_F32, extent), uniform(-10, 10));
}

void get_rows_back(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.extent({1, 16, 33}), rows = chance.between(1, 7);
    const std::int64_t taken = chance.between(1, 12);
    draft.calls =
        text("ggml_get_rows_back(src0, src1, ", leaf(GGML_TYPE_F32, {n, rows, 1, 1}), ")");
    draft.source(leaf(chance.pick({GGML_TYPE_F32, GGML_TYPE_F16}), {n, taken, 1, 1}))
        .source(leaf(GGML_TYPE_I32, {taken, 1, 1, 1}), integers(0, rows - 1));
}

void cross_entropy_loss(Draft& draft, int, Chance& chance) {
    const Extents extent{chance.extent({2, 10, 257, 1000}), chance.between(1, 9), 1, 1};
    draft.calls = "ggml_cross_entropy_loss(src0, src1)";
    draft.source(leaf(GGML_TYPE_F32, extent), uniform(-10, 10))
        .source(leaf(GGML_TYPE_F32, extent), filled(Fill::Kind::shares));
}

void cross_entropy_loss_back(Draft& draft, int, Chance& chance) {
    const Extents extent{chance.extent({2, 10, 257, 1000}), chance.between(1, 9), 1, 1};
    draft.calls = "ggml_cross_entropy_loss_back(src0, src1, src2)";
    draft.source(leaf(GGML_TYPE_F32, {1, 1, 1, 1}), uniform(0.5, 2))
        .source(leaf(GGML_TYPE_F32, extent), uniform(-10, 10))
        .source(leaf(GGML_TYPE_F32, extent), filled(Fill::Kind::shares));
}

void opt_step_adamw(Draft& draft, int, Chance& chance) {
    const Extents extent = any_extents(chance);
    draft.calls = "ggml_set_param(src0); ggml_opt_step_adamw(src0, src1, src2, src3, src4)";
    draft.source(leaf(GGML_TYPE_F32, extent))
        .source(leaf(GGML_TYPE_F32, extent))
        .source(leaf(GGML_TYPE_F32, extent), uniform(-0.1, 0.1))
        .source(leaf(GGML_TYPE_F32, extent), uniform(0, 0.1))
        .source(leaf(GGML_TYPE_F32, {7, 1, 1, 1}),
                list({0.001, 0.9, 0.999, 1e-8, chance.pick({0.0, 0.1}), 10, 1000}));
}

void opt_step_sgd(Draft& draft, int, Chance& chance) {
    const Extents extent = any_extents(chance);
    draft.calls = "ggml_set_param(src0); ggml_opt_step_sgd(src0, src1, src2)";
    draft.source(leaf(GGML_TYPE_F32, extent))
        .source(leaf(GGML_TYPE_F32, extent))
        .source(leaf(GGML_TYPE_F32, {2, 1, 1, 1}), list({0.1, chance.pick({0.0, 0.5})}));
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_REPEAT_BACK, repeat_back},
    {GGML_OP_SILU_BACK, silu_back},
    {GGML_OP_RMS_NORM_BACK, rms_norm_back},
    {GGML_OP_GET_ROWS_BACK, get_rows_back},
    {GGML_OP_CROSS_ENTROPY_LOSS, cross_entropy_loss},
    {GGML_OP_CROSS_ENTROPY_LOSS_BACK, cross_entropy_loss_back},
    {GGML_OP_OPT_STEP_ADAMW, opt_step_adamw},
    {GGML_OP_OPT_STEP_SGD, opt_step_sgd},
};

}  // namespace

std::span<const Recipe> training_recipes() { return kRecipes; }

}  // namespace heddle::tool
