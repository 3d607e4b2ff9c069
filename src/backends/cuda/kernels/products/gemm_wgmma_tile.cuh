#pragma once

#include <type_traits>

#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/products/expert_tiles.hpp"
#include "backends/cuda/kernels/products/gated_result.cuh"
#include "backends/cuda/kernels/products/weight_fragments.cuh"
#include "backends/cuda/kernels/ring.cuh"
#include "backends/cuda/kernels/tensor_map.hpp"

/// What `gemm_wgmma` is given, and how a block's work is laid out.
namespace heddle::cuda {

/// Weights of one product, and where its result goes.
struct WgmmaProduct {
    CUtensorMap weights;
    float* y;
    const float* addend;  ///< is added to the result, which it is shaped like; null: nothing
    std::int64_t rows;
    int first_tile;  ///< of its rows, among those of all products
};

/// Products of the same activations.
struct WgmmaArguments {
    static constexpr int kMost = 3;

    WgmmaProduct products[kMost];
    int count;
    const std::uint16_t* acts;
    const float* factors;         ///< of each column
    std::int64_t padded_columns;  ///< of the activations
    int columns, chunks;          ///< chunks: of 256 elements of depth
    int row_tiles, column_tiles;

    // Where there are few tiles, blocks share the depth of one; results of the parts lie
    // `part_stride` numbers after each other.
    int parts, part_chunks;
    std::int64_t part_stride;

    // Columns grouped by expert, see expert_tiles.cuh; null: there is one matrix of weights.
    const ExpertTile* expert_tiles;
    const std::int32_t* tile_count;  ///< of columns
    const std::int32_t* sources;

    GatedResult gated;  ///< of the gate and the linear part, instead of their results

    __device__ int tiles() const {
        return expert_tiles == nullptr ? row_tiles * column_tiles * parts : row_tiles * *tile_count;
    }
};

/// Blocks of tiles of so many columns that share a multiprocessor.
constexpr int wgmma_blocks(int columns) { return columns <= 32 ? 2 : 1; }

/// How a block's warp groups share its tile, and the depth of its rings.
template <class F, int kColumns_, int kGroups_, int kRawStages_, int kActStages_,
          int kResultColumns_ = kColumns_, bool kIsGated_ = false>
struct WgmmaTile {
    using Source = F;
    static constexpr bool kIsBf16 = std::is_same_v<F, Format<GGML_TYPE_BF16>>;
    static constexpr bool kIsOperand = F::block_elements == 1;  ///< 16-bit floats
    static constexpr int kColumns = kColumns_, kGroups = kGroups_, kRows = 64 * kGroups_;
    static constexpr int kThreads = 128 * (kGroups + 1);
    /// Half of the rows are the gate's, half the linear part's: a thread has the same row of both.
    static constexpr bool kIsGated = kIsGated_;
    static constexpr int kResultRows = kIsGated ? kRows / 2 : kRows;
    static constexpr int kLowerRow = kIsGated ? kRows / 2 : 8;  ///< from a lane's upper row on
    static constexpr int kRawStages = kRawStages_, kActStages = kActStages_;
    static constexpr int kStep = 64;                   ///< elements of depth
    static constexpr int kSteps = kIsOperand ? 1 : 4;  ///< of a chunk of raw weights
    static constexpr int kChunkBytes = WeightFragments<F>::kBytes / (kIsOperand ? 4 : 1);
    /// Copies begin at multiples of 16 bytes.
    static constexpr int kMostPhase = kChunkBytes % 16 == 0 ? 0 : 14;
    /// Bytes of a row in shared memory; an odd number of 16: no two rows of eight share banks.
    static constexpr int kPitch =
        kIsOperand ? 128 : ((kChunkBytes + kMostPhase + 15) / 16 | 1) * 16;
    static constexpr int kRawBytes = kRows * kPitch, kActBytes = kColumns * 128;
    /// On a multiprocessor. Few columns are little work for tensor cores: what takes time is
    /// unpacking weights, which one block's warps do not fill the multiprocessor with.
    static constexpr int kBlocks = wgmma_blocks(kColumns);
    static constexpr int kRegisters = kBlocks == 2 ? 96 : kGroups == 3 ? 160 : 232;
    static constexpr int kProducerRegisters = kGroups == 3 ? 32 : 40;

    struct Barriers {
        RingBarriers<kRawStages> raw;
        RingBarriers<kActStages> acts;
    };
    /// Where wgmma reads, tiles begin at multiples of 1024.
    static constexpr int kActsAt = 0, kRawAt = kActStages * kActBytes;
    static constexpr int kResultAt = kRawAt + kRawStages * kRawBytes;
    /// Of a warp group's result; columns begin where a warp's lanes use all banks.
    static constexpr int kResultColumns = kResultColumns_, kResultPitch = 64 + 4;
    static constexpr int kResultFloats = kResultColumns * kResultPitch;
    static constexpr int kBarriersAt = kResultAt + kGroups * kResultFloats * 4;
    static constexpr int kShared = kBarriersAt + static_cast<int>(sizeof(Barriers)) + 1024;
    static_assert(kActBytes % 1024 == 0 && kRawBytes % 128 == 0);
};

/// A tile of one product. Tiles of the same rows follow each other, so that their weights come from
/// memory once.
struct WgmmaPlace {
    int product = 0, matrix = 0, row, column, end;  ///< columns
    int part = 0, first_chunk = 0, chunks;

    __device__ WgmmaPlace(const WgmmaArguments& a, int number, int rows, int columns)
        : chunks(a.chunks) {
        if (a.expert_tiles != nullptr) {
            const ExpertTile tile = a.expert_tiles[number / a.row_tiles];
            matrix = tile.expert;
            row = number % a.row_tiles * rows;
            column = tile.column;
            end = tile.end;
            return;
        }
        part = number % a.parts;
        number /= a.parts;
        first_chunk = part * a.part_chunks;
        chunks = min(a.part_chunks, a.chunks - first_chunk);
        const int row_tile = number / a.column_tiles;
        while (product + 1 < a.count && row_tile >= a.products[product + 1].first_tile) ++product;
        row = (row_tile - a.products[product].first_tile) * rows;
        column = number % a.column_tiles * columns;
        end = a.columns;
    }
};

}  // namespace heddle::cuda
