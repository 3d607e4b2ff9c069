#pragma once

#include "ops/sliding.hpp"

/// Convolutions built from several nodes: the patches of x become a matrix, which is multiplied
/// with the kernel. Schedulers, gradients and users see those nodes, so the chains do not change.
///
/// Patches are f16, whatever the kernel, but f32 for bf16 kernels. A chain that fails midway leaves
/// the nodes made before in the context.
namespace heddle {

/// [L', OC, N] from kernel [K, IC, OC] and x [L, IC, N].
Result<Tensor*> conv_1d(Context& context, Tensor* kernel, Tensor* x, const Sliding<1>& window);

/// With as much padding as leaves the length as it is for an odd kernel and stride 1.
Result<Tensor*> conv_1d_half_padded(Context& context, Tensor* kernel, Tensor* x,
                                    std::int32_t stride, std::int32_t dilation);

/// [L', C, 1] from one kernel per channel [K, 1, C] and x [L, C, 1].
Result<Tensor*> conv_1d_depthwise(Context& context, Tensor* kernel, Tensor* x,
                                  const Sliding<1>& window);
Result<Tensor*> conv_1d_depthwise_half_padded(Context& context, Tensor* kernel, Tensor* x,
                                              std::int32_t stride, std::int32_t dilation);

/// [W', H', OC, N] from kernel [KW, KH, IC, OC] and x [W, H, IC, N].
Result<Tensor*> conv_2d(Context& context, Tensor* kernel, Tensor* x, const Sliding<2>& window);

/// Patches side by side: strides as large as the kernel.
Result<Tensor*> conv_2d_tiled(Context& context, Tensor* kernel, Tensor* x);

/// Stride 1, and as much padding as leaves the size as it is for an odd kernel.
Result<Tensor*> conv_2d_half_padded(Context& context, Tensor* kernel, Tensor* x);

/// [W', H', C, N] from one kernel per channel [KW, KH, 1, C] and x [W, H, C, N].
Result<Tensor*> conv_2d_depthwise(Context& context, Tensor* kernel, Tensor* x,
                                  const Sliding<2>& window);

/// [W', H', D', OC*N] from kernel [KW, KH, KD, OC*IC] and x [W, H, D, N*IC].
Result<Tensor*> conv_3d(Context& context, Tensor* kernel, Tensor* x, std::int64_t channels,
                        const Sliding<3>& window);

}  // namespace heddle
