#pragma once

#include "backends/cuda/kernels/products/gemm_wgmma.cuh"
#include "backends/cuda/kernels/products/gemm_wgmma.hpp"

namespace heddle::cuda {

/// As many stages as fit beside each other, few columns with more of them.
template <class F, int kColumns>
struct WgmmaStages {
    static constexpr int kGroups = 2, kActs = kColumns >= 96 ? 5 : 6;
    static constexpr int kResult = kColumns == 128 ? 64 : kColumns == 96 ? 48 : kColumns;
    using Probe = WgmmaTile<F, kColumns, kGroups, 1, kActs, kResult>;
    static constexpr int kShared = (228 / Probe::kBlocks - 1) * 1024;  ///< the driver takes 1 KiB
    static constexpr int kRoom =
        (kShared - (Probe::kShared - Probe::kRawBytes) - 256) / Probe::kRawBytes;
    static constexpr int kMostRaw = Probe::kIsOperand ? kActs : 4;
    static constexpr int kRaw = kRoom < kMostRaw ? kRoom : kMostRaw;
    using Tile = WgmmaTile<F, kColumns, kGroups, kRaw, kActs, kResult>;
    static_assert(kRaw >= 2 && Tile::kShared <= kShared);
};

/// Products whose `y` is null go to their node's memory.
template <class T>
bool launch_wgmma_tile(WgmmaArguments& a, std::span<const Tensor* const> nodes,
                       const Launch& launch) {
    a.count = 0;
    a.row_tiles = 0;
    for (const Tensor* node : nodes) {
        const Tensor& w = *node->src[0];
        WgmmaProduct& product = a.products[a.count++];
        const auto stride = [&](int d) { return static_cast<std::int64_t>(w.nb[d]); };
        if (product.y == nullptr) product.y = static_cast<float*>(node->data);
        product.rows = w.ne[1];
        product.first_tile = a.row_tiles;
        a.row_tiles += static_cast<int>((w.ne[1] + T::kRows - 1) / T::kRows);
        const bool is_described =
            make_tensor_map({.data = w.data,
                             .units = static_cast<std::int64_t>(row_size(w.type, w.ne[0])) / 2,
                             .rows = w.ne[1],
                             .matrices = w.ne[2],
                             .row_stride = stride(1),
                             .matrix_stride = stride(2),
                             .sequence_stride = stride(3),
                             .box_units = T::kPitch / 2,
                             .box_rows = T::kRows,
                             .is_swizzled = T::kIsOperand},
                            product.weights);
        if (!is_described) return false;
    }
    a.column_tiles = (a.columns + T::kColumns - 1) / T::kColumns;
    cudaFuncSetAttribute(gemm_wgmma<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kShared);
    const std::int64_t tiles = std::int64_t{a.row_tiles} * a.column_tiles * a.parts;
    const std::int64_t most = std::int64_t{T::kBlocks} * launch.device.multiprocessors;
    const bool is_grouped = a.expert_tiles != nullptr;  // how many tiles, the device knows
    const auto blocks = static_cast<unsigned>(is_grouped || tiles > most ? most : tiles);
    gemm_wgmma<T><<<blocks, T::kThreads, T::kShared, launch.stream>>>(a);
    return true;
}

/// `tile`: columns.
template <class F>
bool launch_wgmma_format(WgmmaArguments& a, std::span<const Tensor* const> nodes, int tile,
                         const Launch& launch) {
    switch (tile) {
        case 32:
            return launch_wgmma_tile<typename WgmmaStages<F, 32>::Tile>(a, nodes, launch);
        case 96:
            return launch_wgmma_tile<typename WgmmaStages<F, 96>::Tile>(a, nodes, launch);
        default:
            return launch_wgmma_tile<typename WgmmaStages<F, 128>::Tile>(a, nodes, launch);
    }
}

/// Formats are shared out over several files, which compile at the same time. False: not here.
using LaunchWgmma = bool (*)(WgmmaArguments& a, std::span<const Tensor* const> nodes, int tile,
                             const Launch& launch);
LaunchWgmma find_wgmma_simple(ggml_type type);
LaunchWgmma find_wgmma_k(ggml_type type);
LaunchWgmma find_wgmma_grid(ggml_type type);

}  // namespace heddle::cuda
