#include "ggml/ops.h"
#include "shapes.hpp"

/// Values of other types than f32, made and read.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

/// Any type that has values, whatever can be done with them.
Type any_type(Dice& dice) {
    static const std::vector<Type> all = [] {
        std::vector<Type> types;
        for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
            if (ggml_blck_size(static_cast<Type>(number)) > 0) {
                types.push_back(static_cast<Type>(number));
            }
        }
        return types;
    }();
    return all[static_cast<std::size_t>(dice.below(static_cast<int>(all.size())))];
}

/// Rows of whole blocks of `type`.
Tensor* rows_for(Context* c, Tensor* x, Type type) {
    return rows_of(c, x, std::max<std::int64_t>(32, ggml_blck_size(type)));
}

Tensor* there_and_back(Context* c, Operands x, Dice& dice) {
    const Type type = any_type(dice);
    Tensor* a = rows_for(c, tame(c, x[0]), type);
    return ggml_cast(c, ggml_cast(c, a, type), GGML_TYPE_F32);
}
Tensor* copied(Context* c, Operands x, Dice& dice) {
    Tensor* a = ggml_is_contiguous(x[0]) ? x[0] : dense(c, x[0]);
    return floats(c, dice.one_in(2) ? ggml_dup(c, a) : ggml_cont(c, a));
}
/// Every second row.
Tensor* some_rows(Context* c, Operands x, Dice& dice) {
    Tensor* a = x[0];
    if (a->ne[1] < 2 || a->nb[1] < ggml_row_size(a->type, a->ne[0])) return nullptr;
    const std::size_t skip = static_cast<std::size_t>(dice.below(2)) * a->nb[1];
    Tensor* half = ggml_view_2d(c, a, a->ne[0], a->ne[1] / 2, 2 * a->nb[1], skip);
    return dice.one_in(2) ? floats(c, half) : floats(c, ggml_cont(c, half));
}
Tensor* half_sum(Context* c, Operands x, Dice& dice) {
    const Type type = dice.pick({GGML_TYPE_F16, GGML_TYPE_BF16});
    Tensor* a = ggml_cast(c, tame(c, x[0]), type);
    if (a == nullptr) return a;
    Tensor* b = matching(c, tame(c, x[1]), a);
    if (dice.one_in(2)) b = ggml_cast(c, b, type);
    switch (dice.below(3)) {
        case 0:
            return floats(c, ggml_add(c, a, b));
        case 1:
            return floats(c, ggml_mul(c, a, b));
        default:
            return ggml_add_cast(c, a, b, GGML_TYPE_F32);
    }
}
Tensor* typed_attention(Context* c, Operands x, Dice& dice) {
    const Type type =
        dice.pick({GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0});
    Tensor* q = cube(c, tame(c, x[0]), 32, 3, 2);
    Tensor* k = ggml_cast(c, cube(c, tame(c, x[1]), 32, 8, 2), type);
    Tensor* v = ggml_cast(c, cube(c, tame(c, x[2]), 32, 8, 2), type);
    return ggml_flash_attn_ext(c, q, k, v, nullptr, 0.25F, 0, 0);
}
Tensor* typed_product(Context* c, Operands x, Dice& dice) {
    const Type type = any_type(dice);
    Tensor* w = ggml_cast(c, rows_for(c, tame(c, x[0]), type), type);
    if (w == nullptr) return w;
    return ggml_scale(c, ggml_mul_mat(c, w, rows_of(c, tame(c, x[1]), w->ne[0])), 0.25F);
}
Tensor* whole_numbers(Context* c, Operands x, Dice& dice) {
    Tensor* a = ggml_scale(c, tame(c, x[0]), 8);
    Tensor* whole = ggml_cast(c, a, GGML_TYPE_I32);
    if (whole != nullptr && dice.one_in(2)) whole = ggml_cont(c, ggml_transpose(c, whole));
    return ggml_scale(c, floats(c, whole), 0.125F);
}

// Encoded values jump where a small difference crosses a border.
constexpr OpRule kOps[] = {
    {"cast", there_and_back, true},
    {"cast", there_and_back, true},
    {"copy_typed", copied},
    {"some_rows", some_rows},
    {"half_sum", half_sum},
    {"flash_attn_typed", typed_attention, true},
    {"mul_mat_typed", typed_product, true},
    {"whole_numbers", whole_numbers, true},
};

}  // namespace

std::span<const OpRule> type_ops() { return kOps; }

}  // namespace heddle::fuzz
