#include "generated_recipes.hpp"
#include "ggml/op_list.h"

namespace heddle::tool {
namespace {

/// Strides, paddings and dilations of a convolution, and the sizes they are used with.
struct Sliding {
    std::int64_t kernel[3], input[3], step[3], padding[3], dilation[3];

    explicit Sliding(Chance& chance) {
        for (int d = 0; d < 3; ++d) {
            kernel[d] = chance.between(1, 3);
            step[d] = chance.times(3);
            padding[d] = chance.extra(2);
            dilation[d] = chance.times(2);
            input[d] = dilation[d] * (kernel[d] - 1) + chance.between(1, 7);
        }
    }
    std::int64_t output(int d) const {
        return (input[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / step[d] + 1;
    }
    /// Steps, paddings, dilations of the first `dims` dimensions, as builders take them.
    std::string numbers(int dims) const {
        std::string list;
        for (const auto* values : {step, padding, dilation}) {
            for (int d = 0; d < dims; ++d) list += text(list.empty() ? "" : ", ", values[d]);
        }
        return list;
    }
    std::string numbers_of_1d() const {
        return text(step[0], ", 0, ", padding[0], ", 0, ", dilation[0], ", 0");
    }
};

constexpr Type kKernelTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16};

struct PatchTypes {
    Type from, to;
};

PatchTypes patch_types(Chance& chance) {
    return chance.pick<PatchTypes>({{GGML_TYPE_F32, GGML_TYPE_F32},
                                    {GGML_TYPE_F32, GGML_TYPE_F16},
                                    {GGML_TYPE_F16, GGML_TYPE_F16}});
}

void im2col(Draft& draft, int variant, Chance& chance) {
    const Sliding s(chance);
    const auto [from, to] = patch_types(chance);
    const std::int64_t channels = chance.between(1, 4), n = chance.between(1, 3);
    const bool is_2d = variant == 0;
    draft.calls = text("ggml_im2col(src0, src1, ", is_2d ? s.numbers(2) : s.numbers_of_1d(), ", ",
                       is_2d ? "true" : "false", ", ", name_of(to), ")");
    if (is_2d) {
        draft.source(leaf(GGML_TYPE_F16, {s.kernel[0], s.kernel[1], channels, 2}))
            .source(dense_rows(chance, from, {s.input[0], s.input[1], channels, n}));
    } else {
        draft.source(leaf(GGML_TYPE_F16, {s.kernel[0], channels, 2, 1}))
            .source(leaf(from, {s.input[0], channels, n, 1}));
    }
    draft.exact();
}

void im2col_back(Draft& draft, int variant, Chance& chance) {
    const Sliding s(chance);
    const std::int64_t channels = chance.between(1, 4), n = chance.between(1, 3);
    const std::int64_t w = s.input[0], h = s.input[1];
    if (variant == 0) {
        draft.calls = text("ggml_im2col_back(src0, src1, {", w, ",", h, ",", channels, ",", n,
                           "}, ", s.numbers(2), ", true)");
        draft
            .source(leaf(GGML_TYPE_F32,
                         {channels * s.kernel[0] * s.kernel[1], s.output(0), s.output(1), n}))
            .source(leaf(GGML_TYPE_F32, {s.kernel[0], s.kernel[1], channels, 2}));
    } else {
        draft.calls = text("ggml_im2col_back(src0, src1, {", w, ",", channels, ",", n, ",1}, ",
                           s.numbers_of_1d(), ", false)");
        draft.source(leaf(GGML_TYPE_F32, {channels * s.kernel[0], s.output(0), n, 1}))
            .source(leaf(GGML_TYPE_F32, {s.kernel[0], channels, 2, 1}));
    }
}

void im2col_3d(Draft& draft, int, Chance& chance) {
    const Sliding s(chance);
    const std::int64_t channels = chance.between(1, 3), n = chance.between(1, 2);
    const Type to = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16});
    draft.calls =
        text("ggml_im2col_3d(src0, src1, ", channels, ", ", s.numbers(3), ", ", name_of(to), ")");
    draft.source(leaf(GGML_TYPE_F16, {s.kernel[0], s.kernel[1], s.kernel[2], channels * 2}))
        .source(
            dense_rows(chance, GGML_TYPE_F32, {s.input[0], s.input[1], s.input[2], channels * n}))
        .exact();
}

void col2im_1d(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16});
    const std::int64_t channels = chance.between(1, 3), taps = chance.between(1, 5);
    const std::int64_t padding = taps > 2 ? chance.extra(1) : 0;
    draft.calls =
        text("ggml_col2im_1d(src0, ", chance.times(3), ", ", channels, ", ", padding, ")");
    draft.source(leaf(type, {taps * channels, chance.between(1, 20), 1, 1}));
    if (type != GGML_TYPE_F32) draft.tolerance = 5e-4;
}

void conv_2d(Draft& draft, int, Chance& chance) {
    const Sliding s(chance);
    const std::int64_t channels = chance.between(1, 4);
    draft.calls = text("ggml_conv_2d_direct(src0, src1, ", s.numbers(2), ")");
    draft
        .source(leaf(chance.pick_from(kKernelTypes),
                     {s.kernel[0], s.kernel[1], channels, chance.between(1, 5)}))
        .source(strided(chance, GGML_TYPE_F32,
                        {s.input[0], s.input[1], channels, chance.between(1, 2)}));
    draft.tolerance = 5e-4;
}

void conv_3d(Draft& draft, int, Chance& chance) {
    const Sliding s(chance);
    const std::int64_t channels = chance.between(1, 3), out = chance.between(1, 3);
    const std::int64_t n = chance.between(1, 2);
    draft.calls = text("ggml_conv_3d_direct(src0, src1, ", s.numbers(3), ", ", channels, ", ", n,
                       ", ", out, ")");
    draft
        .source(leaf(chance.pick_from(kKernelTypes),
                     {s.kernel[0], s.kernel[1], s.kernel[2], channels * out}))
        .source(strided(chance, GGML_TYPE_F32, {s.input[0], s.input[1], s.input[2], channels * n}));
    draft.tolerance = 5e-4;
}

/// Packed images, and images whose channels vary fastest, which the result then does too.
void conv_2d_dw(Draft& draft, int variant, Chance& chance) {
    const Sliding s(chance);
    const std::int64_t channels = chance.between(2, 5), n = chance.between(1, 2);
    draft.calls = text("ggml_conv_2d_dw_direct(src0, src1, ", s.numbers(2), ")");
    if (variant == 0) {
        draft.source(leaf(chance.pick_from(kKernelTypes), {s.kernel[0], s.kernel[1], 1, channels}))
            .source(leaf(GGML_TYPE_F32, {s.input[0], s.input[1], channels, n}));
    } else {
        draft
            .source(text("ggml_permute(",
                         leaf(GGML_TYPE_F32, {channels, 1, s.kernel[0], s.kernel[1]}),
                         ", 3, 2, 0, 1)"))
            .source(text("ggml_permute(",
                         leaf(GGML_TYPE_F32, {channels, s.input[0] + 1, s.input[1], n}),
                         ", 2, 0, 1, 3)"));
    }
}

void conv_transpose_1d(Draft& draft, int, Chance& chance) {
    const Type type = chance.pick_from(kKernelTypes);
    const std::int64_t channels = chance.between(1, 5);
    draft.calls = text("ggml_conv_transpose_1d(src0, src1, ", chance.times(4), ", 0, 1)");
    draft.source(leaf(type, {chance.between(1, 6), chance.between(1, 4), channels, 1}))
        .source(leaf(GGML_TYPE_F32, {chance.between(1, 20), channels, 1, 1}));
    if (type == GGML_TYPE_F16) draft.tolerance = 1e-6;  // data may be rounded to half precision
}

void conv_transpose_2d(Draft& draft, int, Chance& chance) {
    const std::int64_t channels = chance.between(1, 4);
    draft.calls = text("ggml_conv_transpose_2d_p0(src0, src1, ", chance.times(3), ")");
    draft
        .source(leaf(chance.pick_from(kKernelTypes),
                     {chance.between(1, 3), chance.between(1, 3), chance.between(1, 3), channels}))
        .source(leaf(GGML_TYPE_F32,
                     {chance.between(1, 7), chance.between(1, 7), channels, chance.between(1, 2)}));
    draft.tolerance = 5e-4;
}

// ---- pooling and scaling -----------------------------------------------------------------------

void pool_1d(Draft& draft, int variant, Chance& chance) {
    const std::int64_t k = chance.between(1, 4);
    draft.calls = text("ggml_pool_1d(src0, ", variant, ", ", k, ", ", chance.times(3), ", ",
                       chance.extra(2), ")");
    draft.source(leaf(chance.pick_from(kKernelTypes), {k + chance.between(0, 20), 3, 2, 1}));
}

void pool_2d(Draft& draft, int variant, Chance& chance) {
    const std::int64_t k0 = chance.between(1, 3), k1 = chance.between(1, 3);
    draft.calls = text("ggml_pool_2d(src0, ", variant, ", ", k0, ", ", k1, ", ", chance.times(3),
                       ", ", chance.times(3), ", ", chance.pick({"0", "1", "0.5"}), ", ",
                       chance.pick({"0", "1"}), ")");
    draft.source(leaf(chance.pick_from(kKernelTypes),
                      {k0 + chance.between(0, 9), k1 + chance.between(0, 9), 3, 2}));
}

void pool_2d_back(Draft& draft, int variant, Chance& chance) {
    const std::int64_t k = chance.between(1, 3), step = chance.times(3), p = chance.extra(1);
    const std::int64_t w = k + chance.between(0, 9), h = k + chance.between(0, 9);
    const auto out = [&](std::int64_t n) { return (n + 2 * p - k) / step + 1; };
    draft.calls = text("ggml_pool_2d_back(src0, src1, ", variant, ", ", k, ", ", k, ", ", step,
                       ", ", step, ", ", p, ", ", p, ")");
    draft.source(strided(chance, GGML_TYPE_F32, {out(w), out(h), 2, 2}))
        .source(leaf(GGML_TYPE_F32, {w, h, 2, 2}), filled(Fill::Kind::ramp, -3, 3));
}

/// Modes with their flags: nearest, linear, cubic, with aligned corners, antialiased.
void upscale(Draft& draft, int variant, Chance& chance) {
    constexpr int kModes[] = {0, 1, 2, 1 | 0x100, 2 | 0x100, 1 | 0x200};
    const auto size = [&] { return chance.extent({1, 2, 4, 5, 8, 13}); };
    draft.calls = text("ggml_interpolate(src0, ", size(), ", ", size(), ", ", chance.between(1, 4),
                       ", ", chance.between(1, 3), ", ", kModes[variant], ")");
    draft.source(strided(chance, GGML_TYPE_F32,
                         {size(), size(), chance.between(1, 3), chance.between(1, 2)}));
}

constexpr Recipe kRecipes[] = {
    {GGML_OP_IM2COL, im2col, 2},
    {GGML_OP_IM2COL_BACK, im2col_back, 2},
    {GGML_OP_IM2COL_3D, im2col_3d},
    {GGML_OP_COL2IM_1D, col2im_1d},
    {GGML_OP_CONV_2D, conv_2d},
    {GGML_OP_CONV_3D, conv_3d},
    {GGML_OP_CONV_2D_DW, conv_2d_dw, 2},
    {GGML_OP_CONV_TRANSPOSE_1D, conv_transpose_1d},
    {GGML_OP_CONV_TRANSPOSE_2D, conv_transpose_2d},
    {GGML_OP_POOL_1D, pool_1d, 2},
    {GGML_OP_POOL_2D, pool_2d, 2},
    {GGML_OP_POOL_2D_BACK, pool_2d_back, 2},
    {GGML_OP_UPSCALE, upscale, 6},
};

}  // namespace

std::span<const Recipe> image_recipes() { return kRecipes; }

}  // namespace heddle::tool
