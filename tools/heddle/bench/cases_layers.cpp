#include "bench/cases.hpp"

/// Layers of their own kind: recurrent ones of language models, and those of sound and images.
namespace heddle::tool::bench {
namespace {

Case plain_case(std::string op, std::string type, ggml_type main_type, std::string shape,
                std::function<ggml_tensor*(Inputs&)> build) {
    return {.op = std::move(op),
            .type = std::move(type),
            .main_type = main_type,
            .shape = std::move(shape),
            .build = std::move(build)};
}

Case state_space_convolution(std::int64_t channels, std::int64_t tokens) {
    return plain_case(
        "SSM_CONV", "f32", GGML_TYPE_F32,
        "4x" + std::to_string(channels) + " n=" + std::to_string(tokens), [=](Inputs& inputs) {
            ggml_tensor* x = inputs.input(GGML_TYPE_F32, {tokens + 3, channels, 1});
            return ggml_ssm_conv(inputs.context(), x, inputs.input(GGML_TYPE_F32, {4, channels}));
        });
}

Case selective_scan(std::int64_t heads, std::int64_t tokens) {
    constexpr std::int64_t state = 128, width = 64;
    return plain_case(
        "SSM_SCAN", "f32", GGML_TYPE_F32,
        "state 128, head 64 x " + std::to_string(heads) + " n=" + std::to_string(tokens),
        [=](Inputs& inputs) {
            const auto f32 = [&](std::initializer_list<std::int64_t> extents) {
                return inputs.input(GGML_TYPE_F32, extents);
            };
            ggml_tensor* states = f32({state, width, heads, 1});
            ggml_tensor* x = f32({width, heads, tokens, 1});
            ggml_tensor* steps = f32({heads, tokens, 1});
            ggml_tensor* decay = f32({1, heads});
            ggml_tensor* b = f32({state, 1, tokens, 1});
            ggml_tensor* c = f32({state, 1, tokens, 1});
            ggml_tensor* ids = inputs.input(GGML_TYPE_I32, {1}, {Content::Kind::numbers, 1});
            return ggml_ssm_scan(inputs.context(), states, x, steps, decay, b, c, ids, 1);
        });
}

Case linear_attention(std::int64_t heads, std::int64_t tokens) {
    constexpr std::int64_t width = 64;
    return plain_case(
        "RWKV_WKV6", "f32", GGML_TYPE_F32,
        "head 64 x " + std::to_string(heads) + " n=" + std::to_string(tokens), [=](Inputs& inputs) {
            const auto each = [&] { return inputs.input(GGML_TYPE_F32, {width, heads, tokens}); };
            ggml_tensor *k = each(), *v = each(), *r = each();
            ggml_tensor* first = inputs.input(GGML_TYPE_F32, {width, heads});
            ggml_tensor* decay = each();
            ggml_tensor* state = inputs.input(GGML_TYPE_F32, {width * width * heads, 1});
            return ggml_rwkv_wkv6(inputs.context(), k, v, r, first, decay, state);
        });
}

/// A kernel of 3 x 3 over an image.
Case convolution(ggml_type type, std::int64_t size, std::int64_t in, std::int64_t out) {
    return plain_case("CONV_2D", ggml_type_name(type), type,
                      "3x3 on " + std::to_string(size) + "x" + std::to_string(size) + "x" +
                          std::to_string(in) + " to " + std::to_string(out),
                      [=](Inputs& inputs) {
                          ggml_tensor* kernel = inputs.input(type, {3, 3, in, out});
                          ggml_tensor* image = inputs.input(GGML_TYPE_F32, {size, size, in, 1});
                          return ggml_conv_2d_direct(inputs.context(), kernel, image, 1, 1, 1, 1, 1,
                                                     1);
                      });
}

Case channel_convolution(std::int64_t size, std::int64_t channels) {
    return plain_case(
        "CONV_2D_DW", "f32", GGML_TYPE_F32,
        "3x3 on " + std::to_string(size) + "x" + std::to_string(size) + "x" +
            std::to_string(channels),
        [=](Inputs& inputs) {
            ggml_tensor* kernel = inputs.input(GGML_TYPE_F32, {3, 3, 1, channels});
            ggml_tensor* image = inputs.input(GGML_TYPE_F32, {size, size, channels, 1});
            return ggml_conv_2d_dw_direct(inputs.context(), kernel, image, 1, 1, 1, 1, 1, 1);
        });
}

/// An op on an image of so many channels.
Case on_image(std::string op, std::int64_t size, std::int64_t channels,
              std::function<ggml_tensor*(ggml_context*, ggml_tensor*)> build) {
    Case made = plain_case(
        std::move(op), "f32", GGML_TYPE_F32,
        std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(channels),
        [=](Inputs& inputs) {
            return build(inputs.context(), inputs.input(GGML_TYPE_F32, {size, size, channels, 1}));
        });
    made.beside_copy = true;
    return made;
}

Case patches_of_sound(std::int64_t frames, std::int64_t channels) {
    Case made = plain_case(
        "IM2COL", "f16", GGML_TYPE_F16,
        "3 on " + std::to_string(frames) + "x" + std::to_string(channels), [=](Inputs& inputs) {
            ggml_tensor* kernel = inputs.input(GGML_TYPE_F16, {3, channels, channels});
            ggml_tensor* sound = inputs.input(GGML_TYPE_F32, {frames, channels, 1});
            return ggml_im2col(inputs.context(), kernel, sound, 1, 0, 1, 0, 1, 0, false,
                               GGML_TYPE_F16);
        });
    made.beside_copy = true;
    return made;
}

Case transposed_convolution(std::int64_t frames, std::int64_t in, std::int64_t out) {
    return plain_case(
        "CONV_TRANSPOSE_1D", "f32", GGML_TYPE_F32,
        "8 on " + std::to_string(frames) + "x" + std::to_string(in) + " to " + std::to_string(out),
        [=](Inputs& inputs) {
            ggml_tensor* kernel = inputs.input(GGML_TYPE_F32, {8, out, in});
            ggml_tensor* sound = inputs.input(GGML_TYPE_F32, {frames, in});
            return ggml_conv_transpose_1d(inputs.context(), kernel, sound, 4, 0, 1);
        });
}

}  // namespace

std::vector<Case> recurrent_cases(const Wish& wish) {
    if (wish.shapes != "llm") return {};
    const std::int64_t tokens = wish.quick ? 16 : 512;
    return {state_space_convolution(4096, tokens), selective_scan(32, tokens),
            linear_attention(32, tokens)};
}

std::vector<Case> image_cases(const Wish& wish) {
    if (wish.shapes == "speech") {
        const std::int64_t frames = wish.quick ? 150 : 1500;
        return {patches_of_sound(2 * frames, 1280),
                transposed_convolution(wish.quick ? 32 : 256, 256, 128)};
    }
    if (wish.shapes != "vision") return {};
    const std::int64_t size = wish.quick ? 16 : 64, channels = wish.quick ? 64 : 320;
    return {
        convolution(GGML_TYPE_F32, size, channels, channels),
        convolution(GGML_TYPE_F16, size, channels, channels),
        channel_convolution(2 * size, channels),
        on_image("GROUP_NORM", size, channels,
                 [](ggml_context* c, ggml_tensor* x) { return ggml_group_norm(c, x, 32, 1e-6f); }),
        on_image("UPSCALE", size, channels,
                 [](ggml_context* c, ggml_tensor* x) {
                     return ggml_upscale(c, x, 2, GGML_SCALE_MODE_NEAREST);
                 }),
        on_image("POOL_2D", size, channels,
                 [](ggml_context* c, ggml_tensor* x) {
                     return ggml_pool_2d(c, x, GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0);
                 }),
        on_image("PAD", size, channels,
                 [](ggml_context* c, ggml_tensor* x) { return ggml_pad(c, x, 1, 1, 0, 0); })};
}

}  // namespace heddle::tool::bench
