#pragma once

#include <type_traits>

#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/products/half_activations.hpp"
#include "backends/cuda/kernels/products/operands.cuh"
#include "backends/cuda/kernels/ptx.cuh"

/// Products on tensor cores, one kernel for all types of weights.
///
/// Raw rows of weights come through a ring in shared memory, 256 elements at a time; each step of
/// 64 is decoded to a tile of 16-bit floats while the step before is multiplied. Activations are
/// 16-bit floats already (half_activations.hpp). Sums are f32.
namespace heddle::cuda {

struct GemmArguments {
    Weights weights;
    const std::uint16_t* acts;  ///< columns of `padded` elements
    const float* factors;       ///< of each column
    std::int64_t padded;
    std::int64_t columns;   ///< of each matrix
    std::int64_t matrices;  ///< of the result
    std::int64_t extent2;   ///< matrices of the result along dimension 2
    float* y;

    // Groups of columns with an expert each; null: matrices follow each other.
    const std::int32_t* starts;
    const std::int32_t* order;
    std::int64_t experts, slots, shared_rows;
};

/// Rows and columns of a block's tile, and how its eight warps share it.
struct LargeTile {
    static constexpr int kRows = 128, kColumns = 128, kWarpsDown = 4;
};
struct SmallTile {
    static constexpr int kRows = 64, kColumns = 32, kWarpsDown = 4;
};

template <class F, class Tile>
struct GemmLayout {
    static constexpr int kThreads = 256, kStep = 64;
    static constexpr int kPitch = kStep + 8;  ///< of a row of halves: 9 times 16 bytes
    static constexpr int kChunk = F::block_elements == 1 ? 64 : 256;  ///< elements of raw weights
    static constexpr int kChunkBytes = kChunk / F::block_elements * F::block_bytes;
    static constexpr int kRawPitch = (kChunkBytes + 15 + 15) / 16 * 16;
    static constexpr int kRawStages = 2, kActStages = 3;
    static constexpr int kRawBytes = Tile::kRows * kRawPitch;
    static constexpr int kWeightBytes = Tile::kRows * kPitch * 2;
    static constexpr int kActBytes = Tile::kColumns * kPitch * 2;
    static constexpr int kShared =
        kRawStages * kRawBytes + 2 * kWeightBytes + kActStages * kActBytes;
    static constexpr int kStepsPerChunk = kChunk / kStep;
    static_assert(kChunk % F::block_elements == 0);
};

/// What a block computes: a tile of rows times a run of columns.
struct GemmTile {
    const std::uint8_t* matrix;  ///< null: zeros
    std::int64_t row;
    std::int64_t first, count;  ///< columns, as the arguments number them

    /// False if there is nothing left for this block.
    template <class Tile>
    __device__ bool find(const GemmArguments& a) {
        row = static_cast<std::int64_t>(blockIdx.x) * Tile::kRows;
        std::int64_t number = blockIdx.y + static_cast<std::int64_t>(gridDim.y) * blockIdx.z;
        if (a.starts == nullptr) {
            const std::int64_t tiles = (a.columns + Tile::kColumns - 1) / Tile::kColumns;
            const std::int64_t plane = number / tiles;
            if (plane >= a.matrices) return false;
            const std::int64_t at = number % tiles * Tile::kColumns;
            matrix = a.weights.matrix(plane % a.extent2, plane / a.extent2);
            first = plane * a.columns + at;
            count = min(a.columns - at, static_cast<std::int64_t>(Tile::kColumns));
            return true;
        }
        for (std::int64_t e = 0; e <= a.experts; ++e) {
            const std::int64_t begin = a.starts[e], size = a.starts[e + 1] - begin;
            const std::int64_t tiles = (size + Tile::kColumns - 1) / Tile::kColumns;
            if (number < tiles) {
                matrix = e < a.experts ? a.weights.data + e * a.weights.stride2 : nullptr;
                first = begin + number * Tile::kColumns;
                count =
                    min(size - number * Tile::kColumns, static_cast<std::int64_t>(Tile::kColumns));
                return true;
            }
            number -= tiles;
        }
        return false;
    }
};

/// The column of the result, and the row of activations, of column `i` of a tile.
struct ColumnPlace {
    std::int64_t result, acts;

    __device__ ColumnPlace(const GemmArguments& a, std::int64_t i) : result(i), acts(i) {
        if (a.starts == nullptr) return;
        result = a.order[i];
        acts = result / a.slots * a.shared_rows + result % a.slots % a.shared_rows;
    }
};

/// The work of one block. Everything is inlined, so that members are registers.
template <class F, class Tile>
class GemmBlock {
public:
    using L = GemmLayout<F, Tile>;

    /// `acts_of`: the row of activations of each column of the tile.
    __device__ GemmBlock(const GemmArguments& a, const GemmTile& tile, std::uint8_t* shared,
                         const std::int64_t* acts_of)
        : a_(a),
          tile_(tile),
          acts_of_(acts_of),
          raw_(shared),
          weights_(reinterpret_cast<std::uint16_t*>(shared + L::kRawStages * L::kRawBytes)),
          acts_(weights_ + L::kWeightBytes) {}  // two tiles of weights, 2 bytes an element

    /// While a step is multiplied, the next one is decoded and the one after it is copied.
    __device__ __forceinline__ void multiply() {
        const int steps = static_cast<int>((a_.weights.depth + L::kStep - 1) / L::kStep);
        copy_raw(0);
        copy_acts(0);
        copies_commit();
        if (L::kStepsPerChunk == 1 && steps > 1) copy_raw(1);
        if (steps > 1) copy_acts(1);
        copies_commit();
        copies_wait<1>();
        __syncthreads();
        decode_step(0);
        for (int step = 0; step < steps; ++step) {
            copies_wait<0>();
            __syncthreads();  // the step's weights are decoded, its activations are here
            const int ahead = step + 2;
            if (ahead < steps) {
                copy_acts(ahead);
                if (ahead % L::kStepsPerChunk == 0) copy_raw(ahead / L::kStepsPerChunk);
            }
            copies_commit();
            if (step + 1 < steps) decode_step(step + 1);
            multiply_step(step);
        }
    }

    /// `result_of`: the column of the result of each column of the tile.
    __device__ __forceinline__ void store(const std::int64_t* result_of) const {
        const int group = lane() / 4, pair = lane() % 4 * 2;
#pragma unroll
        for (int n = 0; n < kN; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const int column = warp_column() + 8 * n + pair + c;
                if (column >= tile_.count) continue;
                const float factor = a_.factors[acts_of_[column]];
                float* y = a_.y + result_of[column] * a_.weights.rows;
#pragma unroll
                for (int m = 0; m < kM; ++m) {
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        const std::int64_t row = tile_.row + warp_row() + 16 * m + group + 8 * h;
                        if (row < a_.weights.rows) y[row] = sums_[m][n][2 * h + c] * factor;
                    }
                }
            }
        }
    }

private:
    static constexpr bool kIsBf16 = std::is_same_v<F, Format<GGML_TYPE_BF16>>;
    static constexpr int kWarpsAcross = 8 / Tile::kWarpsDown;
    static constexpr int kWarpRows = Tile::kRows / Tile::kWarpsDown;
    static constexpr int kWarpColumns = Tile::kColumns / kWarpsAcross;
    static constexpr int kM = kWarpRows / 16, kN = kWarpColumns / 8;

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int warp_row() { return threadIdx.x / 32 % Tile::kWarpsDown * kWarpRows; }
    __device__ static int warp_column() {
        return threadIdx.x / 32 / Tile::kWarpsDown * kWarpColumns;
    }

    /// Rows past the end repeat the last one; they are not stored.
    __device__ const std::uint8_t* row_start(int row) const {
        const std::int64_t last = a_.weights.rows - 1;
        return tile_.matrix + min(tile_.row + row, last) * a_.weights.row_stride;
    }

    /// Whole groups of 16 bytes that hold the chunk, so that a row lies at its phase.
    __device__ __forceinline__ void copy_raw(int chunk) const {
        constexpr int kGroups = L::kRawPitch / 16;
        const std::int64_t row_bytes = a_.weights.depth / F::block_elements * F::block_bytes;
        const std::int64_t begin = static_cast<std::int64_t>(chunk) * L::kChunkBytes;
        const std::int64_t end = min(begin + L::kChunkBytes, row_bytes);
        std::uint8_t* to = raw_ + chunk % L::kRawStages * L::kRawBytes;
        for (int i = threadIdx.x; i < Tile::kRows * kGroups; i += L::kThreads) {
            const int row = i / kGroups, group = i % kGroups;
            const std::uint8_t* start = row_start(row);
            const auto aligned =
                reinterpret_cast<std::uintptr_t>(start + begin) & ~std::uintptr_t{15};
            const auto* from = reinterpret_cast<const std::uint8_t*>(aligned) + 16 * group;
            if (from >= start + end) continue;
            std::uint8_t* at = to + row * L::kRawPitch + 16 * group;
            const std::int64_t left = start + row_bytes - from;
            if (left >= 16)
                copy16(at, from, true);
            else  // what lies behind the row is not read: it may never have been written
                for (int j = 0; j < left; ++j) at[j] = from[j];
        }
    }

    __device__ __forceinline__ void copy_acts(int step) const {
        std::uint16_t* to = acts_ + step % L::kActStages * (L::kActBytes / 2);
#pragma unroll
        for (int i = threadIdx.x; i < Tile::kColumns * 8; i += L::kThreads) {
            const int column = i / 8, group = i % 8;
            copy16(to + column * L::kPitch + 8 * group,
                   a_.acts + acts_of_[column] * a_.padded + step * L::kStep + 8 * group, true);
        }
    }

    /// Eight elements of a row of a step as 16-bit floats; zeros past the end.
    __device__ __forceinline__ uint4 decode8(const std::uint8_t* of_row, int k,
                                             std::int64_t left) const {
        float w[8] = {};
        if (left >= 8) {
            decode8_of_row<F>(of_row, k, w);
        } else if constexpr (F::block_elements == 1) {
            for (int j = 0; j < 8; ++j)
                if (j < left) w[j] = decode<F>(of_row + k * F::block_bytes, j);
        }
        if constexpr (kIsBf16)
            return {pack_bfloats(w[0], w[1]), pack_bfloats(w[2], w[3]), pack_bfloats(w[4], w[5]),
                    pack_bfloats(w[6], w[7])};
        else
            return {pack_halves(w[0], w[1]), pack_halves(w[2], w[3]), pack_halves(w[4], w[5]),
                    pack_halves(w[6], w[7])};
    }

    __device__ __forceinline__ void decode_step(int step) const {
        const int chunk = step / L::kStepsPerChunk, in_chunk = step % L::kStepsPerChunk * L::kStep;
        const std::uint8_t* from = raw_ + chunk % L::kRawStages * L::kRawBytes;
        std::uint16_t* to = weights_ + step % 2 * (L::kWeightBytes / 2);
#pragma unroll
        for (int i = threadIdx.x; i < Tile::kRows * 8; i += L::kThreads) {
            const int row = i / 8, at = i % 8 * 8;
            const auto begin = reinterpret_cast<std::uintptr_t>(row_start(row)) +
                               static_cast<std::int64_t>(chunk) * L::kChunkBytes;
            const std::int64_t left =
                a_.weights.depth - static_cast<std::int64_t>(step) * L::kStep - at;
            *reinterpret_cast<uint4*>(to + row * L::kPitch + at) =
                decode8(from + row * L::kRawPitch + (begin & 15u), in_chunk + at, left);
        }
    }

    __device__ __forceinline__ void multiply_step(int step) {
        const std::uint16_t* wa = weights_ + step % 2 * (L::kWeightBytes / 2) +
                                  (warp_row() + lane() % 16) * L::kPitch + lane() / 16 * 8;
        const std::uint16_t* xb = acts_ + step % L::kActStages * (L::kActBytes / 2) +
                                  (warp_column() + lane() / 16 * 8 + lane() % 8) * L::kPitch +
                                  lane() / 8 % 2 * 8;
#pragma unroll
        for (int k = 0; k < L::kStep; k += 16) {
            std::uint32_t fa[kM][4], fb[kN / 2][4];
#pragma unroll
            for (int m = 0; m < kM; ++m) load_matrices(fa[m], wa + 16 * m * L::kPitch + k);
#pragma unroll
            for (int n = 0; n < kN / 2; ++n) load_matrices(fb[n], xb + 16 * n * L::kPitch + k);
#pragma unroll
            for (int m = 0; m < kM; ++m) {
#pragma unroll
                for (int n = 0; n < kN; ++n) {
                    const std::uint32_t b0 = fb[n / 2][n % 2 * 2], b1 = fb[n / 2][n % 2 * 2 + 1];
                    if constexpr (kIsBf16)
                        multiply_bfloats(sums_[m][n], fa[m], b0, b1);
                    else
                        multiply_halves(sums_[m][n], fa[m], b0, b1);
                }
            }
        }
    }

    const GemmArguments& a_;
    const GemmTile& tile_;
    const std::int64_t* acts_of_;
    std::uint8_t* raw_;
    std::uint16_t *weights_, *acts_;
    float sums_[kM][kN][4] = {};
};

template <class F, class Tile>
__global__ void __launch_bounds__(256, 1) gemm_mma(GemmArguments a) {
    extern __shared__ __align__(128) std::uint8_t shared[];
    __shared__ std::int64_t acts_of[Tile::kColumns], result_of[Tile::kColumns];
    GemmTile tile{};
    if (!tile.find<Tile>(a)) return;
    if (threadIdx.x < Tile::kColumns) {
        // Columns past the end repeat the last one; they are not stored.
        const std::int64_t last = tile.count - 1;
        const ColumnPlace place(a, tile.first + min(static_cast<std::int64_t>(threadIdx.x), last));
        acts_of[threadIdx.x] = place.acts;
        result_of[threadIdx.x] = place.result;
    }
    __syncthreads();
    GemmBlock<F, Tile> block(a, tile, shared, acts_of);
    if (tile.matrix != nullptr) block.multiply();
    block.store(result_of);
}

}  // namespace heddle::cuda
