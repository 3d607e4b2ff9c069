#pragma once

#include "backends/cuda/formats/dot_operand.cuh"
#include "backends/cuda/kernels/products/tiled_activations.hpp"
#include "ops/glu.hpp"

/// The gated unit of two products as the activations of the next one, without being a tensor in
/// between.
///
/// Which power of two a column has to be scaled down by is known when all of it is there. Until
/// then every 32 elements have their own, and where they are not the same, a column is gone through
/// again: hardly ever, since f16 holds what units come to.
namespace heddle::cuda {

/// Where the parts lie in the memory of the unit's tensor.
struct GatedActivations {
    TiledActivations tiles;

    std::size_t exponents_at() const { return tiles.bytes(); }
    std::size_t bytes() const {
        return exponents_at() + static_cast<std::size_t>(tiles.columns * tiles.depth / 32);
    }
};

/// What the product's kernel writes.
struct GatedResult {
    ops::Glu::Params params;
    DotOperand operand;
    WeightOrder order;
    std::int64_t columns;  ///< padded
    std::uint16_t* halves;
    std::uint8_t* exponents;  ///< of 32 elements of every column after another
};

/// Gives all elements of a column the same exponent, and writes the factors.
void settle_exponents(const GatedActivations& layout, std::byte* at, const Launch& launch);

}  // namespace heddle::cuda
