#pragma once

#include <type_traits>

#include "backends/cuda/kernels/products/expert_tiles.hpp"
#include "backends/cuda/kernels/products/weight_fragments.cuh"
#include "backends/cuda/kernels/ring.cuh"
#include "backends/cuda/kernels/tensor_map.hpp"
#include "backends/cuda/kernels/wgmma.cuh"

/// Products of many columns on Hopper, one kernel for all types of weights.
///
/// One thread copies raw rows of weights and activations (tiled_activations.hpp) to rings in shared
/// memory; warp groups of 64 rows each unpack weights to registers while tensor cores multiply the
/// step before. 16-bit weights are multiplied where they lie. Blocks stay and take tile after tile.
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

    __device__ int tiles() const {
        return expert_tiles == nullptr ? row_tiles * column_tiles * parts : row_tiles * *tile_count;
    }
};

/// Blocks of tiles of so many columns that share a multiprocessor.
constexpr int wgmma_blocks(int columns) { return columns <= 32 ? 2 : 1; }

/// How a block's warp groups share its tile, and the depth of its rings.
template <class F, int kColumns_, int kGroups_, int kRawStages_, int kActStages_,
          int kResultColumns_ = kColumns_>
struct WgmmaTile {
    using Source = F;
    static constexpr bool kIsBf16 = std::is_same_v<F, Format<GGML_TYPE_BF16>>;
    static constexpr bool kIsOperand = F::block_elements == 1;  ///< 16-bit floats
    static constexpr int kColumns = kColumns_, kGroups = kGroups_, kRows = 64 * kGroups_;
    static constexpr int kThreads = 128 * (kGroups + 1);
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

/// The thread that copies.
template <class T>
__device__ void produce(const WgmmaArguments& a, std::uint8_t* shared,
                        typename T::Barriers& barriers) {
    RingPlace<T::kRawStages> raw;
    RingPlace<T::kActStages> acts;
    const int tiles = a.tiles();
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const WgmmaPlace place(a, number, T::kRows, T::kColumns);
        const void* const map = &a.products[place.product].weights;
        const int first = place.first_chunk * 4, end = first + place.chunks * 4;
        const std::uint16_t* from = a.acts + (first * a.padded_columns + place.column) * T::kStep;
        for (int step = first; step < end; ++step) {
            if (step % T::kSteps == 0) {
                std::uint64_t* const full = barriers.raw.fill(raw, T::kRawBytes);
                tensor_copy(
                    shared + T::kRawAt + raw.stage * T::kRawBytes, map,
                    {(step / T::kSteps * T::kChunkBytes & ~15) / 2, place.row, place.matrix}, full);
                raw.advance();
            }
            std::uint64_t* const full = barriers.acts.fill(acts, T::kActBytes);
            bulk_copy(shared + T::kActsAt + acts.stage * T::kActBytes, from, T::kActBytes, full);
            from += a.padded_columns * T::kStep;
            acts.advance();
        }
    }
}

/// A warp group's part of the tiles: 64 rows, all columns.
template <class T>
class WgmmaGroup {
public:
    __device__ WgmmaGroup(const WgmmaArguments& a, std::uint8_t* shared,
                          typename T::Barriers& barriers)
        : a_(a), shared_(shared), barriers_(barriers) {}

    __device__ __forceinline__ void run() {
        const int tiles = a_.tiles();
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const WgmmaPlace place(a_, number, T::kRows, T::kColumns);
#pragma unroll
            for (float& sum : sums_) sum = 0;
            if constexpr (T::kIsOperand)
                multiply_shared(place.chunks * 4);
            else
                multiply_unpacked(place.first_chunk, place.first_chunk + place.chunks);
            finish_sums(place);
            store(place);
        }
        bulk_stores_wait();
    }

private:
    using Product = Wgmma<T::kColumns>;

    __device__ static int lane() { return threadIdx.x % 32; }
    /// Of the tile, the first of the two that a lane has.
    __device__ static int lane_row() {
        return (static_cast<int>(threadIdx.x) / 32 - 4) * 16 + lane() / 4;
    }

    /// Both rows of a lane, four k = 16.
    __device__ __forceinline__ void unpack(const std::uint8_t* row, int step,
                                           std::uint32_t (&operand)[4][4]) const {
        using Fragments = WeightFragments<typename T::Source>;
        std::uint32_t upper[4][2], lower[4][2];
        Fragments::unpack(row, step, lane() % 4, upper);
        Fragments::unpack(row + 8 * T::kPitch, step, lane() % 4, lower);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            operand[k][0] = upper[k][0], operand[k][1] = lower[k][0];
            operand[k][2] = upper[k][1], operand[k][3] = lower[k][1];
        }
    }

    /// This lane's upper row of a chunk of raw weights.
    __device__ __forceinline__ const std::uint8_t* raw_row(int chunk) const {
        const int phase = T::kMostPhase == 0 ? 0 : chunk * T::kChunkBytes & 15;
        return shared_ + T::kRawAt + raw_.stage * T::kRawBytes + lane_row() * T::kPitch + phase;
    }

    /// Waits for the products before those that were committed last; their activations are free.
    __device__ __forceinline__ void finish_previous(bool is_first) {
        wgmma_wait<1>();
        if (!is_first) barriers_.acts.release(previous_);
        previous_ = acts_.stage;
        acts_.advance();
    }

    __device__ __forceinline__ void finish_all() {
        wgmma_wait<0>();
        wgmma_settle(sums_);
        barriers_.acts.release(previous_);
    }

    /// A step is unpacked while the one before is multiplied.
    __device__ __forceinline__ void multiply_unpacked(int first, int end) {
        std::uint32_t operand[2][4][4];
        for (int chunk = first; chunk < end; ++chunk) {
            const std::uint8_t* row = raw_row(chunk);
            barriers_.raw.wait(raw_);
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                unpack(row, step, operand[step % 2]);
                if (step == 3) {
                    __syncwarp();
                    barriers_.raw.release(raw_.stage);
                }
                barriers_.acts.wait(acts_);
                const std::uint64_t b =
                    swizzled_operand(shared_ + T::kActsAt + acts_.stage * T::kActBytes);
                wgmma_fence();
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    Product::template multiply<true>(sums_, operand[step % 2][k], b + 2 * k);
                wgmma_commit();
                finish_previous(chunk == first && step == 0);
            }
            raw_.advance();
        }
        finish_all();
    }

    /// Weights are operands as they are; their stages become free with those of the activations.
    __device__ __forceinline__ void multiply_shared(int steps) {
        const int group_at = (static_cast<int>(threadIdx.x) / 128 - 1) * 64 * T::kPitch;
        int raw_before = 0;
        for (int step = 0; step < steps; ++step) {
            barriers_.raw.wait(raw_);
            barriers_.acts.wait(acts_);
            const std::uint64_t a =
                swizzled_operand(shared_ + T::kRawAt + raw_.stage * T::kRawBytes + group_at);
            const std::uint64_t b =
                swizzled_operand(shared_ + T::kActsAt + acts_.stage * T::kActBytes);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if constexpr (T::kIsBf16)
                    Product::template multiply_bf16<true>(sums_, a + 2 * k, b + 2 * k);
                else
                    Product::template multiply<true>(sums_, a + 2 * k, b + 2 * k);
            }
            wgmma_commit();
            finish_previous(step == 0);
            if (step > 0) barriers_.raw.release(raw_before);
            raw_before = raw_.stage;
            raw_.advance();
        }
        finish_all();
        barriers_.raw.release(raw_before);
    }

    /// Undoes the scale of the activations, and adds.
    __device__ __forceinline__ void finish_sums(const WgmmaPlace& place) {
        const WgmmaProduct& product = a_.products[place.product];
        const std::int64_t row = place.row + lane_row();
#pragma unroll
        for (int i = 0; i < Product::kSums; ++i) {
            const int column = place.column + i / 4 * 8 + lane() % 4 * 2 + i % 2;
            const std::int64_t at = row + i / 2 % 2 * 8;
            float added = 0;
            if (product.addend != nullptr && place.part == 0 && column < place.end &&
                at < product.rows)
                added = product.addend[column * product.rows + at];
            sums_[i] = sums_[i] * (column < place.end ? a_.factors[column] : 0.0f) + added;
        }
    }

    /// Columns of the result go through shared memory: each is one copy, which runs while the next
    /// tile is multiplied.
    __device__ __forceinline__ void store(const WgmmaPlace& place) const {
        if (a_.products[place.product].rows % 4 != 0) return store_numbers(place);
        float* const tile =
            reinterpret_cast<float*>(shared_ + T::kResultAt) + group_number() * T::kResultFloats;
#pragma unroll
        for (int first = 0; first < T::kColumns; first += T::kResultColumns) {
            bulk_stores_wait();  // of what was there before
            sync_group();
            float* const mine = tile + lane() % 4 * 2 * T::kResultPitch + lane_row() % 64;
            write_columns(first, mine);
            fence_for_async();
            sync_group();
            copy_columns(place, first, tile);
        }
    }

    /// This lane's numbers of columns from `first` on.
    __device__ __forceinline__ void write_columns(int first, float* to) const {
#pragma unroll
        for (int i = 0; i < T::kResultColumns / 2; ++i)
            to[(i / 4 * 8 + i % 2) * T::kResultPitch + i / 2 % 2 * 8] = sums_[first / 2 + i];
    }

    __device__ __forceinline__ void copy_columns(const WgmmaPlace& place, int first,
                                                 const float* from) const {
        const WgmmaProduct& product = a_.products[place.product];
        const std::int64_t row = place.row + lane_row() / 64 * 64, left = product.rows - row;
        const auto bytes = static_cast<unsigned>(left < 64 ? left : 64) * 4;
        for (int i = threadIdx.x % 128; i < T::kResultColumns; i += 128) {
            const int column = place.column + first + i;
            if (column >= place.end || left <= 0) continue;
            bulk_store(product.y + place.part * a_.part_stride +
                           result_column(column) * product.rows + row,
                       from + i * T::kResultPitch, bytes);
        }
        bulk_stores_commit();
    }

    /// Where rows of the result are no multiples of 16 bytes.
    __device__ __forceinline__ void store_numbers(const WgmmaPlace& place) const {
        const WgmmaProduct& product = a_.products[place.product];
        const std::int64_t row = place.row + lane_row();
#pragma unroll
        for (int i = 0; i < Product::kSums; ++i) {
            const int column = place.column + i / 4 * 8 + lane() % 4 * 2 + i % 2;
            const std::int64_t at = row + i / 2 % 2 * 8;
            if (column >= place.end || at >= product.rows) continue;
            product.y[place.part * a_.part_stride + result_column(column) * product.rows + at] =
                sums_[i];
        }
    }

    __device__ __forceinline__ std::int64_t result_column(int column) const {
        return a_.sources == nullptr ? column : result_of(a_.sources[column]);
    }
    __device__ static int group_number() { return static_cast<int>(threadIdx.x) / 128 - 1; }

    /// A barrier of this group's warps. Its number is a constant: the compiler would reserve all
    /// sixteen for one that it does not know.
    __device__ __forceinline__ static void sync_group() {
        static_assert(T::kGroups <= 3);
        if (group_number() == 0)
            named_barrier<1>(128);
        else if (group_number() == 1)
            named_barrier<2>(128);
        else
            named_barrier<3>(128);
    }

    const WgmmaArguments& a_;
    std::uint8_t* shared_;
    typename T::Barriers& barriers_;
    RingPlace<T::kRawStages> raw_;
    RingPlace<T::kActStages> acts_;
    int previous_ = 0;
    float sums_[Product::kSums];
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks)
    gemm_wgmma(const __grid_constant__ WgmmaArguments a) {
#if HEDDLE_HAS_WGMMA
    extern __shared__ std::uint8_t dynamic[];
    std::uint8_t* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    auto& barriers = *reinterpret_cast<typename T::Barriers*>(shared + T::kBarriersAt);
    if (threadIdx.x == 0) {
        barriers.raw.init(4 * T::kGroups);
        barriers.acts.init(4 * T::kGroups);
        barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        if constexpr (T::kGroups > 1) give_registers<T::kProducerRegisters>();
        if (threadIdx.x == 0) produce<T>(a, shared, barriers);
    } else {
        if constexpr (T::kGroups > 1) take_registers<T::kRegisters>();
        WgmmaGroup<T>(a, shared, barriers).run();
    }
#endif
}

}  // namespace heddle::cuda
