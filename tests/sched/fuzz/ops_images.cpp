#include "ggml/ops_layout.h"
#include "ggml/ops_math.h"
#include "ggml/ops_nn.h"
#include "shapes.hpp"

/// Convolutions and what belongs to them.
namespace heddle::fuzz {
namespace {

using Context = ggml_context;

Tensor* convolve(Context* c, Operands x, Dice& dice) {
    Tensor* kernel = block(c, x[1], 3, 3, 2, 2);
    Tensor* image = cube(c, x[0], 8, 8, 2);
    if (dice.one_in(2)) {
        return ggml_scale(c, ggml_conv_2d_direct(c, kernel, image, 1, 1, 1, 1, 1, 1), 0.25F);
    }
    return ggml_scale(c, ggml_conv_2d(c, kernel, image, 1, 1, 1, 1, 1, 1), 0.25F);
}
Tensor* convolve_channels(Context* c, Operands x, Dice&) {
    Tensor* kernel = block(c, x[1], 3, 3, 1, 2);
    return ggml_scale(
        c, ggml_conv_2d_dw_direct(c, kernel, cube(c, x[0], 8, 8, 2), 1, 1, 1, 1, 1, 1), 0.25F);
}
Tensor* convolve_volume(Context* c, Operands x, Dice& dice) {
    Tensor* kernel = block(c, x[1], 2, 2, 2, 4);
    Tensor* volume = block(c, x[0], 4, 4, 4, 2);
    if (dice.one_in(2)) {
        return ggml_im2col_3d(c, kernel, volume, 2, 1, 1, 1, 0, 0, 0, 1, 1, 1, GGML_TYPE_F32);
    }
    return ggml_scale(c, ggml_conv_3d_direct(c, kernel, volume, 1, 1, 1, 0, 0, 0, 1, 1, 1, 2, 1, 2),
                      0.25F);
}
Tensor* spread(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) {
        Tensor* kernel = cube(c, x[1], 3, 2, 2);
        return ggml_scale(c, ggml_conv_transpose_1d(c, kernel, matrix(c, x[0], 8, 2), 2, 0, 1),
                          0.25F);
    }
    Tensor* kernel = ggml_cast(c, block(c, x[1], 2, 2, 2, 2), GGML_TYPE_F16);
    return ggml_scale(c, ggml_conv_transpose_2d_p0(c, kernel, cube(c, x[0], 4, 4, 2), 2), 0.25F);
}
Tensor* columns_to_signal(Context* c, Operands x, Dice& dice) {
    return ggml_scale(c, ggml_col2im_1d(c, matrix(c, x[0], 6, 5), dice.between(1, 3), 2, 0), 0.5F);
}
Tensor* patches_back(Context* c, Operands x, Dice&) {
    Tensor* kernel = block(c, x[1], 3, 3, 2, 2);
    Tensor* image = cube(c, x[0], 6, 6, 2);
    Tensor* patches = ggml_im2col(c, kernel, image, 1, 1, 1, 1, 1, 1, true, GGML_TYPE_F32);
    if (patches == nullptr) return patches;
    Tensor* back = ggml_im2col_back(c, patches, kernel, image->ne, 1, 1, 1, 1, 1, 1, true);
    return ggml_scale(c, back, 0.2F);
}
Tensor* pool(Context* c, Operands x, Dice& dice) {
    const auto kind = dice.one_in(2) ? GGML_OP_POOL_MAX : GGML_OP_POOL_AVG;
    if (dice.one_in(2)) return ggml_pool_1d(c, matrix(c, x[0], 16, 2), kind, 2, 2, 0);
    return ggml_pool_2d(c, cube(c, x[0], 8, 8, 2), kind, 2, 2, 2, 2, 0, 0);
}
Tensor* pool_back(Context* c, Operands x, Dice& dice) {
    const auto kind = dice.one_in(2) ? GGML_OP_POOL_MAX : GGML_OP_POOL_AVG;
    return ggml_pool_2d_back(c, cube(c, x[0], 4, 4, 2), cube(c, x[1], 8, 8, 2), kind, 2, 2, 2, 2, 0,
                             0);
}
Tensor* windows(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) return ggml_win_part(c, cube(c, x[0], 4, 5, 6), 4);
    return ggml_win_unpart(c, block(c, x[0], 4, 4, 4, 4), 5, 6, 4);
}
Tensor* distances(Context* c, Operands x, Dice& dice) {
    if (dice.one_in(2)) {
        return ggml_get_rel_pos(c, ggml_cast(c, matrix(c, x[0], 8, 7), GGML_TYPE_F16), 4, 4);
    }
    Tensor* scores = cube(c, x[0], 16, 16, 2);
    Tensor *across = block(c, x[1], 4, 4, 4, 2), *down = block(c, x[2], 4, 4, 4, 2);
    return dice.one_in(2) ? ggml_add_rel_pos(c, scores, across, down)
                          : ggml_add_rel_pos_inplace(c, ggml_dup(c, scores), across, down);
}

constexpr OpRule kOps[] = {
    {"conv", convolve},
    {"conv_dw", convolve_channels},
    {"conv_3d", convolve_volume},
    {"conv_transpose", spread},
    {"col2im", columns_to_signal},
    {"im2col_back", patches_back},
    {"pool", pool},
    {"pool_back", pool_back, true},
    {"win_part", windows},
    {"rel_pos", distances},
};

}  // namespace

std::span<const OpRule> image_ops() { return kOps; }

}  // namespace heddle::fuzz
