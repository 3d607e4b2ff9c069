#pragma once

#include "backends/cuda/kernels/products/gemm_mma.cuh"

namespace heddle::cuda {

/// How many tiles of columns there are at most.
struct ColumnTiles {
    std::int64_t large, small;
};

template <class F, class Tile>
void launch_tile(const GemmArguments& a, std::int64_t column_tiles, const Launch& launch) {
    using L = GemmLayout<F, Tile>;
    const auto kernel = gemm_mma<F, Tile>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::kShared);
    const std::int64_t rows = (a.weights.rows + Tile::kRows - 1) / Tile::kRows;
    const std::int64_t y = column_tiles < 65535 ? column_tiles : 65535;
    const std::int64_t z = (column_tiles + y - 1) / y;
    kernel<<<dim3(static_cast<unsigned>(rows), static_cast<unsigned>(y), static_cast<unsigned>(z)),
             L::kThreads, L::kShared, launch.stream>>>(a);
}

/// Large tiles where they keep the device busy and its multiprocessors have the memory.
template <class F>
void launch_format(const GemmArguments& a, const ColumnTiles& tiles, bool has_few_columns,
                   const Launch& launch) {
    const std::int64_t rows = (a.weights.rows + LargeTile::kRows - 1) / LargeTile::kRows;
    constexpr std::size_t kReserved = 2048 + 1024;  // columns of the tile, and the driver's
    const bool fits =
        GemmLayout<F, LargeTile>::kShared + kReserved <= launch.device.shared_per_block;
    if (has_few_columns || !fits || rows * tiles.large * 2 < launch.device.multiprocessors)
        launch_tile<F, SmallTile>(a, tiles.small, launch);
    else
        launch_tile<F, LargeTile>(a, tiles.large, launch);
}

/// Formats are shared out over several files, which compile at the same time.
bool launch_mma_simple(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                       bool has_few_columns, const Launch& launch);
bool launch_mma_k(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                  bool has_few_columns, const Launch& launch);
bool launch_mma_grid(ggml_type type, const GemmArguments& a, const ColumnTiles& tiles,
                     bool has_few_columns, const Launch& launch);

}  // namespace heddle::cuda
