#pragma once

#include "backends/cuda/kernels/products/products.hpp"

/// Activations as 16-bit floats for tensor cores.
///
/// Columns lie one after the other, padded with zeros to a multiple of 64 elements. An f16 column
/// whose largest element is near the end of the range is scaled down by a power of two, which the
/// product undoes: `factors` has one number per column.
namespace heddle::cuda {

inline std::int64_t padded_depth(std::int64_t depth) { return (depth + 63) / 64 * 64; }

/// Where the parts lie in scratch memory.
struct HalfActivations {
    std::int64_t columns, depth;  ///< depth is padded

    explicit HalfActivations(const Tensor& b)
        : columns(b.ne[1] * b.ne[2] * b.ne[3]), depth(padded_depth(b.ne[0])) {}

    std::size_t factors_at() const {
        return (static_cast<std::size_t>(columns * depth) * 2 + 255) / 256 * 256;
    }
    std::size_t bytes() const {
        return factors_at() + (static_cast<std::size_t>(columns) * 4 + 255) / 256 * 256;
    }
};

/// Rounds first to what products with weights of this type use: see `DotOperand`.
void convert_activations(const Tensor& b, ggml_type weights, std::byte* to, const Launch& launch);

/// Results of products of the same activations.
struct ScaledResults {
    struct One {
        float* y;
        std::int64_t rows;
        const float* addend = nullptr;  ///< is added, and all of it goes to `sum`
        float* sum = nullptr;
    };
    One of[3];
    int count;
};

/// Multiplies the columns that were scaled down, and adds.
void finish_results(const HalfActivations& layout, const std::byte* converted,
                    const ScaledResults& results, const Launch& launch);

}  // namespace heddle::cuda
