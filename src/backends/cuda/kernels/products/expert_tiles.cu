#include "backends/cuda/kernels/operand.cuh"
#include "backends/cuda/kernels/products/expert_tiles.hpp"

namespace heddle::cuda {
namespace {

constexpr int kThreads = 128;

/// One block per group, that of pairs without an expert last.
__global__ void __launch_bounds__(kThreads)
    make_tiles(ExpertGroups groups, ExpertTiles to, int tile) {
    const int group = blockIdx.x, groups_in_all = gridDim.x;
    int columns = 0, tiles = 0;
    for (int g = threadIdx.x; g < group; g += kThreads) {
        columns += (groups.counts[g] + 7) / 8 * 8;
        tiles += (groups.counts[g] + tile - 1) / tile;
    }
    columns = combine_block(columns, Plus{});
    tiles = combine_block(tiles, Plus{});
    const int size = groups.counts[group], own_tiles = (size + tile - 1) / tile;
    const bool is_last = group == groups_in_all - 1;
    const int first_pair = groups.starts[group];
    for (int i = threadIdx.x; i < own_tiles; i += kThreads) {
        const int expert = is_last ? 0 : group, column = columns + i * tile;
        to.tiles[tiles + i] = {expert, column, min(column + tile, columns + size)};
    }
    const int end = is_last ? static_cast<int>(to.columns) - columns : (size + 7) / 8 * 8;
    for (int i = threadIdx.x; i < end; i += kThreads) {
        std::int32_t source = kNoSource;
        if (i < size) {
            const std::int32_t pair = groups.order[first_pair + i];
            source = is_last ? source_without_expert(pair) : pair;
        }
        to.sources[columns + i] = source;
    }
    if (is_last && threadIdx.x == 0) *to.count = tiles + own_tiles;
}

}  // namespace

void make_expert_tiles(const ExpertGroups& groups, const ExpertTiles& tiles, int tile,
                       const Launch& launch) {
    make_tiles<<<static_cast<unsigned>(groups.experts + 1), kThreads, 0, launch.stream>>>(
        groups, tiles, tile);
}

}  // namespace heddle::cuda
