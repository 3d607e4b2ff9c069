#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

struct Types {
    Type a, b;
};

constexpr Types kBinaryTypes[] = {{GGML_TYPE_F32, GGML_TYPE_F32},
                                  {GGML_TYPE_F16, GGML_TYPE_F16},
                                  {GGML_TYPE_BF16, GGML_TYPE_BF16},
                                  {GGML_TYPE_F16, GGML_TYPE_F32},
                                  {GGML_TYPE_BF16, GGML_TYPE_F32}};

/// The second operand is tiled a few times in every dimension.
void binary(Draft& draft, const Types& types, std::string_view name, Fill a, Fill b,
            Chance& chance) {
    const Extents small{chance.extent({1, 2, 5, 16, 33}), chance.between(1, 3),
                        chance.between(1, 2), chance.between(1, 2)};
    Extents large = small;
    for (std::int64_t& extent : large) extent *= chance.pick<std::int64_t>({1, 1, 2, 3});
    if (types.a == GGML_TYPE_F32 && chance.one_in(5)) {
        a.kind = b.kind = Fill::Kind::special;
    }
    draft.calls = text(maybe_inplace(chance, name), "(src0, src1)");
    draft.source(dense_rows(chance, types.a, large), a);
    draft.source(strided(chance, types.b, small), b);
}

constexpr int kTriples = std::size(kBinaryTypes);

void add(Draft& draft, int variant, Chance& chance) {
    if (variant < kTriples) {
        binary(draft, kBinaryTypes[variant], "ggml_add", {}, {}, chance);
    } else if (variant == kTriples) {
        const Type type = chance.pick({GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1,
                                       GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_MXFP4});
        const Extents extent{block_size(type) * chance.between(1, 3), chance.between(1, 4), 2, 1};
        draft.calls = "ggml_add(src0, src1)";
        draft.source(leaf(type, extent)).source(leaf(GGML_TYPE_F32, extent), uniform(-0.5, 0.5));
        draft.rule = golden::Rule::nmse_dequant;
        draft.tolerance = type == GGML_TYPE_Q8_0 ? 1e-5 : 1e-3;
    } else if (variant == kTriples + 1) {
        const Type type = chance.pick(
            {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_IQ3_S});
        const Extents extent{block_size(type) * chance.between(1, 3), 3, 2, 1};
        draft.calls = "ggml_add_cast(src0, src1, f32)";
        draft.source(leaf(type, extent)).source(leaf(GGML_TYPE_F32, extent));
    } else {
        draft.calls = "ggml_add(src0, src1)";
        draft.source("ggml_view_1d(f32[64], 40, 0)");
        draft.source("ggml_view_1d(f32[64], 40, 52) (same storage as src0)");
    }
}
void sub(Draft& draft, int variant, Chance& chance) {
    binary(draft, kBinaryTypes[variant], "ggml_sub", {}, {}, chance);
}
void mul(Draft& draft, int variant, Chance& chance) {
    binary(draft, kBinaryTypes[variant], "ggml_mul", uniform(-2, 2), uniform(0.5, 2), chance);
}
void div(Draft& draft, int variant, Chance& chance) {
    binary(draft, kBinaryTypes[variant], "ggml_div", uniform(-2, 2), uniform(0.5, 2), chance);
}

void add_id(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.extent({1, 32, 33, 129}), used = chance.between(1, 4);
    const std::int64_t tokens = chance.extent({1, 5, 17}), experts = 8;
    draft.calls = "ggml_add_id(src0, src1, src2)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, {n, used, tokens, 1}))
        .source(dense_rows(chance, GGML_TYPE_F32, {n, experts, 1, 1}))
        .source(padded_rows(chance, GGML_TYPE_I32, {used, tokens, 1, 1}), integers(0, experts - 1));
}

void add1(Draft& draft, int, Chance& chance) {
    const Types types = chance.pick_from(kBinaryTypes);
    draft.calls = text(maybe_inplace(chance, "ggml_add1"), "(src0, src1)");
    draft.source(padded_rows(chance, types.a, any_extents(chance)));
    draft.source(leaf(types.b, {1, 1, 1, 1}), uniform(0.3, 0.6));
}

void acc(Draft& draft, int, Chance& chance) {
    const Extents whole{chance.extent({12, 33, 64}), 7, 3, 2};
    const Extents part{whole[0] - chance.extra(9), chance.between(1, 4), 2, chance.between(1, 2)};
    const Strides stride = dense_strides(GGML_TYPE_F32, whole);
    const std::size_t offset = 4 * static_cast<std::size_t>(chance.extra(whole[0] - part[0])) +
                               stride[1] * static_cast<std::size_t>(chance.extra(3));
    draft.calls = text(maybe_inplace(chance, "ggml_acc"), "(src0, src1, ", stride[1], ", ",
                       stride[2], ", ", stride[3], ", ", offset, ")");
    draft.source(leaf(GGML_TYPE_F32, whole)).source(dense_rows(chance, GGML_TYPE_F32, part));
}

// ---- one operand -------------------------------------------------------------------------------

constexpr Type kFloats[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

void own_function(Draft& draft, Chance& chance, std::string_view name, Fill fill) {
    const Type type = chance.pick_from(kFloats);
    draft.calls = text(maybe_inplace(chance, name), "(src0)");
    if (type == GGML_TYPE_F32 && chance.one_in(5)) fill.kind = Fill::Kind::special;
    draft.source(dense_rows(chance, type, any_extents(chance)), fill);
}
void sqr(Draft& draft, int, Chance& chance) {
    own_function(draft, chance, "ggml_sqr", uniform(-3, 3));
}
void square_root(Draft& draft, int, Chance& chance) {
    own_function(draft, chance, "ggml_sqrt", uniform(0, 100));
}
void logarithm(Draft& draft, int, Chance& chance) {
    own_function(draft, chance, "ggml_log", uniform(0.05, 8));
}
void sine(Draft& draft, int, Chance& chance) {
    own_function(draft, chance, "ggml_sin", uniform(-6.5, 6.5));
}
void cosine(Draft& draft, int, Chance& chance) {
    own_function(draft, chance, "ggml_cos", uniform(-6.5, 6.5));
}

void scale(Draft& draft, int, Chance& chance) {
    const double factor = chance.pick({2.0, -0.5, 0.0, 0.125}),
                 bias = chance.pick({0.0, 1.0, -3.5});
    draft.calls =
        text(maybe_inplace(chance, "ggml_scale_bias"), "(src0, ", factor, ", ", bias, ")");
    draft.source(padded_rows(chance, GGML_TYPE_F32, any_extents(chance)));
}

void clamp(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls = text("ggml_clamp(src0, ", chance.pick({"-0.5", "0.1", "-inf"}), ", ",
                       chance.pick({"0.5", "0.75", "inf"}), ")");
    draft.source(padded_rows(chance, type, any_extents(chance)));
}

void leaky_relu(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls = text("ggml_leaky_relu(src0, ", chance.pick({0.1, -0.5, 2.0}), ", ",
                       chance.pick({"true", "false"}), ")");
    draft.source(padded_rows(chance, type, any_extents(chance)));
}

/// Extents of a fair number of elements: very few may all lie where a function is next to zero.
Extents many_extents(Chance& chance) {
    Extents extent = any_extents(chance);
    if (extent[0] < 16) extent[0] += 31;
    return extent;
}

/// Functions whose value at infinities and NaN follows from their definition.
bool takes_specials(ggml_unary_op function) {
    switch (function) {
        case GGML_UNARY_OP_ABS:
        case GGML_UNARY_OP_SGN:
        case GGML_UNARY_OP_NEG:
        case GGML_UNARY_OP_STEP:
        case GGML_UNARY_OP_TANH:
        case GGML_UNARY_OP_ELU:
        case GGML_UNARY_OP_RELU:
        case GGML_UNARY_OP_SIGMOID:
        case GGML_UNARY_OP_EXP:
        case GGML_UNARY_OP_FLOOR:
        case GGML_UNARY_OP_CEIL:
        case GGML_UNARY_OP_ROUND:
        case GGML_UNARY_OP_TRUNC:
            return true;
        default:
            return false;
    }
}

void unary(Draft& draft, int variant, Chance& chance) {
    const auto function = static_cast<ggml_unary_op>(variant);
    const bool is_gelu = function == GGML_UNARY_OP_GELU || function == GGML_UNARY_OP_GELU_QUICK;
    const bool has_bf16 =
        !is_gelu && function != GGML_UNARY_OP_GELU_ERF && function != GGML_UNARY_OP_SILU;
    const Type type = has_bf16 ? chance.pick_from(kFloats) : chance.pick({kFloats[0], kFloats[1]});
    if (function == GGML_UNARY_OP_XIELU) {
        draft.calls = "ggml_xielu(src0, 4, 20, 0.5, 1e-07)";
    } else {
        draft.calls = text(maybe_inplace(chance, "ggml_unary"), "(src0, ", variant, ")");
    }
    Fill fill = type == GGML_TYPE_F32 && chance.one_in(2) ? uniform(-150, 150) : uniform(-6, 6);
    if (type == GGML_TYPE_F32 && takes_specials(function) && chance.one_in(3)) {
        fill = filled(Fill::Kind::special, -6, 6);
    }
    const Extents extent = many_extents(chance);
    const bool rows_only = function == GGML_UNARY_OP_XIELU;
    draft.source(rows_only ? padded_rows(chance, type, extent) : dense_rows(chance, type, extent),
                 fill);
    if (is_gelu) draft.tolerance = 1e-6;  // half-precision tables are allowed
}

/// Each function with one tensor, with one whose halves are swapped, and with two.
void glu(Draft& draft, int variant, Chance& chance) {
    const int function = variant / 3, form = variant % 3;
    const bool is_oai = function == GGML_GLU_OP_SWIGLU_OAI;
    const Type type = is_oai ? GGML_TYPE_F32 : chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    const Extents extent = many_extents(chance);
    Extents wide = extent;
    wide[0] = 2 * wide[0] + chance.extra(1);
    const Fill fill = type == GGML_TYPE_F32 ? uniform(-30, 30) : uniform(-6, 6);
    const std::string oai = text(chance.pick({0.5, 1.702}), ", ", chance.pick({2, 7}), ")");
    if (form == 2) {
        draft.calls = is_oai ? "ggml_swiglu_oai(src0, src1, " + oai
                             : text("ggml_glu_split(src0, src1, ", function, ")");
        draft.source(padded_rows(chance, type, extent), fill);
        draft.source(padded_rows(chance, type, extent), fill);
    } else {
        draft.calls = is_oai
                          ? "ggml_swiglu_oai(src0, NULL, " + oai
                          : text("ggml_glu(src0, ", function, form == 1 ? ", true)" : ", false)");
        draft.source(padded_rows(chance, type, wide), fill);
    }
    const bool is_gelu = function == GGML_GLU_OP_GEGLU || function == GGML_GLU_OP_GEGLU_QUICK;
    if (is_gelu) draft.tolerance = 1e-6;  // half-precision tables are allowed
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_ADD, add, kTriples + 3},
    {GGML_OP_SUB, sub, kTriples},
    {GGML_OP_MUL, mul, kTriples},
    {GGML_OP_DIV, div, kTriples},
    {GGML_OP_ADD_ID, add_id},
    {GGML_OP_ADD1, add1},
    {GGML_OP_ACC, acc},
    {GGML_OP_SQR, sqr},
    {GGML_OP_SQRT, square_root},
    {GGML_OP_LOG, logarithm},
    {GGML_OP_SIN, sine},
    {GGML_OP_COS, cosine},
    {GGML_OP_SCALE, scale},
    {GGML_OP_CLAMP, clamp},
    {GGML_OP_LEAKY_RELU, leaky_relu},
    {GGML_OP_UNARY, unary, GGML_UNARY_OP_COUNT},
    {GGML_OP_GLU, glu, 3 * GGML_GLU_OP_COUNT},
};

}  // namespace

std::span<const Recipe> elementwise_recipes() { return kRecipes; }

}  // namespace heddle::tool
