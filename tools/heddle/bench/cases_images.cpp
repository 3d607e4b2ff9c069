#include "bench/cases.hpp"
#include "ggml/ops_layout.h"
#include "ggml/ops_nn.h"
#include "ggml/ops_reduce.h"

/// Layers of sound and images.
namespace heddle::tool::bench {
namespace {

using enum SizedOp::Beside;

constexpr std::int64_t kChannels = 320;  ///< of a network that paints

ggml_tensor* f32(Inputs& inputs, std::initializer_list<std::int64_t> extents) {
    return inputs.input(GGML_TYPE_F32, extents);
}

ggml_tensor* image(Inputs& inputs, std::int64_t size) {
    return f32(inputs, {size, size, kChannels, 1});
}

// ---- sound -------------------------------------------------------------------------------------

/// What a convolution over time multiplies: kernels of three frames.
template <int kBands, int kStride>
ggml_tensor* frames(Inputs& inputs, std::int64_t count, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {3, kBands, 1280});
    return ggml_im2col(inputs.context(), kernel, f32(inputs, {count, kBands, 1}), kStride, 0, 1, 0,
                       1, 0, false, type);
}

ggml_tensor* sound_from_frames(Inputs& inputs, std::int64_t count, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {8, 128, 256});
    return ggml_conv_transpose_1d(inputs.context(), kernel, f32(inputs, {count, 256}), 4, 0, 1);
}

ggml_tensor* columns_added(Inputs& inputs, std::int64_t count, ggml_type) {
    return ggml_col2im_1d(inputs.context(), f32(inputs, {8 * 128, count}), 4, 128, 0);
}

ggml_tensor* mirrored_ends(Inputs& inputs, std::int64_t samples, ggml_type) {
    return ggml_pad_reflect_1d(inputs.context(), f32(inputs, {samples, 8}), 200, 200);
}

ggml_tensor* pooled_sound(Inputs& inputs, std::int64_t count, ggml_type) {
    return ggml_pool_1d(inputs.context(), f32(inputs, {count, 1280}), GGML_OP_POOL_AVG, 2, 2, 0);
}

// ---- convolutions ------------------------------------------------------------------------------

ggml_tensor* convolution(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {3, 3, kChannels, kChannels});
    return ggml_conv_2d_direct(inputs.context(), kernel, image(inputs, size), 1, 1, 1, 1, 1, 1);
}

ggml_tensor* patch_embedding(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {14, 14, 3, 1024});
    ggml_tensor* picture = f32(inputs, {size, size, 3, 1});
    return ggml_conv_2d_direct(inputs.context(), kernel, picture, 14, 14, 0, 0, 1, 1);
}

ggml_tensor* channel_convolution(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {3, 3, 1, kChannels});
    return ggml_conv_2d_dw_direct(inputs.context(), kernel, image(inputs, size), 1, 1, 1, 1, 1, 1);
}

ggml_tensor* transposed_convolution(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {2, 2, 64, 256});
    return ggml_conv_transpose_2d_p0(inputs.context(), kernel, f32(inputs, {size, size, 256, 1}),
                                     2);
}

/// A patch of two frames of a film.
ggml_tensor* film_convolution(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {14, 14, 2, 3 * 1280});
    ggml_tensor* film = f32(inputs, {size, size, 4, 3});
    return ggml_conv_3d_direct(inputs.context(), kernel, film, 14, 14, 2, 0, 0, 0, 1, 1, 1, 3, 1,
                               1280);
}

ggml_tensor* image_patches(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {3, 3, kChannels, kChannels});
    return ggml_im2col(inputs.context(), kernel, image(inputs, size), 1, 1, 1, 1, 1, 1, true, type);
}

ggml_tensor* film_patches(Inputs& inputs, std::int64_t size, ggml_type type) {
    ggml_tensor* kernel = inputs.input(type, {3, 3, 3, 16 * 16});
    ggml_tensor* film = f32(inputs, {size, size, 8, 16});
    return ggml_im2col_3d(inputs.context(), kernel, film, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, type);
}

// ---- passing over an image ---------------------------------------------------------------------

ggml_tensor* group_norm(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_group_norm(inputs.context(), image(inputs, size), 32, 1e-6f);
}

template <ggml_scale_mode kMode>
ggml_tensor* upscaled(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_upscale(inputs.context(), image(inputs, size), 2, kMode);
}

template <ggml_op_pool kKind>
ggml_tensor* pooled(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_pool_2d(inputs.context(), image(inputs, size), kKind, 2, 2, 2, 2, 0, 0);
}

ggml_tensor* padded(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_pad(inputs.context(), image(inputs, size), 1, 1, 0, 0);
}

ggml_tensor* rolled(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_roll(inputs.context(), f32(inputs, {kChannels, size, size}), 0, 3, 3, 0);
}

constexpr int kWindow = 14;

ggml_tensor* windows(Inputs& inputs, std::int64_t size, ggml_type) {
    return ggml_win_part(inputs.context(), f32(inputs, {768, size, size}), kWindow);
}

ggml_tensor* from_windows(Inputs& inputs, std::int64_t size, ggml_type) {
    const std::int64_t along = (size + kWindow - 1) / kWindow;
    ggml_tensor* x = f32(inputs, {768, kWindow, kWindow, along * along});
    const int extent = static_cast<int>(size);
    return ggml_win_unpart(inputs.context(), x, extent, extent, kWindow);
}

ggml_tensor* relative_positions(Inputs& inputs, std::int64_t size, ggml_type type) {
    const int extent = static_cast<int>(size);
    return ggml_get_rel_pos(inputs.context(), inputs.input(type, {64, 2 * size - 1}), extent,
                            extent);
}

ggml_tensor* positions_added(Inputs& inputs, std::int64_t size, ggml_type) {
    constexpr std::int64_t heads = 12;
    ggml_tensor* scores = f32(inputs, {size * size, size * size, heads});
    ggml_tensor* across = f32(inputs, {size, size, size, heads});
    return ggml_add_rel_pos(inputs.context(), scores, across,
                            f32(inputs, {size, size, size, heads}));
}

ggml_tensor* timesteps(Inputs& inputs, std::int64_t count, ggml_type) {
    return ggml_timestep_embedding(inputs.context(), f32(inputs, {count}), 320, 10000);
}

ggml_tensor* counted(Inputs& inputs, std::int64_t count, ggml_type) {
    return ggml_arange(inputs.context(), 0, static_cast<float>(count), 1);
}

// ---- their gradients ---------------------------------------------------------------------------

ggml_tensor* patches_back(Inputs& inputs, std::int64_t size, ggml_type) {
    constexpr std::int64_t channels = 32;
    std::int64_t extents[] = {size, size, channels, 1};
    ggml_tensor* kernel = f32(inputs, {3, 3, channels, channels});
    return ggml_im2col_back(inputs.context(), f32(inputs, {9 * channels, size, size, 1}), kernel,
                            extents, 1, 1, 1, 1, 1, 1, true);
}

ggml_tensor* pooling_back(Inputs& inputs, std::int64_t size, ggml_type) {
    ggml_tensor* gradient = f32(inputs, {size / 2, size / 2, kChannels, 1});
    return ggml_pool_2d_back(inputs.context(), gradient, image(inputs, size), GGML_OP_POOL_MAX, 2,
                             2, 2, 2, 0, 0);
}

// clang-format off
constexpr SizedOp kTable[] = {
    // op                 model     shape                          size  quick  beside  how          usual  type
    {"IM2COL",             "speech", "3 on {}x80",                  3000, 300, copy, frames<80, 1>,    true,  GGML_TYPE_F16},
    {"IM2COL",             "speech", "3 on {}x1280 stride 2",       3000, 300, copy, frames<1280, 2>,  true,  GGML_TYPE_F16},
    {"CONV_TRANSPOSE_1D",  "speech", "8 on {}x256 to 128",           256,  32, peak, sound_from_frames, true},
    {"CONV_TRANSPOSE_1D",  "speech", "8 on {}x256 to 128",           256,  32, peak, sound_from_frames, false, GGML_TYPE_F16},
    {"COL2IM_1D",          "speech", "8x128 on {}",                 4096, 256, copy, columns_added},
    {"PAD_REFLECT_1D",     "speech", "{}x8",                      480000, 4800, copy, mirrored_ends},
    {"POOL_1D",            "speech", "2 on {}x1280",                1500, 150, copy, pooled_sound},

    {"CONV_2D",            "vision", "3x3 on {0}x{0}x320 to 320",     64,  16, peak, convolution,      true},
    {"CONV_2D",            "vision", "3x3 on {0}x{0}x320 to 320",     64,  16, peak, convolution,      true,  GGML_TYPE_F16},
    {"CONV_2D",            "vision", "14x14 on {0}x{0}x3 to 1024",   336,  56, peak, patch_embedding,  true,  GGML_TYPE_F16},
    {"CONV_2D_DW",         "vision", "3x3 on {0}x{0}x320",           128,  32, peak, channel_convolution, true},
    {"CONV_TRANSPOSE_2D",  "vision", "2x2 on {0}x{0}x256 to 64",      64,   8, peak, transposed_convolution, false, GGML_TYPE_F16},
    {"CONV_3D",            "vision", "14x14x2 on {0}x{0}x4x3 to 1280", 336, 28, peak, film_convolution, false, GGML_TYPE_F16},
    {"IM2COL",             "vision", "3x3 on {0}x{0}x320",            64,  16, copy, image_patches,    false, GGML_TYPE_F16},
    {"IM2COL_3D",          "vision", "3x3x3 on {0}x{0}x8x16",         64,   8, copy, film_patches,     false, GGML_TYPE_F16},
    {"GROUP_NORM",         "vision", "{0}x{0}x320",                   64,  16, copy, group_norm,       true},
    {"UPSCALE",            "vision", "{0}x{0}x320 nearest",           64,  16, copy, upscaled<GGML_SCALE_MODE_NEAREST>, true},
    {"UPSCALE",            "vision", "{0}x{0}x320 bilinear",          64,  16, copy, upscaled<GGML_SCALE_MODE_BILINEAR>},
    {"POOL_2D",            "vision", "{0}x{0}x320 mean",              64,  16, copy, pooled<GGML_OP_POOL_AVG>, true},
    {"POOL_2D",            "vision", "{0}x{0}x320 largest",           64,  16, copy, pooled<GGML_OP_POOL_MAX>},
    {"PAD",                "vision", "{0}x{0}x320",                   64,  16, copy, padded,           true},
    {"ROLL",               "vision", "320x{0}x{0}",                   64,  16, copy, rolled},
    {"WIN_PART",           "vision", "768x{0}x{0} by 14x14",          64,  16, copy, windows},
    {"WIN_UNPART",         "vision", "768x{0}x{0} by 14x14",          64,  16, copy, from_windows},
    {"GET_REL_POS",        "vision", "64x{0}x{0}",                    64,  16, copy, relative_positions, false, GGML_TYPE_F16},
    {"ADD_REL_POS",        "vision", "12 heads of {0}x{0}",           32,   8, copy, positions_added},
    {"TIMESTEP_EMBEDDING", "vision", "320x{}",                      1024,  64, peak, timesteps},
    {"ARANGE",             "vision", "{}",                       1 << 20, 1 << 12, copy, counted},
    {"IM2COL_BACK",        "vision", "3x3 on {0}x{0}x32",             64,  16, copy, patches_back},
    {"POOL_2D_BACK",       "vision", "{0}x{0}x320 largest",           64,  16, copy, pooling_back},
};
// clang-format on

}  // namespace

std::vector<Case> image_cases(const Wish& wish) { return cases_of(kTable, wish); }

}  // namespace heddle::tool::bench
