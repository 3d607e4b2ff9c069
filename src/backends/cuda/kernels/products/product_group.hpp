#pragma once

#include <array>
#include <vector>

#include "backends/cuda/kernel.hpp"

namespace heddle::cuda {

/// Products of many columns that share their activations, which are rounded once, and nodes around
/// them that need no launch of their own: what makes the activations, and what is added.
struct ProductGroup {
    const Tensor* norm = nullptr;   ///< RMS_NORM,
    const Tensor* scale = nullptr;  ///< and its MUL with weights; or neither
    const Tensor* glu = nullptr;    ///< or a GLU of two tensors;
    bool is_ready = false;          ///< the group of those has made the activations in its memory
    std::array<const Tensor*, 3> products{};
    int count = 0;
    const Tensor* sum = nullptr;  ///< the ADD of the one product and something of its shape

    // The GLU of both products, whose memory gets the activations of `next` instead.
    const Tensor* gated = nullptr;
    const Tensor* next = nullptr;

    /// In the order in which they would run one by one.
    std::vector<const Tensor*> nodes() const;

    /// What the norm is multiplied with.
    const Tensor& norm_weights() const { return *scale->src[scale->src[0] == norm ? 1 : 0]; }
    /// What the sum adds to the product.
    const Tensor& addend() const { return *sum->src[sum->src[0] == products[0] ? 1 : 0]; }
};

/// Whether a product, which has its memory and is to be computed by `kernel`, can be in a group on
/// this device.
bool can_be_grouped(const Tensor& product, const Kernel& kernel, const DeviceFacts& device);

/// Whether two products of the same activations can be in one group.
bool can_be_together(const Tensor& a, const Tensor& b);

/// Whether a group of two products can make their GLU into the activations of `next`.
bool can_be_gated(const ProductGroup& group, const Tensor& glu, const Tensor& next,
                  const DeviceFacts& device);

/// Takes no more scratch than its nodes do one by one.
void launch_group(const ProductGroup& group, const Launch& launch);

}  // namespace heddle::cuda
