#pragma once

#include "backends/cuda/kernels/products/gemm_wgmma.cuh"
#include "backends/cuda/kernels/products/gemm_wgmma.hpp"

namespace heddle::cuda {

/// As many stages as fit beside each other, few columns with more of them.
template <class F, int kColumns, bool kIsGated = false>
struct WgmmaStages {
    static constexpr int kGroups = 2, kActs = kColumns >= 96 ? 5 : 6;
    static constexpr int kResult = kColumns == 128 ? 64 : kColumns == 96 ? 48 : kColumns;
    using Probe = WgmmaTile<F, kColumns, kGroups, 1, kActs, kResult>;
    static constexpr int kShared = (228 / Probe::kBlocks - 1) * 1024;  ///< the driver takes 1 KiB
    static constexpr int kRoom =
        (kShared - (Probe::kShared - Probe::kRawBytes) - 256) / Probe::kRawBytes;
    static constexpr int kMostRaw = Probe::kIsOperand ? kActs : 4;
    static constexpr int kRaw = kRoom < kMostRaw ? kRoom : kMostRaw;
    using Tile = WgmmaTile<F, kColumns, kGroups, kRaw, kActs, kResult, kIsGated>;
    static_assert(kRaw >= 2 && Tile::kShared <= kShared);
};

/// Raw rows for the copy engine.
inline TensorShape raw_rows(const Tensor& w, unsigned box_units, unsigned box_rows) {
    const auto stride = [&](int d) { return static_cast<std::int64_t>(w.nb[d]); };
    return {.data = w.data,
            .units = static_cast<std::int64_t>(row_size(w.type, w.ne[0])) / 2,
            .rows = w.ne[1],
            .matrices = w.ne[2],
            .row_stride = stride(1),
            .matrix_stride = stride(2),
            .sequence_stride = stride(3),
            .box_units = box_units,
            .box_rows = box_rows};
}

template <class T>
bool describe_weights(const Tensor& w, CUtensorMap& map) {
    TensorShape shape = raw_rows(w, T::kPitch / 2, T::kResultRows);
    shape.is_swizzled = T::kIsOperand;
    return make_tensor_map(shape, map);
}

template <class T>
void start_wgmma(const WgmmaArguments& a, const Launch& launch) {
    cudaFuncSetAttribute(gemm_wgmma<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kShared);
    const std::int64_t tiles = std::int64_t{a.row_tiles} * a.column_tiles * a.parts;
    const std::int64_t most = std::int64_t{T::kBlocks} * launch.device.multiprocessors;
    const bool is_grouped = a.expert_tiles != nullptr;  // how many tiles, the device knows
    const auto blocks = static_cast<unsigned>(is_grouped || tiles > most ? most : tiles);
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(T::kThreads);
    config.dynamicSmemBytes = T::kShared;
    config.stream = launch.stream;
    config.attrs = &overlap;
    config.numAttrs = launch.is_chained ? 1 : 0;
    cudaLaunchKernelEx(&config, gemm_wgmma<T>, a);
}

/// Products whose `y` is null go to their node's memory. `launch` is chained if the kernel before
/// makes the activations and nothing else: weights are read at once.
template <class T>
bool launch_wgmma_tile(WgmmaArguments& a, std::span<const Tensor* const> nodes,
                       const Launch& launch) {
    a.count = 0;
    a.row_tiles = 0;
    for (const Tensor* node : nodes) {
        WgmmaProduct& product = a.products[a.count++];
        if (product.y == nullptr) product.y = static_cast<float*>(node->data);
        product.rows = node->src[0]->ne[1];
        product.first_tile = a.row_tiles;
        if (!T::kIsGated || a.row_tiles == 0)
            a.row_tiles += static_cast<int>((product.rows + T::kResultRows - 1) / T::kResultRows);
        if (!describe_weights<T>(*node->src[0], product.weights)) return false;
    }
    if (T::kIsGated) a.row_tiles = (a.row_tiles + 3) / 4 * 4;  // units are zeros to whole chunks
    a.column_tiles = (a.columns + T::kColumns - 1) / T::kColumns;
    start_wgmma<T>(a, launch);
    return true;
}

/// Gated units are for many columns alone: their tiles have so many.
constexpr int kGatedTile = 128;

/// `tile`: columns.
template <class F>
bool launch_wgmma_format(WgmmaArguments& a, std::span<const Tensor* const> nodes, int tile,
                         const Launch& launch) {
    if constexpr (F::block_elements > 1) {  // the library has products of floats
        if (a.gated.halves != nullptr)
            return launch_wgmma_tile<typename WgmmaStages<F, kGatedTile, true>::Tile>(a, nodes,
                                                                                      launch);
    }
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
LaunchWgmma find_wgmma_float(ggml_type type);

}  // namespace heddle::cuda
