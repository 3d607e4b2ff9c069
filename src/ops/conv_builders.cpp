#include "ops/conv_builders.hpp"

#include <limits>

#include "ops/build.hpp"
#include "ops/copy.hpp"
#include "ops/im2col.hpp"
#include "ops/matmul.hpp"
#include "ops/view_builders.hpp"

namespace heddle {
namespace {

/// Runs `chain` over operands that are there; a failure says which builder it happened in.
template <class Chain>
Result<Tensor*> compose(std::string_view name, const Tensor* kernel, const Tensor* x,
                        Chain&& chain) {
    if (kernel == nullptr) return invalid(name, ": operand kernel is missing");
    if (x == nullptr) return invalid(name, ": operand x is missing");
    Result<Tensor*> result = chain();
    if (!result) return std::move(result).error().within(name);
    return result;
}

/// An extent of the kernel as a stride or a padding.
Result<std::int32_t> as_parameter(std::int64_t extent) {
    if (extent <= std::numeric_limits<std::int32_t>::max())
        return static_cast<std::int32_t>(extent);
    return invalid("extent ", extent, " of the kernel is too large for a stride or a padding");
}

Type patch_type(const Tensor& kernel) {
    return kernel.type == GGML_TYPE_BF16 ? GGML_TYPE_F32 : GGML_TYPE_F16;
}

Result<Tensor*> patches_1d(Context& context, Tensor* kernel, Tensor* x, const Sliding<1>& window) {
    const Sliding<2> flat{.stride = {window.stride[0], 0},
                          .padding = {window.padding[0], 0},
                          .dilation = {window.dilation[0], 0}};
    return build<ops::Im2col>(context, {{flat, 0}, patch_type(*kernel)}, {kernel, x});
}

Result<Tensor*> patches_2d(Context& context, Tensor* kernel, Tensor* x, const Sliding<2>& window) {
    return build<ops::Im2col>(context, {{window, 1}, patch_type(*kernel)}, {kernel, x});
}

/// Every patch times every kernel of `taps` elements: [patches, kernels].
Result<Tensor*> multiply(Context& context, Tensor* patches, Tensor* kernel, std::int64_t taps,
                         std::int64_t kernels) {
    HEDDLE_TRY_ASSIGN(Tensor * rows,
                      reshape_nd(context, patches, {patches->ne[0], row_count(*patches)}));
    HEDDLE_TRY_ASSIGN(Tensor * columns, reshape_nd(context, kernel, {taps, kernels}));
    return build<ops::MulMat>(context, {}, {rows, columns});
}

Result<Tensor*> permuted_copy(Context& context, Tensor* x, const ops::Permute::Params& axes) {
    HEDDLE_TRY_ASSIGN(Tensor * permuted, build<ops::Permute>(context, axes, {x}));
    return build<ops::Cont>(context, {}, {permuted});
}

/// Padding of half a kernel, for `then`.
template <class Then>
Result<Tensor*> with_half_padding(std::string_view name, const Tensor* kernel, const Tensor* x,
                                  Then&& then) {
    return compose(name, kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(const std::int32_t padding, as_parameter(kernel->ne[0] / 2));
        return then(padding);
    });
}

}  // namespace

Result<Tensor*> conv_1d(Context& context, Tensor* kernel, Tensor* x, const Sliding<1>& window) {
    return compose("conv_1d", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(Tensor * patches, patches_1d(context, kernel, x, window));
        const std::int64_t length = patches->ne[1], batches = patches->ne[2];
        HEDDLE_TRY_ASSIGN(Tensor * product, multiply(context, patches, kernel,
                                                     kernel->ne[0] * kernel->ne[1], kernel->ne[2]));
        if (batches == 1) return reshape_nd(context, product, {length, kernel->ne[2], batches});
        // The product has the batches before the channels; for one batch that is the same memory.
        HEDDLE_TRY_ASSIGN(Tensor * split,
                          reshape_nd(context, product, {length, batches, kernel->ne[2]}));
        return permuted_copy(context, split, {.axis = {0, 2, 1, 3}});
    });
}

Result<Tensor*> conv_1d_half_padded(Context& context, Tensor* kernel, Tensor* x,
                                    std::int32_t stride, std::int32_t dilation) {
    return with_half_padding("conv_1d_ph", kernel, x, [&](std::int32_t padding) {
        return conv_1d(context, kernel, x, {{stride}, {padding}, {dilation}});
    });
}

Result<Tensor*> conv_1d_depthwise(Context& context, Tensor* kernel, Tensor* x,
                                  const Sliding<1>& window) {
    return compose("conv_1d_dw", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(Tensor * channels,
                          reshape_nd(context, x, {x->ne[0], 1, x->ne[1], x->ne[2]}));
        HEDDLE_TRY_ASSIGN(Tensor * patches, patches_1d(context, kernel, channels, window));
        HEDDLE_TRY_ASSIGN(Tensor * product, build<ops::MulMat>(context, {}, {patches, kernel}));
        return reshape_nd(context, product, {product->ne[0], product->ne[2], 1});
    });
}

Result<Tensor*> conv_1d_depthwise_half_padded(Context& context, Tensor* kernel, Tensor* x,
                                              std::int32_t stride, std::int32_t dilation) {
    return with_half_padding("conv_1d_dw_ph", kernel, x, [&](std::int32_t padding) {
        return conv_1d_depthwise(context, kernel, x, {{stride}, {padding}, {dilation}});
    });
}

Result<Tensor*> conv_2d(Context& context, Tensor* kernel, Tensor* x, const Sliding<2>& window) {
    return compose("conv_2d", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(Tensor * patches, patches_2d(context, kernel, x, window));
        const std::int64_t taps = kernel->ne[0] * kernel->ne[1] * kernel->ne[2];
        HEDDLE_TRY_ASSIGN(Tensor * product,
                          multiply(context, patches, kernel, taps, kernel->ne[3]));
        HEDDLE_TRY_ASSIGN(Tensor * images, reshape_nd(context, product,
                                                      {patches->ne[1], patches->ne[2],
                                                       patches->ne[3], kernel->ne[3]}));
        return permuted_copy(context, images, {.axis = {0, 1, 3, 2}});
    });
}

Result<Tensor*> conv_2d_tiled(Context& context, Tensor* kernel, Tensor* x) {
    return compose("conv_2d_sk_p0", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(const std::int32_t width, as_parameter(kernel->ne[0]));
        HEDDLE_TRY_ASSIGN(const std::int32_t height, as_parameter(kernel->ne[1]));
        return conv_2d(context, kernel, x, {{width, height}, {0, 0}, {1, 1}});
    });
}

Result<Tensor*> conv_2d_half_padded(Context& context, Tensor* kernel, Tensor* x) {
    return compose("conv_2d_s1_ph", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(const std::int32_t across, as_parameter(kernel->ne[0] / 2));
        HEDDLE_TRY_ASSIGN(const std::int32_t down, as_parameter(kernel->ne[1] / 2));
        return conv_2d(context, kernel, x, {{1, 1}, {across, down}, {1, 1}});
    });
}

Result<Tensor*> conv_2d_depthwise(Context& context, Tensor* kernel, Tensor* x,
                                  const Sliding<2>& window) {
    return compose("conv_2d_dw", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(Tensor * kernels, reshape_nd(context, kernel,
                                                       {kernel->ne[0], kernel->ne[1], 1,
                                                        kernel->ne[2] * kernel->ne[3]}));
        HEDDLE_TRY_ASSIGN(Tensor * planes,
                          reshape_nd(context, x, {x->ne[0], x->ne[1], 1, x->ne[2] * x->ne[3]}));
        HEDDLE_TRY_ASSIGN(Tensor * patches, patches_2d(context, kernels, planes, window));
        HEDDLE_TRY_ASSIGN(
            Tensor * columns,
            reshape_nd(context, patches,
                       {patches->ne[0], patches->ne[2] * patches->ne[1], x->ne[2], x->ne[3]}));
        HEDDLE_TRY_ASSIGN(Tensor * rows, reshape_nd(context, kernels,
                                                    {kernels->ne[0] * kernels->ne[1],
                                                     kernels->ne[2], kernels->ne[3], 1}));
        HEDDLE_TRY_ASSIGN(Tensor * product, build<ops::MulMat>(context, {}, {rows, columns}));
        return reshape_nd(context, product, {patches->ne[1], patches->ne[2], x->ne[2], x->ne[3]});
    });
}

Result<Tensor*> conv_3d(Context& context, Tensor* kernel, Tensor* x, std::int64_t channels,
                        const Sliding<3>& window) {
    return compose("conv_3d", kernel, x, [&]() -> Result<Tensor*> {
        HEDDLE_TRY_ASSIGN(
            Tensor * patches,
            build<ops::Im2col3d>(
                context,
                {{window, static_cast<std::int32_t>(channels)}, channels, patch_type(*kernel)},
                {kernel, x}));
        const std::int64_t batches = x->ne[3] / channels, kernels = kernel->ne[3] / channels;
        if (batches == 0 || kernels == 0) {
            return invalid("kernel ", describe(*kernel), " or x ", describe(*x), " has fewer than ",
                           channels, " channels in dimension 3");
        }
        // Cannot overflow: the kernel holds at least one such block.
        const std::int64_t taps = kernel->ne[0] * kernel->ne[1] * kernel->ne[2] * channels;
        const std::int64_t width = patches->ne[1], height = patches->ne[2];
        const std::int64_t depth = patches->ne[3] / batches;
        HEDDLE_TRY_ASSIGN(Tensor * product, multiply(context, patches, kernel, taps, kernels));
        HEDDLE_TRY_ASSIGN(Tensor * split,
                          reshape_nd(context, product, {width * height, depth, batches, kernels}));
        HEDDLE_TRY_ASSIGN(Tensor * volumes, permuted_copy(context, split, {.axis = {0, 1, 3, 2}}));
        return reshape_nd(context, volumes, {width, height, depth, kernels * batches});
    });
}

}  // namespace heddle
