#include <cmath>

#include "generated_recipes.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"

namespace heddle::tool {
namespace {

void diag_mask(Draft& draft, Chance& chance, std::string_view name) {
    const Extents extent{chance.between(1, 40), chance.between(1, 12), chance.between(1, 3), 2};
    draft.calls = text(maybe_inplace(chance, name), "(src0, ", chance.extra(9), ")");
    draft.source(leaf(GGML_TYPE_F32, extent));
}
void diag_mask_inf(Draft& draft, int, Chance& chance) {
    diag_mask(draft, chance, "ggml_diag_mask_inf");
}
void diag_mask_zero(Draft& draft, int, Chance& chance) {
    diag_mask(draft, chance, "ggml_diag_mask_zero");
}

/// Without a mask, with one, and with a mask and sinks.
void soft_max(Draft& draft, int variant, Chance& chance) {
    const std::int64_t n = chance.extent({1, 15, 64, 257, 1023});
    const std::int64_t m2 = chance.between(1, 2), m3 = chance.between(1, 2);
    const Extents extent{n, chance.between(1, 7), m2 * chance.times(3), m3 * chance.times(2)};
    const std::string name = maybe_inplace(chance, "ggml_soft_max_ext");
    const double factor = chance.pick({1.0, 0.125});
    draft.source(leaf(GGML_TYPE_F32, extent), uniform(-3, 3));
    draft.tolerance = 1e-6;
    if (variant == 0) {
        draft.calls = text(name, "(src0, NULL, ", factor, ", 0)");
        return;
    }
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls = text(name, "(src0, src1, ", factor, ", ", chance.pick({0, 8}), ")");
    draft.source(leaf(type, {n, extent[1] + chance.extra(2), m2, m3}), filled(Fill::Kind::mask));
    if (variant == 1) return;
    draft.calls += "; ggml_soft_max_add_sinks(dst, src2)";
    draft.source(leaf(GGML_TYPE_F32, {extent[2], 1, 1, 1}), uniform(-5, 5));
}

void soft_max_back(Draft& draft, int, Chance& chance) {
    const Extents extent = any_extents(chance);
    draft.calls = text("ggml_soft_max_ext_back(src0, src1, ", chance.pick({1.0, 0.25}), ", 0)");
    draft.source(leaf(GGML_TYPE_F32, extent))
        .source(leaf(GGML_TYPE_F32, extent), filled(Fill::Kind::shares));
}

// ---- rotary positions --------------------------------------------------------------------------

constexpr int kRopeModes[] = {GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX, GGML_ROPE_TYPE_MROPE,
                              GGML_ROPE_TYPE_IMROPE, GGML_ROPE_TYPE_VISION};

/// Plain, or stretched to longer contexts.
std::string rope_numbers(Chance& chance) {
    return chance.pick({"0, 10000, 1, 0, 1, 0, 0", "4096, 10000, 0.25, 1, 1, 32, 1",
                        "0, 10000, 1.4245, 0.7465, 1.4245, 1, 1", "0, 500000, 0.5, 0, 1, 0, 0"});
}

void rotation(Draft& draft, int variant, Chance& chance, std::string_view suffix) {
    const int mode = kRopeModes[variant];
    const bool is_multi = (mode & GGML_ROPE_TYPE_MROPE) != 0;
    const bool is_vision = mode == GGML_ROPE_TYPE_VISION;
    const std::int64_t head = chance.extent({16, 36, 64, 128});
    const std::int64_t dims = is_vision ? head / 2 : head - 2 * chance.extra(6);
    const std::int64_t tokens = chance.between(1, 7);
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    const bool has_factors = chance.one_in(3);
    const std::string_view factors = has_factors ? "src2" : "NULL";
    const std::string numbers = rope_numbers(chance);
    if (is_multi) {
        const std::int64_t third = dims / (is_vision ? 2 : 6) + 1;
        draft.calls =
            text("ggml_rope_multi", suffix, "(src0, src1, ", factors, ", ", dims, ", {", third, ",",
                 third, ",", is_vision ? 0 : third, ",0}, ", mode, ", ", numbers, ")");
    } else {
        draft.calls = text("ggml_rope_ext", suffix, "(src0, src1, ", factors, ", ", dims, ", ",
                           mode, ", ", numbers, ")");
    }
    const std::int64_t spare = head - dims;
    if (!is_vision && spare > 0 && chance.one_in(2)) {
        draft.calls += text("; ggml_rope_set_offset(dst, ", spare, ")");
    }
    draft.source(dense_rows(chance, type, {head, chance.between(1, 4), tokens, chance.times(2)}));
    draft.source(leaf(GGML_TYPE_I32, {is_multi ? 4 * tokens : tokens, 1, 1, 1}),
                 integers(-20, 511));
    if (has_factors) {
        draft.source(leaf(GGML_TYPE_F32, {is_vision ? dims : dims / 2, 1, 1, 1}),
                     uniform(0.9, 1.1));
    }
}
void rope(Draft& draft, int variant, Chance& chance) {
    rotation(draft, variant, chance, chance.one_in(4) ? "_inplace" : "");
}
void rope_back(Draft& draft, int variant, Chance& chance) {
    rotation(draft, variant, chance, "_back");
}

// ---- attention ---------------------------------------------------------------------------------

struct KeyValueTypes {
    Type k, v;
};

constexpr KeyValueTypes kKeyValueTypes[] = {
    {GGML_TYPE_F32, GGML_TYPE_F32},   {GGML_TYPE_F16, GGML_TYPE_F16},
    {GGML_TYPE_BF16, GGML_TYPE_BF16}, {GGML_TYPE_Q8_0, GGML_TYPE_Q8_0},
    {GGML_TYPE_Q4_0, GGML_TYPE_Q4_0}, {GGML_TYPE_Q5_1, GGML_TYPE_Q5_0},
    {GGML_TYPE_Q4_1, GGML_TYPE_F16},  {GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_NL},
    {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}, {GGML_TYPE_F16, GGML_TYPE_F32},
};

void flash_attn_ext(Draft& draft, int variant, Chance& chance) {
    const auto [k, v] = kKeyValueTypes[variant];
    const std::int64_t dk = chance.pick<std::int64_t>({64, 96, 128}),
                       dv = chance.pick<std::int64_t>({64, 96, 128});
    const std::int64_t kv_heads = chance.between(1, 2), heads = kv_heads * chance.times(4);
    const std::int64_t batch = chance.between(1, 2),
                       queries = chance.pick<std::int64_t>({1, 1, 3, 33});
    const std::int64_t keys = chance.extent({1, 17, 64, 113, 600});
    const bool has_mask = !chance.one_in(3), has_sinks = chance.one_in(3);
    const int bias = has_mask ? chance.pick({0, 8}) : 0;
    draft.calls = text("ggml_flash_attn_ext(src0, src1, src2, ", has_mask ? "src3" : "NULL", ", ",
                       1 / std::sqrt(double(dk)), ", ", bias, ", ", chance.pick({0, 0, 10}), ")");
    if (chance.one_in(2)) draft.calls += "; ggml_flash_attn_ext_set_prec(dst, 10)";
    if (has_sinks) draft.calls += "; ggml_flash_attn_ext_add_sinks(dst, src4)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, {dk, queries, heads, batch}))
        .source(dense_rows(chance, k, {dk, keys, kv_heads, batch}))
        .source(dense_rows(chance, v, {dv, keys, kv_heads, batch}));
    if (has_mask) {
        // A row that is masked out completely gives zeros; with one key that happens often.
        draft.source_in(3, leaf(GGML_TYPE_F16, {keys, queries + chance.extra(2), 1, 1}),
                        chance.one_in(6) ? list({-INFINITY}) : filled(Fill::Kind::mask));
    }
    if (has_sinks) {
        draft.source_in(4, leaf(GGML_TYPE_F32, {heads, 1, 1, 1}), uniform(-5, 5));
    }
    draft.tolerance = 5e-4;
}

void lightning_indexer(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0,
                                   GGML_TYPE_Q4_1, GGML_TYPE_IQ4_NL});
    const std::int64_t heads = chance.extent({4, 32}), batch = chance.between(1, 4);
    const std::int64_t keys = chance.extent({1, 11, 64}), n3 = chance.between(1, 2);
    draft.calls = "ggml_lightning_indexer(src0, src1, src2, src3)";
    draft.source(dense_rows(chance, GGML_TYPE_F32, {128, heads, batch, n3}))
        .source(dense_rows(chance, type, {128, 1, keys, n3}))
        .source(dense_rows(chance, GGML_TYPE_F32, {heads, batch, 1, n3}), uniform(-0.2, 1))
        .source(leaf(GGML_TYPE_F16, {keys, batch, 1, chance.one_in(2) ? n3 : 1}),
                filled(Fill::Kind::mask));
    draft.tolerance = 1e-6;
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_DIAG_MASK_INF, diag_mask_inf},
    {GGML_OP_DIAG_MASK_ZERO, diag_mask_zero},
    {GGML_OP_SOFT_MAX, soft_max, 3},
    {GGML_OP_SOFT_MAX_BACK, soft_max_back},
    {GGML_OP_ROPE, rope, std::size(kRopeModes)},
    {GGML_OP_ROPE_BACK, rope_back, std::size(kRopeModes)},
    {GGML_OP_FLASH_ATTN_EXT, flash_attn_ext, std::size(kKeyValueTypes)},
    {GGML_OP_LIGHTNING_INDEXER, lightning_indexer},
};

}  // namespace

std::span<const Recipe> attention_recipes() { return kRecipes; }

}  // namespace heddle::tool
