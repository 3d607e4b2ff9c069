#pragma once

#include "backends/cuda/kernels/products/products.hpp"
#include "backends/cuda/kernels/products/weight_order.hpp"

/// Activations as 16-bit floats in the order in which `gemm_wgmma` reads them.
///
/// Steps of 64 elements follow each other; a step has the 128 bytes of every column, whose groups
/// of 16 bytes are swapped as wgmma wants it (`swizzled`), so that any run of columns of a step is
/// one copy to shared memory. Elements are in the order of the weights' format. What is missing to
/// whole tiles is zeros. An f16 column whose largest element is near the end of the range is scaled
/// down by a power of two, which the product undoes: `factors` has a number for each column.
namespace heddle::cuda {

struct TiledActivations {
    static constexpr std::int64_t kChunk = 256;  ///< the depth is padded to a multiple

    std::int64_t columns, depth;  ///< both padded
    bool is_dense = false;        ///< columns one after the other, as libraries read them

    /// `columns` are padded to a multiple of `tile`.
    TiledActivations(std::int64_t columns_, std::int64_t depth_, int tile)
        : columns((columns_ + tile - 1) / tile * tile),
          depth((depth_ + kChunk - 1) / kChunk * kChunk) {}

    /// Columns one after the other.
    static TiledActivations dense(std::int64_t columns, std::int64_t depth) {
        TiledActivations layout(columns, depth, 1);
        layout.depth = (depth + 63) / 64 * 64;  // as in half_activations.hpp
        layout.is_dense = true;
        return layout;
    }

    std::size_t factors_at() const {
        return (static_cast<std::size_t>(columns * depth) * 2 + 255) / 256 * 256;
    }
    std::size_t bytes() const {
        return factors_at() + (static_cast<std::size_t>(columns) * 4 + 255) / 256 * 256;
    }
};

/// Which rows of the activations the columns of a MUL_MAT_ID are, see expert_tiles.hpp.
struct ColumnSources {
    const std::int32_t* pairs = nullptr;  ///< null: columns are rows in order
    std::int64_t slots = 1;               ///< of a token
};

/// What becomes activations, and how: as they are; an RMS_NORM times weights; or a gated unit.
struct TileSource {
    const Tensor* rows;                    ///< what the norm is of, or the gate of the unit
    const Tensor* norm = nullptr;          ///< RMS_NORM
    const Tensor* norm_weights = nullptr;  ///< one number for each element of a row
    const Tensor* glu = nullptr;
    const Tensor* linear = nullptr;  ///< the other part of the unit, shaped like the gate
    ColumnSources columns = {};
    const std::byte* tiles = nullptr;  ///< they are there already
};

/// Rounds then to what products with weights of this type use: see `DotOperand`.
void convert_to_tiles(const TileSource& source, ggml_type weights, WeightOrder order,
                      const TiledActivations& layout, std::byte* to, const Launch& launch);

}  // namespace heddle::cuda
