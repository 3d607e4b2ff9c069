#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

// ---- reductions --------------------------------------------------------------------------------

void sum(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls = "ggml_sum(src0)";
    draft.source(dense_rows(chance, type, any_extents(chance)), uniform(-0.5, 1));
    if (type == GGML_TYPE_F16) draft.tolerance = 1e-5;  // one unit in the last place
}
void sum_rows(Draft& draft, int, Chance& chance) {
    draft.calls = "ggml_sum_rows(src0)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, any_extents(chance)), uniform(-0.9, 1.1));
}
void mean(Draft& draft, int, Chance& chance) {
    draft.calls = "ggml_mean(src0)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, any_extents(chance)), uniform(-0.9, 1.1));
}
void cumsum(Draft& draft, int, Chance& chance) {
    Extents extent = any_extents(chance);
    if (chance.one_in(3)) extent[0] = 1025;
    draft.calls = "ggml_cumsum(src0)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, extent));
}
void argmax(Draft& draft, int, Chance& chance) {
    draft.calls = "ggml_argmax(src0)";
    draft
        .source(padded_rows(chance, GGML_TYPE_F32,
                            {chance.extent({1, 32, 100, 513}), chance.between(1, 9), 1, 1}),
                filled(Fill::Kind::ramp, -5, 5))
        .exact();
}
void count_equal(Draft& draft, int, Chance& chance) {
    const Extents extent = any_extents(chance);
    draft.calls = "ggml_count_equal(src0, src1)";
    draft.source(dense_rows(chance, GGML_TYPE_I32, extent), integers(0, 2))
        .source(dense_rows(chance, GGML_TYPE_I32, extent), integers(0, 2))
        .exact();
}

// ---- normalisation -----------------------------------------------------------------------------

/// Rows of one element have no deviation to divide by; the least epsilon must do.
double epsilon(Chance& chance) { return chance.pick({1e-6, 1e-4, 1e-1, 10.0}); }

Extents long_rows(Chance& chance) {
    Extents extent = any_extents(chance);
    extent[0] = chance.extent({2, 33, 64, 260, 1025});
    return extent;
}

void norm(Draft& draft, int, Chance& chance) {
    draft.calls = text(maybe_inplace(chance, "ggml_norm"), "(src0, ", epsilon(chance), ")");
    draft.source(strided(chance, GGML_TYPE_F32, long_rows(chance)));
}
void rms_norm(Draft& draft, int, Chance& chance) {
    draft.calls = text(maybe_inplace(chance, "ggml_rms_norm"), "(src0, ", epsilon(chance), ")");
    draft.source(dense_rows(chance, GGML_TYPE_F32, long_rows(chance)), uniform(-10, 10));
}
void l2_norm(Draft& draft, int, Chance& chance) {
    draft.calls = text(maybe_inplace(chance, "ggml_l2_norm"), "(src0, ", epsilon(chance), ")");
    draft.source(strided(chance, GGML_TYPE_F32, long_rows(chance)));
}
void group_norm(Draft& draft, int, Chance& chance) {
    const Extents extent{chance.between(2, 9), chance.between(2, 9), chance.between(1, 13),
                         chance.between(1, 2)};
    draft.calls = text(maybe_inplace(chance, "ggml_group_norm"), "(src0, ", chance.between(1, 5),
                       ", ", epsilon(chance), ")");
    draft.source(leaf(GGML_TYPE_F32, extent));
}

// ---- order -------------------------------------------------------------------------------------

void argsort(Draft& draft, int variant, Chance& chance) {
    draft.calls = text("ggml_argsort(src0, ", variant, ")");
    draft
        .source(padded_rows(chance, GGML_TYPE_F32, long_rows(chance)),
                filled(Fill::Kind::ramp, -9, 9))
        .exact();
}
void top_k(Draft& draft, int, Chance& chance) {
    const Extents extent = long_rows(chance);
    draft.calls = text("ggml_top_k(src0, ", chance.between(1, extent[0]), ")");
    draft.source(padded_rows(chance, GGML_TYPE_F32, extent), filled(Fill::Kind::ramp, -9, 9))
        .exact();
    draft.rule = golden::Rule::index_set;
}

// ---- products ----------------------------------------------------------------------------------

std::int64_t shared_extent(Chance& chance, Type type) {
    if (block_size(type) > 1) return block_size(type) * chance.between(1, 3);
    return chance.extent({1, 2, 7, 32, 65, 100, 256});
}

/// Not around zero: where a few products cancel out, what rounding activations costs has no
/// measure.
const Fill kFactors = uniform(-0.4, 1);

/// Large and packed: what libraries of dense algebra take.
void dense_product(Draft& draft, Type type, Chance& chance) {
    const std::int64_t block = block_size(type), k = block * ((64 + block - 1) / block);
    const std::int64_t n2 = chance.between(1, 2);
    draft.source(leaf(type, {k, chance.between(32, 70), n2, 1}), kFactors)
        .source(leaf(GGML_TYPE_F32, {k, chance.between(32, 70), n2 * chance.times(2), 1}),
                kFactors);
}

void mul_mat(Draft& draft, int variant, Chance& chance) {
    const Type type = weight_types()[static_cast<std::size_t>(variant)];
    const std::int64_t k = shared_extent(chance, type);
    const std::int64_t m = chance.extent({1, 3, 16, 17, 33, 64});
    const std::int64_t n = chance.extent({1, 1, 2, 5, 9, 33});
    const std::int64_t a2 = chance.times(2), a3 = chance.times(2);
    const bool is_half = type == GGML_TYPE_F16 || type == GGML_TYPE_BF16;
    const Type other = is_half && chance.one_in(3) ? type : GGML_TYPE_F32;
    draft.calls = "ggml_mul_mat(src0, src1)";
    if (chance.one_in(3)) draft.calls += "; ggml_mul_mat_set_prec(dst, 10)";
    draft.tolerance = 5e-4;
    if (chance.one_in(4)) return dense_product(draft, type, chance);
    draft.source(dense_rows(chance, type, {k, m, a2, a3}), kFactors)
        .source(dense_rows(chance, other, {k, n, a2 * chance.times(3), a3 * chance.times(2)}),
                kFactors);
}

void mul_mat_id(Draft& draft, int variant, Chance& chance) {
    const Type type = weight_types()[static_cast<std::size_t>(variant)];
    const std::int64_t k = shared_extent(chance, type), experts = chance.between(1, 5);
    const std::int64_t m = chance.extent({1, 12, 33}), used = chance.between(1, 4);
    const std::int64_t tokens = chance.extent({1, 5, 17});
    draft.calls = "ggml_mul_mat_id(src0, src1, src2)";
    draft.source(leaf(type, {k, m, experts, 1}), kFactors)
        .source(dense_rows(chance, GGML_TYPE_F32, {k, chance.one_in(2) ? used : 1, tokens, 1}),
                kFactors)
        .source(padded_rows(chance, GGML_TYPE_I32, {used, tokens, 1, 1}), integers(0, experts - 1));
    draft.tolerance = 5e-4;
}

void out_prod(Draft& draft, int variant, Chance& chance) {
    constexpr Type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0,
                               GGML_TYPE_Q4_K};
    const Type type = kTypes[variant];
    const std::int64_t m = block_size(type) * chance.between(1, block_size(type) > 1 ? 2 : 33);
    const std::int64_t n = chance.between(1, 17), k = chance.between(1, 9);
    const std::int64_t a2 = chance.times(3), a3 = chance.times(2);
    const bool is_repeated = type == GGML_TYPE_F32 && chance.one_in(2);
    const std::int64_t times = is_repeated ? 2 : 1;
    draft.calls = "ggml_out_prod(src0, src1)";
    draft.source(dense_rows(chance, type, {m, k, a2, a3}), kFactors)
        .source(strided(chance, GGML_TYPE_F32, {n, k, a2 * times, a3 * times}), kFactors);
    draft.tolerance = 5e-4;
}

void solve_tri(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.between(1, 40), columns = chance.between(1, 20);
    const std::int64_t b2 = chance.times(2), b3 = chance.times(2);
    draft.calls = "ggml_solve_tri(src0, src1, true, true, false)";
    draft.source(leaf(GGML_TYPE_F32, {n, n, b2, b3}), filled(Fill::Kind::triangle))
        .source(leaf(GGML_TYPE_F32, {columns, n, b2, b3}));
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_SUM, sum},
    {GGML_OP_SUM_ROWS, sum_rows},
    {GGML_OP_MEAN, mean},
    {GGML_OP_CUMSUM, cumsum},
    {GGML_OP_ARGMAX, argmax},
    {GGML_OP_COUNT_EQUAL, count_equal},
    {GGML_OP_NORM, norm},
    {GGML_OP_RMS_NORM, rms_norm},
    {GGML_OP_L2_NORM, l2_norm},
    {GGML_OP_GROUP_NORM, group_norm},
    {GGML_OP_ARGSORT, argsort, 2},
    {GGML_OP_TOP_K, top_k},
    {GGML_OP_MUL_MAT, mul_mat, 28},
    {GGML_OP_MUL_MAT_ID, mul_mat_id, 28},
    {GGML_OP_OUT_PROD, out_prod, 5},
    {GGML_OP_SOLVE_TRI, solve_tri},
};

}  // namespace

std::span<const Recipe> reduce_recipes() { return kRecipes; }

}  // namespace heddle::tool
