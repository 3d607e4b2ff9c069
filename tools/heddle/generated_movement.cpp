#include <algorithm>

#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

constexpr Type kMovable[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32,
                             GGML_TYPE_I16};

/// What suits a type: small whole numbers for integers.
Fill fill_of(Type type, double size = 1) {
    const bool is_integer = type == GGML_TYPE_I8 || type == GGML_TYPE_I16 ||
                            type == GGML_TYPE_I32 || type == GGML_TYPE_I64;
    return is_integer ? integers(-99, 99) : uniform(-size, size);
}

void reshape(Draft& draft, int, Chance& chance) {
    draft.calls = chance.pick({"ggml_reshape_2d(src0, 6, 8)", "ggml_reshape_1d(src0, 48)"});
    draft.source(leaf(GGML_TYPE_F32, {4, 3, 2, 2})).exact();
}
void view(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_view_2d(src0, 3, 2, 48, ", 4 * chance.extra(5), ")");
    draft.source(leaf(GGML_TYPE_F32, {12, 4, 1, 1})).exact();
}
void permute(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_permute(src0, ", chance.pick({"0, 2, 1, 3", "3, 1, 0, 2"}), ")");
    draft.source(leaf(GGML_TYPE_F32, {5, 4, 3, 2})).exact();
}
void transpose(Draft& draft, int, Chance& chance) {
    draft.calls = "ggml_transpose(src0)";
    draft.source(leaf(GGML_TYPE_F16, {chance.between(1, 9), 4, 3, 2})).exact();
}

// ---- copies ------------------------------------------------------------------------------------

void dup(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick_from(kMovable);
    draft.calls = "ggml_dup(src0)";
    draft.source(strided(chance, type, any_extents(chance)), fill_of(type)).exact();
}

void cont(Draft& draft, int variant, Chance& chance) {
    const Type type = variant == 0 ? chance.pick_from(kMovable)
                                   : chance.pick({GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K});
    Extents extent = any_extents(chance);
    if (variant == 1) extent[0] = block_size(type) * chance.between(1, 3);
    draft.calls = "ggml_cont(src0)";
    draft.source(strided(chance, type, extent), fill_of(type)).exact();
}

/// Between plain types, with any layout on either side.
void convert(Draft& draft, Chance& chance) {
    struct Pair {
        Type from, to;
    };
    const Pair pair = chance.pick<Pair>({{GGML_TYPE_F32, GGML_TYPE_F16},
                                         {GGML_TYPE_F16, GGML_TYPE_F32},
                                         {GGML_TYPE_F32, GGML_TYPE_BF16},
                                         {GGML_TYPE_BF16, GGML_TYPE_F32},
                                         {GGML_TYPE_F16, GGML_TYPE_BF16},
                                         {GGML_TYPE_BF16, GGML_TYPE_F16},
                                         {GGML_TYPE_F32, GGML_TYPE_I32},
                                         {GGML_TYPE_I32, GGML_TYPE_F32}});
    const Extents extent = any_extents(chance);
    if (chance.one_in(3)) {
        draft.calls = text("ggml_cast(src0, ", name_of(pair.to), ")");
        draft.source(strided(chance, pair.from, extent), fill_of(pair.from, 150));
    } else {
        draft.calls = "ggml_cpy(src0, src1)";
        draft.source(strided(chance, pair.from, extent), fill_of(pair.from, 150))
            .source(strided(chance, pair.to, extent), fill_of(pair.to, 0.1));
    }
    draft.tolerance = 1e-6;
}

/// The first variants: within and between plain types; then every block type copied, encoded,
/// decoded.
void cpy(Draft& draft, int variant, Chance& chance) {
    const auto blocks = weight_types().subspan(3);
    constexpr int kPlain = 4;
    if (variant == 0) {
        const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I8, GGML_TYPE_I16,
                                       GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_F64});
        const Extents from = any_extents(chance);
        const auto& [n0, n1, n2, n3] = from;
        const Extents to = chance.is_plain() ? from : Extents{n1, n0 * n3, n2, 1};
        draft.calls = "ggml_cpy(src0, src1)";
        draft.source(strided(chance, type, from), fill_of(type))
            .source(strided(chance, type, to), fill_of(type))
            .exact();
        return;
    }
    if (variant < kPlain) return convert(draft, chance);
    const auto number = static_cast<std::size_t>(variant - kPlain) / 3;
    const int kind = (variant - kPlain) % 3;
    const Type type = blocks[number];
    const Extents extent{block_size(type) * chance.between(1, 2), chance.between(1, 3),
                         chance.between(1, 3), 1};
    if (kind == 0 || (kind == 1 && number >= encodable_types().size())) {
        draft.calls = "ggml_cpy(src0, src1)";
        draft.source(dense_rows(chance, type, extent))
            .source(dense_rows(chance, type, extent), uniform(-0.1, 0.1))
            .exact();
    } else if (kind == 1) {
        const Type from = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16});
        draft.calls = text("ggml_cast(src0, ", name_of(type), ")");
        draft.source(dense_rows(chance, from, extent), uniform(-150, 150));
        draft.rule = golden::Rule::nmse_dequant;
        const std::int64_t count = extent[0] * extent[1] * extent[2];
        draft.tolerance = std::max(1e-6, quantum_tolerance(type, count));
    } else {
        draft.calls = "ggml_cast(src0, f32)";
        draft.source(dense_rows(chance, type, extent));
    }
}

constexpr int kBlockTypes = 25, kCpyVariants = 4 + 3 * kBlockTypes;

void set(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_I32});
    const Extents whole{chance.extent({12, 33}), 7, 3, 2};
    const Extents part{chance.between(1, 9), chance.between(1, 4), 2, chance.between(1, 2)};
    const Strides stride = dense_strides(type, whole);
    draft.calls = text(maybe_inplace(chance, "ggml_set"), "(src0, src1, ", stride[1], ", ",
                       stride[2], ", ", stride[3], ", ", 4 * chance.extra(3), ")");
    draft.source(leaf(type, whole), fill_of(type))
        .source(dense_rows(chance, type, part), fill_of(type))
        .exact();
}

// ---- rows --------------------------------------------------------------------------------------

void get_rows(Draft& draft, int variant, Chance& chance) {
    const auto types = weight_types();
    const bool is_integer = variant == static_cast<int>(types.size());
    const Type type = is_integer ? GGML_TYPE_I32 : types[static_cast<std::size_t>(variant)];
    const std::int64_t rows = chance.between(1, 9), d2 = chance.times(3);
    const std::int64_t n = block_size(type) * chance.between(1, block_size(type) > 1 ? 2 : 70);
    const std::int64_t d3 = chance.times(2), taken = chance.between(1, 7);
    draft.calls = "ggml_get_rows(src0, src1)";
    draft.source(dense_rows(chance, type, {n, rows, d2, d3}), fill_of(type))
        .source(strided(chance, GGML_TYPE_I32, {taken, d2, d3, 1}), integers(0, rows - 1));
}

void set_rows(Draft& draft, int variant, Chance& chance) {
    const Type type = weight_types()[static_cast<std::size_t>(variant)];
    const Type from = chance.pick({GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F16});
    const Type index = chance.pick({GGML_TYPE_I64, GGML_TYPE_I32});
    const std::int64_t n = block_size(type) * chance.between(1, block_size(type) > 1 ? 2 : 70);
    const std::int64_t rows = chance.between(3, 9), given = chance.between(1, 3);
    const std::int64_t d2 = chance.times(2), d3 = chance.times(2);
    draft.calls = "ggml_set_rows(src2, src0, src1)";
    const std::int64_t planes = d2 * chance.times(2);
    draft.source(dense_rows(chance, from, {n, given, planes, d3}))
        .source(dense_rows(chance, index, {given, d2, d3, 1}), distinct(rows))
        .source(dense_rows(chance, type, {n, rows, planes, d3}), uniform(-0.2, 0.2));
    if (block_size(type) == 1) return;
    draft.rule = golden::Rule::nmse_dequant;
    const double widened = from == GGML_TYPE_F16 ? 16 : 1;
    draft.tolerance = std::max(1e-6, widened * quantum_tolerance(type, n * given * planes * d3));
}

// ---- assembling --------------------------------------------------------------------------------

void repeat(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick_from(kMovable);
    const Extents extent = any_extents(chance);
    draft.calls = "ggml_repeat_4d(src0";
    for (const std::int64_t n : extent) draft.calls += text(", ", n * chance.between(1, 3));
    draft.calls += ")";
    draft.source(dense_rows(chance, type, extent), fill_of(type)).exact();
}

void concat(Draft& draft, int variant, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I8,
                                   GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_Q4_0, GGML_TYPE_Q8_0});
    const bool is_plain = block_size(type) == 1;
    Extents a{is_plain ? chance.extent({1, 6, 33}) : 64, 5, 3, 2}, b = a;
    const auto dim = static_cast<std::size_t>(variant);
    b[dim] = dim == 0 && !is_plain ? 32 : chance.between(1, 7);
    draft.calls = text("ggml_concat(src0, src1, ", variant, ")");
    draft.source(strided(chance, type, a), fill_of(type))
        .source(strided(chance, type, b), fill_of(type))
        .exact();
}

void pad(Draft& draft, int variant, Chance& chance) {
    draft.calls = variant == 0 ? "ggml_pad_ext(src0" : "ggml_pad_ext_circular(src0";
    const Extents extent{chance.extent({5, 10, 33}), 4, 3, 3};
    for (int i = 0; i < 8; ++i) draft.calls += text(", ", chance.between(0, 3));
    draft.calls += ")";
    draft.source(strided(chance, GGML_TYPE_F32, extent)).exact();
}

void pad_reflect_1d(Draft& draft, int, Chance& chance) {
    draft.calls =
        text("ggml_pad_reflect_1d(src0, ", chance.between(0, 6), ", ", chance.between(0, 6), ")");
    draft.source(leaf(GGML_TYPE_F32, {chance.between(7, 40), 3, 2, 1})).exact();
}

void roll(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_roll(src0, ", chance.between(-9, 9), ", ", chance.between(-4, 4), ", ",
                       chance.between(-3, 3), ", ", chance.between(-2, 2), ")");
    draft.source(dense_rows(chance, GGML_TYPE_F32, {chance.extent({10, 33}), 5, 4, 3})).exact();
}

// ---- windows, relative positions, makers -------------------------------------------------------

void win_part(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_win_part(src0, ", chance.between(2, 4), ")");
    draft.source(leaf(GGML_TYPE_F32, {5, chance.between(1, 9), chance.between(1, 9), 1})).exact();
}

void win_unpart(Draft& draft, int, Chance& chance) {
    const std::int64_t window = chance.between(2, 4), w = chance.between(1, 9);
    const std::int64_t h = chance.between(1, 9), across = (w + window - 1) / window;
    const std::int64_t down = (h + window - 1) / window;
    draft.calls = text("ggml_win_unpart(src0, ", w, ", ", h, ", ", window, ")");
    draft.source(leaf(GGML_TYPE_F32, {5, window, window, across * down})).exact();
}

void get_rel_pos(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.between(1, 6);
    draft.calls = text("ggml_get_rel_pos(src0, ", n, ", ", n, ")");
    draft.source(leaf(GGML_TYPE_F16, {chance.between(1, 9), 2 * n - 1, 1, 1})).exact();
}

void add_rel_pos(Draft& draft, int, Chance& chance) {
    const std::int64_t n = chance.between(1, 4), a = chance.between(1, 4), b = chance.between(1, 3);
    const std::int64_t heads = chance.between(1, 3);
    draft.calls = text(maybe_inplace(chance, "ggml_add_rel_pos"), "(src0, src1, src2)");
    draft.source(leaf(GGML_TYPE_F32, {n * n, a * b, heads, 1}))
        .source(leaf(GGML_TYPE_F32, {n, a, b, heads}))
        .source(leaf(GGML_TYPE_F32, {n, a, b, heads}));
}

void diag(Draft& draft, int, Chance& chance) {
    draft.calls = "ggml_diag(src0)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, {chance.between(1, 40), 1, 3, 2})).exact();
}

/// What lies outside of the triangle is dropped, even if it is no number.
void tri(Draft& draft, int variant, Chance& chance) {
    const std::int64_t n = chance.between(1, 33);
    draft.calls = text("ggml_tri(src0, ", variant, ")");
    draft
        .source(leaf(GGML_TYPE_F32, {n, n, 2, 2}),
                filled(chance.one_in(3) ? Fill::Kind::special : Fill::Kind::uniform))
        .exact();
}

void fill(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls = text(maybe_inplace(chance, "ggml_fill"), "(src0, ",
                       chance.pick({"0", "-1.5", "0.1", "-inf"}), ")");
    draft.source(leaf(type, any_extents(chance))).exact();
}

void arange(Draft& draft, int, Chance& chance) {
    const std::int64_t start = chance.between(-9, 9);
    draft.calls = text("ggml_arange(", start, ", ", start + chance.between(1, 99), ", ",
                       chance.pick({1.0, 0.5, 7.0}), ")");
}

void timestep_embedding(Draft& draft, int, Chance& chance) {
    draft.calls = text("ggml_timestep_embedding(src0, ", chance.pick({7, 32, 320}), ", ",
                       chance.pick({50, 10000}), ")");
    draft.source(leaf(GGML_TYPE_F32, {chance.between(1, 5), 1, 1, 1}), uniform(0, 100));
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_RESHAPE, reshape},
    {GGML_OP_VIEW, view},
    {GGML_OP_PERMUTE, permute},
    {GGML_OP_TRANSPOSE, transpose},
    {GGML_OP_DUP, dup},
    {GGML_OP_CONT, cont, 2},
    {GGML_OP_CPY, cpy, kCpyVariants},
    {GGML_OP_SET, set},
    {GGML_OP_GET_ROWS, get_rows, 29},
    {GGML_OP_SET_ROWS, set_rows, 21},
    {GGML_OP_REPEAT, repeat},
    {GGML_OP_CONCAT, concat, 4},
    {GGML_OP_PAD, pad, 2},
    {GGML_OP_PAD_REFLECT_1D, pad_reflect_1d},
    {GGML_OP_ROLL, roll},
    {GGML_OP_WIN_PART, win_part},
    {GGML_OP_WIN_UNPART, win_unpart},
    {GGML_OP_GET_REL_POS, get_rel_pos},
    {GGML_OP_ADD_REL_POS, add_rel_pos},
    {GGML_OP_DIAG, diag},
    {GGML_OP_TRI, tri, 4},
    {GGML_OP_FILL, fill},
    {GGML_OP_ARANGE, arange},
    {GGML_OP_TIMESTEP_EMBEDDING, timestep_embedding},
};

}  // namespace

std::span<const Recipe> movement_recipes() { return kRecipes; }

}  // namespace heddle::tool
