#pragma once

#include <span>

#include "backends/cuda/kernels/products/tiled_activations.hpp"

/// Products of many columns with float weights, by cuBLASLt.
namespace heddle::cuda {

/// Whether a product that the library computes can share its activations with others.
bool can_group_by_library(const Tensor& product);

/// Products of the same activations, which `source` makes, with weights of the same type and depth.
/// `sum`: the ADD of the one product and something; or null. False if the library declines one;
/// some may be there then.
bool launch_library_products(std::span<const Tensor* const> nodes, const TileSource& source,
                             const Tensor* sum, const Launch& launch);

}  // namespace heddle::cuda
