#pragma once

#include "backends/cuda/kernels/products/group_by_expert.cuh"

/// Columns of a MUL_MAT_ID in the order in which `gemm_wgmma` reads them: those of one expert
/// together, from a multiple of eight on, in tiles.
namespace heddle::cuda {

struct ExpertTile {
    int expert, column, end;  ///< columns of the tile
};

/// A column comes from a pair of slot and token; or from none, or from one that names no expert,
/// whose result is zeros.
constexpr std::int32_t kNoSource = -1;
__host__ __device__ constexpr std::int32_t source_without_expert(std::int32_t pair) {
    return -2 - pair;
}
/// The pair of a column that has one.
__host__ __device__ constexpr std::int32_t result_of(std::int32_t source) {
    return source >= 0 ? source : -2 - source;
}

/// Where the parts lie in scratch memory.
struct ExpertTiles {
    std::int64_t columns, most_tiles;  ///< columns are padded
    std::int32_t* count;               ///< of tiles
    ExpertTile* tiles;
    std::int32_t* sources;  ///< of each column

    /// Of `tile` columns each. Experts end with seven columns, and a tile, that are not full.
    ExpertTiles(std::byte* at, std::int64_t experts, std::int64_t pairs, int tile)
        : columns((pairs + 8 * (experts + 1) + 2 * tile - 1) / tile * tile),
          most_tiles(pairs / tile + (pairs < experts + 1 ? pairs : experts + 1)),
          count(reinterpret_cast<std::int32_t*>(at)),
          tiles(reinterpret_cast<ExpertTile*>(at + 256)),
          sources(reinterpret_cast<std::int32_t*>(at + 256 + tile_bytes())) {}

    std::size_t tile_bytes() const {
        return (static_cast<std::size_t>(most_tiles) * sizeof(ExpertTile) + 255) / 256 * 256;
    }
    std::size_t bytes() const {
        return 256 + tile_bytes() + (static_cast<std::size_t>(columns) * 4 + 255) / 256 * 256;
    }
};

/// From groups that are there.
void make_expert_tiles(const ExpertGroups& groups, const ExpertTiles& tiles, int tile,
                       const Launch& launch);

}  // namespace heddle::cuda
