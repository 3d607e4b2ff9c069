#pragma once

#include <span>

#include "backends/cuda/kernels/products/tiled_activations.hpp"

/// Products of many columns on Hopper, see gemm_wgmma.cuh.
namespace heddle::cuda {

/// Why a product is not one for such a launch; empty if it is.
std::string_view wgmma_objection(const Tensor& node);

/// Whether the launch will do with these addresses on this device.
bool can_wgmma(const Tensor& node, const DeviceFacts& device);

/// Whether products with weights of these types read activations that are rounded and ordered in
/// the same way.
bool share_activations(ggml_type a, ggml_type b);

/// Products of the same activations, which `source` makes, with weights of the same depth and of
/// types that share them, `can_wgmma` all. `sum`: the ADD of the one product and something; or
/// null. False if the driver does not describe the weights; then some may be there.
bool launch_wgmma_products(std::span<const Tensor* const> nodes, const TileSource& source,
                           const Tensor* sum, const Launch& launch);

/// Whether the gated unit of two products of the same activations, `glu`, can be made into the
/// activations of `next` in the memory of its tensor; `can_wgmma` all.
bool can_make_gated(const Tensor& gate, const Tensor& linear, const Tensor& glu, const Tensor& next,
                    const DeviceFacts& device);

/// That unit of two products whose activations `source` makes. False as above.
bool launch_wgmma_gated(const Tensor& glu, const Tensor& next, const TileSource& source,
                        const Launch& launch);

/// The same from the results of both.
void convert_gated(const Tensor& glu, const Tensor& next, const Launch& launch);

/// What it needs.
std::size_t wgmma_products_scratch(const Tensor& node, const DeviceFacts& device);

}  // namespace heddle::cuda
