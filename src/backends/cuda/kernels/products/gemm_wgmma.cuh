#pragma once

#include "backends/cuda/kernels/products/gemm_wgmma_tile.cuh"
#include "backends/cuda/kernels/wgmma.cuh"

/// Products of many columns on Hopper, one kernel for all types of weights.
///
/// One thread copies raw rows of weights and activations (tiled_activations.hpp) to rings in shared
/// memory; warp groups of 64 rows each make operands of weights in registers while tensor cores
/// multiply the step before. Blocks stay and take tile after tile.
namespace heddle::cuda {

/// The thread that copies.
template <class T>
class WgmmaProducer {
public:
    __device__ WgmmaProducer(const WgmmaArguments& a, std::uint8_t* shared,
                             typename T::Barriers& barriers)
        : a_(a), shared_(shared), barriers_(barriers) {}

    __device__ __forceinline__ void run() {
        // No kernel before this one writes weights: the first come while activations are made.
        int early = 0;
        if (a_.expert_tiles == nullptr) {
            const WgmmaPlace place = place_of(blockIdx.x);
            const int begin = place.first_chunk * 4, units = place.chunks * 4 / T::kSteps;
            for (; early < min(T::kRawStages, units); ++early)
                copy_weights(place, begin + early * T::kSteps);
        }
        chain_wait();
        const int tiles = a_.tiles();
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const WgmmaPlace place = place_of(number);
            const int begin = place.first_chunk * 4, end = begin + place.chunks * 4;
            for (int step = begin; step < end; ++step) {
                if (step % T::kSteps == 0 && --early < 0) copy_weights(place, step);
                copy_activations(step * a_.padded_columns + place.column);
            }
        }
    }

private:
    __device__ WgmmaPlace place_of(int number) const {
        return {a_, number, T::kResultRows, T::kColumns};
    }

    /// Of a step and those that share its stage.
    __device__ __forceinline__ void copy_weights(const WgmmaPlace& place, int step) {
        std::uint64_t* const full = barriers_.raw.fill(raw_, T::kRawBytes);
        std::uint8_t* const to = shared_ + T::kRawAt + raw_.stage * T::kRawBytes;
        const int unit = (step / T::kSteps * T::kChunkBytes & ~15) / 2;
        tensor_copy(to, &a_.products[place.product].weights, {unit, place.row, place.matrix}, full);
        if constexpr (T::kIsGated)
            tensor_copy(to + T::kRawBytes / 2, &a_.products[1].weights,
                        {unit, place.row, place.matrix}, full);
        raw_.advance();
    }

    /// From a row of 64 elements on.
    __device__ __forceinline__ void copy_activations(std::int64_t row) {
        std::uint64_t* const full = barriers_.acts.fill(acts_, T::kActBytes);
        std::uint8_t* const to = shared_ + T::kActsAt + acts_.stage * T::kActBytes;
        bulk_copy(to, a_.acts + row * T::kStep, T::kActBytes, full);
        acts_.advance();
    }

    const WgmmaArguments& a_;
    std::uint8_t* shared_;
    typename T::Barriers& barriers_;
    RingPlace<T::kRawStages> raw_;
    RingPlace<T::kActStages> acts_;
};

/// A warp group's part of the tiles: 64 rows, all columns.
template <class T>
class WgmmaGroup {
public:
    __device__ WgmmaGroup(const WgmmaArguments& a, std::uint8_t* shared,
                          typename T::Barriers& barriers)
        : a_(a), shared_(shared), barriers_(barriers) {}

    __device__ __forceinline__ void run() {
        chain_wait();
        const int tiles = a_.tiles();
        for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
            const WgmmaPlace place(a_, number, T::kResultRows, T::kColumns);
#pragma unroll
            for (float& sum : sums_) sum = 0;
            multiply(place.first_chunk, place.first_chunk + place.chunks);
            if constexpr (T::kIsGated) {
                store_gated(place);
            } else {
                finish_sums(place);
                store(place);
            }
        }
        bulk_stores_wait();
    }

private:
    using Product = Wgmma<T::kColumns>;

    __device__ static int lane() { return threadIdx.x % 32; }
    /// Of the tile, the first of the two that a lane has.
    __device__ static int lane_row() {
        return (static_cast<int>(threadIdx.x) / 32 - 4) * (T::kIsGated ? 8 : 16) + lane() / 4;
    }

    /// Both rows of a lane, four k = 16.
    __device__ __forceinline__ void unpack(const std::uint8_t* row, int step,
                                           std::uint32_t (&operand)[4][4]) const {
        using Fragments = WeightFragments<typename T::Source>;
        std::uint32_t upper[4][2], lower[4][2];
        Fragments::unpack(row, step, lane() % 4, upper);
        Fragments::unpack(row + T::kLowerRow * T::kPitch, step, lane() % 4, lower);
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

    /// Fragments of weights that are operands as they are, in rows of 128 bytes.
    __device__ __forceinline__ void load_operands(std::uint32_t (&operand)[4][4]) const {
        const int matrix = lane() / 8, row = lane_row() - lane() / 4 + lane() % 8;
        const std::uint8_t* const from = shared_ + T::kRawAt + raw_.stage * T::kRawBytes +
                                         (row + matrix % 2 * T::kLowerRow) * T::kPitch;
#pragma unroll
        for (int k = 0; k < 4; ++k)
            load_matrices(operand[k], from + 16 * swizzled(row, 2 * k + matrix / 2));
    }

    __device__ __forceinline__ void release_raw() {
        __syncwarp();
        barriers_.raw.release(raw_.stage);
        raw_.advance();
    }

    /// The operands of a step; its weights are read then.
    __device__ __forceinline__ void make_operands(int chunk, int step,
                                                  std::uint32_t (&operand)[4][4]) {
        if (T::kSteps == 1 || step == 0) barriers_.raw.wait(raw_);
        if constexpr (T::kIsOperand)
            load_operands(operand);
        else
            unpack(raw_row(chunk), step, operand);
        if (T::kSteps == 1 || step == 3) release_raw();
    }

    __device__ __forceinline__ void multiply_step(const std::uint32_t (&operand)[4][4]) {
        barriers_.acts.wait(acts_);
        const std::uint64_t b = swizzled_operand(shared_ + T::kActsAt + acts_.stage * T::kActBytes);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if constexpr (T::kIsBf16)
                Product::template multiply_bf16<true>(sums_, operand[k], b + 2 * k);
            else
                Product::template multiply<true>(sums_, operand[k], b + 2 * k);
        }
        wgmma_commit();
    }

    /// The operands of a step are made while the one before is multiplied.
    __device__ __forceinline__ void multiply(int first, int end) {
        std::uint32_t operand[2][4][4];
        for (int chunk = first; chunk < end; ++chunk) {
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                make_operands(chunk, step, operand[step % 2]);
                multiply_step(operand[step % 2]);
                finish_previous(chunk == first && step == 0);
            }
        }
        finish_all();
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

    /// The units of both rows of a lane; their columns go through shared memory, too.
    __device__ __forceinline__ void store_gated(const WgmmaPlace& place) const {
        float* const units =
            reinterpret_cast<float*>(shared_ + T::kResultAt) + group_number() * T::kResultFloats;
        const int row = lane_row() % kUnitRows;
#pragma unroll
        for (int first = 0; first < T::kColumns; first += T::kResultColumns) {
            sync_group();  // what was there before has been read
#pragma unroll
            for (int i = 0; i < T::kResultColumns / 4; ++i) {
                const int at = i / 2 * 8 + lane() % 4 * 2 + i % 2,
                          column = place.column + first + at;
                const float factor = column < place.end ? a_.factors[column] : 0.0f;
                const int sum = first / 2 + i / 2 * 4 + i % 2;
                units[at * kUnitPitch + row] =
                    quick_glu_of(a_.gated.params, sums_[sum] * factor, sums_[sum + 2] * factor);
            }
            sync_group();
            const int thread = static_cast<int>(threadIdx.x) % 128;
            store_units<T::kResultColumns>(a_.gated, place.row + group_number() * kUnitRows,
                                           place.column + first, thread, units);
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
        if (threadIdx.x == 0) WgmmaProducer<T>(a, shared, barriers).run();
        __syncwarp();
    } else {
        if constexpr (T::kGroups > 1) take_registers<T::kRegisters>();
        WgmmaGroup<T>(a, shared, barriers).run();
    }
#endif
}

}  // namespace heddle::cuda
