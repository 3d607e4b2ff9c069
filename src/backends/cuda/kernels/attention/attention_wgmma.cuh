#pragma once

#include "backends/cuda/kernels/attention/attention_mask.cuh"
#include "backends/cuda/kernels/ring.cuh"
#include "backends/cuda/kernels/tensor_map.hpp"
#include "backends/cuda/kernels/wgmma.cuh"

/// Attention of many rows on Hopper: keys, values, queries and weights as f16, sums in f32.
///
/// One thread copies tiles of keys and values to rings in shared memory; two warp groups have 64
/// rows each. While tensor cores weigh the values of a tile, the logits of the next one become
/// weights. Three warps look ahead at what the mask does: tiles that no row sees are skipped, and
/// only where it is neither 0 nor -inf for a whole tile is it read again.
namespace heddle::cuda {

struct WgmmaAttention {
    AttentionArguments a;
    CUtensorMap keys, values;
    MaskSummaries masks;
};

template <int kSize_>
struct AttentionRings {
    static constexpr int kSize = kSize_, kRows = 128, kKeys = MaskSummary::kKeys;
    static constexpr int kThreads = 384;
    static constexpr int kHalves = kSize / 64;  ///< columns of 128 bytes
    static constexpr int kStages = kSize == 64 ? 4 : 2;
    static constexpr int kColumnBytes = kKeys * 128, kTileBytes = kHalves * kColumnBytes;
    static constexpr int kMostTiles = 1024;  ///< of keys

    static constexpr int kKeysAt = kTileBytes, kValuesAt = kKeysAt + kStages * kTileBytes;
    static constexpr int kControlAt = kValuesAt + kStages * kTileBytes;  ///< a multiple of 16

    struct Control {
        RingBarriers<kStages> keys, values;
        int tile[kStages];  ///< of the keys in a stage; -1: there are no more
        bool is_mixed[kStages];
        volatile int masks[kMostTiles];                    ///< TileMask
        alignas(16) std::uint32_t visible[kMostTiles][4];  ///< keys that some row sees, a bit each
    };
    static constexpr int kShared = kControlAt + static_cast<int>(sizeof(Control)) + 1024;
};

// ---- copies ------------------------------------------------------------------------------------

/// The thread that copies what some row sees.
template <class R>
__device__ void copy_tiles(const WgmmaAttention& w, const AttentionTile& place, int tiles,
                           std::uint8_t* shared, typename R::Control& control) {
    const AttentionArguments& a = w.a;
    const int first_head = static_cast<int>(place.group * a.group_heads);
    const int key_head = first_head / static_cast<int>(a.heads_per_key);
    const int value_head = first_head / static_cast<int>(a.heads_per_value);
    const int sequence = static_cast<int>(place.sequence);
    RingPlace<R::kStages> at;
    const auto copy = [&](const CUtensorMap& map, std::uint8_t* to, int key, int head,
                          std::uint64_t* full) {
        for (int column = 0; column < R::kHalves; ++column)
            tensor_copy(to + column * R::kColumnBytes, &map, {64 * column, key, head, sequence},
                        full);
    };
    for (int tile = 0; tile < tiles; ++tile) {
        TileMask mask = TileMask::unknown;
        if (a.mask.data == nullptr) mask = end_of_keys(place, tile, control);
        while (mask == TileMask::unknown) mask = static_cast<TileMask>(control.masks[tile]);
        if (mask == TileMask::hidden) continue;
        __threadfence_block();
        const int key = static_cast<int>(place.first_key) + tile * R::kKeys, stage = at.stage;
        barrier_wait(&control.keys.empty[stage], at.phase ^ 1u);
        control.tile[stage] = tile;
        control.is_mixed[stage] = mask == TileMask::mixed;
        barrier_arrive_expecting(&control.keys.full[stage], R::kTileBytes);
        copy(w.keys, shared + R::kKeysAt + stage * R::kTileBytes, key, key_head,
             &control.keys.full[stage]);
        copy(w.values, shared + R::kValuesAt + stage * R::kTileBytes, key, value_head,
             control.values.fill(at, R::kTileBytes));
        at.advance();
    }
    barrier_wait(&control.keys.empty[at.stage], at.phase ^ 1u);
    control.tile[at.stage] = -1;
    barrier_arrive(&control.keys.full[at.stage]);
}

// ---- rows --------------------------------------------------------------------------------------

/// One of the two rows of which a lane has numbers.
struct WgmmaRow {
    const std::uint8_t* mask = nullptr;
    std::int64_t head = 0, number = 0;
    float slope = 1, largest = -INFINITY, total = 0, shrink = 1;
    bool is_there = false;

    __device__ WgmmaRow(const AttentionArguments& a, const AttentionTile& place, int r) {
        const std::int64_t at = place.first_row + r;
        is_there = at < a.rows();
        const AttentionRow row(a, place.group, is_there ? at : a.rows() - 1);
        head = row.head;
        number = row.number(a, place.sequence);
        if (a.mask.data == nullptr) return;
        mask = row.mask(a, place.sequence);
        slope = slope_of(a, head);
    }
};

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// cap * tanh(x / cap), without a branch.
__device__ __forceinline__ float soft_cap(float x, float cap) {
    constexpr float kTwoLog2E = 2.8853900817779268f;
    return cap * (1 - __fdividef(2, exp2_fast(kTwoLog2E * x / cap) + 1));
}

/// A warp group: 64 rows of queries.
template <class R>
class AttentionGroup {
public:
    __device__ AttentionGroup(const WgmmaAttention& w, const AttentionTile& place,
                              std::uint8_t* shared, typename R::Control& control)
        : a_(w.a),
          place_(place),
          shared_(shared),
          control_(control),
          rows_{WgmmaRow(w.a, place, lane_row()), WgmmaRow(w.a, place, lane_row() + 8)} {}

    __device__ __forceinline__ void run() {
        load_queries();
        if (find_keys()) {
            start_logits();
            wgmma_wait<0>();
            finish_logits();
            pack();
            int stage = at_.stage;
            while (prepare_values(), find_next_keys()) {
                start_logits();
                start_values(stage);
                wgmma_wait<1>();
                finish_logits();
                wgmma_wait<0>();
                finish_values(stage);
                pack();
                stage = at_.stage;
            }
            start_values(stage);
            wgmma_wait<0>();
            wgmma_settle(sums_);
        }
        store();
    }

private:
    using Logits = Wgmma<R::kKeys>;
    using Sums = Wgmma<R::kSize>;
    static constexpr float kLog2E = 1.4426950408889634f;

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int group() { return static_cast<int>(threadIdx.x) / 128 - 1; }
    __device__ static int lane_row() {
        return (static_cast<int>(threadIdx.x) / 32 - 4) * 16 + lane() / 4;
    }
    __device__ std::uint8_t* queries() const { return shared_ + group() * R::kTileBytes / 2; }

    /// Queries as f16, in the order of wgmma's operands.
    __device__ __forceinline__ void load_queries() const {
#pragma unroll 8
        for (int i = threadIdx.x % 128; i < 64 * R::kSize / 8; i += 128) {
            const int r = i / (R::kSize / 8), at = i % (R::kSize / 8);
            const std::int64_t number = place_.first_row + 64 * group() + r;
            float4 low{0, 0, 0, 0}, high{0, 0, 0, 0};
            if (number < a_.rows()) {
                const AttentionRow row(a_, place_.group, number);
                const auto* from = reinterpret_cast<const float4*>(
                    a_.q.data + row.query * a_.q.stride1 + row.head * a_.q.stride2 +
                    place_.sequence * a_.q.stride3);
                low = from[2 * at], high = from[2 * at + 1];
            }
            std::uint8_t* to = queries() + at / 8 * (64 * 128) + r * 128 + 16 * swizzled(r, at % 8);
            *reinterpret_cast<uint4*>(to) =
                uint4{pack_halves(low.x, low.y), pack_halves(low.z, low.w),
                      pack_halves(high.x, high.y), pack_halves(high.z, high.w)};
        }
        fence_for_async();
        named_barrier(1 + group(), 128);
    }

    /// Waits for a tile of keys; false if there are no more.
    __device__ __forceinline__ bool find_keys() {
        control_.keys.wait(at_);
        tile_ = control_.tile[at_.stage];
        // Votes, so that the compiler knows that warps do not diverge here.
        is_mixed_ = __any_sync(0xffffffffu, control_.is_mixed[at_.stage]) != 0;
        return __all_sync(0xffffffffu, tile_ >= 0) != 0;
    }
    __device__ __forceinline__ bool find_next_keys() {
        at_.advance();
        return find_keys();
    }

    /// logits = queries times keys.
    __device__ __forceinline__ void start_logits() {
        const std::uint64_t q = swizzled_operand(queries());
        const std::uint64_t k = swizzled_operand(shared_ + R::kKeysAt + at_.stage * R::kTileBytes);
        wgmma_fence();
        Logits::template multiply<false>(logits_, q, k);
#pragma unroll
        for (int i = 1; i < R::kSize / 16; ++i) {
            const int in_column = 2 * (i % 4);
            Logits::template multiply<true>(logits_, q + i / 4 * (64 * 128 >> 4) + in_column,
                                            k + i / 4 * (R::kColumnBytes >> 4) + in_column);
        }
        wgmma_commit();
    }

    /// Logits that are there become weights.
    __device__ __forceinline__ void finish_logits() {
        wgmma_settle(logits_);
        control_.keys.release(at_.stage);
        weigh();
    }

    /// The mask for a lane's keys of four groups of eight, of its upper and lower row.
    __device__ __forceinline__ void load_biases(std::int64_t first, __half2 (&two)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const WgmmaRow& row = rows_[i % 2];
            const std::int64_t key = first + i / 2 * 8 + lane() % 4 * 2;
            const std::uint8_t* from = row.mask + (key < place_.last_key ? 2 * key : 0);
            two[i] = *reinterpret_cast<const __half2*>(from);
        }
    }

    /// Logits of a tile that the mask, a softcap or its end changes: in units of log2.
    __device__ __forceinline__ void apply_mask() {
        const std::int64_t tile = place_.first_key + std::int64_t{tile_} * R::kKeys;
        const bool has_mask = is_mixed_ && a_.mask.data != nullptr;
#pragma unroll
        for (int batch = 0; batch < Logits::kSums; batch += 16) {
            const std::int64_t first = tile + batch / 4 * 8;
            __half2 two[8] = {};
            if (has_mask) load_biases(first, two);
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const WgmmaRow& row = rows_[i / 2 % 2];
                const std::int64_t key = first + i / 4 * 8 + lane() % 4 * 2 + i % 2;
                const float2 both = __half22float2(two[i / 4 * 2 + i / 2 % 2]);
                const float bias = i % 2 == 0 ? both.x : both.y;
                const bool is_hidden = bias == -INFINITY || key >= place_.last_key;
                float score = logits_[batch + i] * a_.scale;
                const float capped = soft_cap(score, a_.softcap);
                score = a_.softcap != 0 ? capped : score;
                logits_[batch + i] = is_hidden ? -INFINITY : (score + bias * row.slope) * kLog2E;
            }
        }
    }

    /// Logits become weights; the running maximum and total move on.
    __device__ __forceinline__ void weigh() {
        float factor = a_.scale * kLog2E;
        if (is_mixed_ || a_.softcap != 0) {
            apply_mask();
            factor = 1;
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            WgmmaRow& row = rows_[r];
            float top = -INFINITY;
#pragma unroll
            for (int i = 2 * r; i < Logits::kSums; i += 4)
                top = fmaxf(top, fmaxf(logits_[i], logits_[i + 1]));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            top = fmaxf(row.largest, top * factor);
            const bool is_nothing = top == -INFINITY;
            row.shrink = is_nothing ? 1.0f : exp2_fast(row.largest - top);
            row.largest = top;
            const float under = is_nothing ? 0.0f : top;
            float sum = 0;
#pragma unroll
            for (int i = 2 * r; i < Logits::kSums; i += 4) {
                logits_[i] = exp2_fast(fmaf(logits_[i], factor, -under));
                logits_[i + 1] = exp2_fast(fmaf(logits_[i + 1], factor, -under));
                sum += logits_[i] + logits_[i + 1];
            }
            row.total = row.total * row.shrink + sum;  // of this lane's keys
        }
    }

    /// Weights as operands.
    __device__ __forceinline__ void pack() {
#pragma unroll
        for (int i = 0; i < Logits::kSums / 2; ++i)
            weights_[i / 4][i % 4] = pack_halves(logits_[2 * i], logits_[2 * i + 1]);
    }

    /// Waits for the values of the tile that was weighed last. Those of keys that no row sees
    /// become zeros: they may be anything, even NaN.
    __device__ __forceinline__ void prepare_values() const {
        barrier_wait(&control_.values.full[at_.stage], at_.phase);
        if (!is_mixed_) return;
        std::uint8_t* const values = shared_ + R::kValuesAt + at_.stage * R::kTileBytes;
        for (int i = threadIdx.x % 128; i < R::kTileBytes / 16; i += 128) {
            const int key = i / 8 % R::kKeys;
            if ((control_.visible[tile_][key / 32] >> key % 32 & 1u) != 0) continue;
            *reinterpret_cast<uint4*>(values + 16 * i) = uint4{0, 0, 0, 0};
        }
        fence_for_async();
        named_barrier(1 + group(), 128);
    }

    /// sums += weights times values.
    __device__ __forceinline__ void start_values(int stage) {
        const std::uint64_t v =
            transposed_operand(shared_ + R::kValuesAt + stage * R::kTileBytes, R::kColumnBytes);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < R::kKeys / 16; ++k)
            Sums::template multiply<true, true>(sums_, weights_[k], v + k * (16 * 128 >> 4));
        wgmma_commit();
    }

    /// Sums that are there shrink by what the logits of the next tile say.
    __device__ __forceinline__ void finish_values(int stage) {
        wgmma_settle(sums_);
        control_.values.release(stage);
#pragma unroll
        for (int i = 0; i < Sums::kSums; ++i) sums_[i] *= rows_[i / 2 % 2].shrink;
    }

    __device__ __forceinline__ void store() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            WgmmaRow& row = rows_[r];
            row.total += __shfl_xor_sync(0xffffffffu, row.total, 1);
            row.total += __shfl_xor_sync(0xffffffffu, row.total, 2);
            if (!row.is_there) continue;
            const int pair = lane() % 4 * 2;
            float* to = a_.y + row.number * R::kSize;
            float factor = 1;
            if (a_.splits > 1) {
                to =
                    a_.partial + (row.number * a_.splits + place_.split) * partial_floats(R::kSize);
                if (pair == 0) to[R::kSize] = row.total, to[R::kSize + 1] = row.largest;
            } else {
                factor = finish_row(row.largest, row.total, a_.sinks, row.head);
            }
#pragma unroll
            for (int n = 0; n < R::kSize / 8; ++n)
                *reinterpret_cast<float2*>(to + 8 * n + pair) =
                    float2{sums_[4 * n + 2 * r] * factor, sums_[4 * n + 2 * r + 1] * factor};
        }
    }

    const AttentionArguments& a_;
    const AttentionTile& place_;
    std::uint8_t* shared_;
    typename R::Control& control_;
    WgmmaRow rows_[2];
    RingPlace<R::kStages> at_;
    int tile_ = 0;
    bool is_mixed_ = false;
    float logits_[Logits::kSums], sums_[Sums::kSums] = {};
    std::uint32_t weights_[R::kKeys / 16][4];
};

template <class R>
__global__ void __launch_bounds__(R::kThreads, 1)
    attention_wgmma(const __grid_constant__ WgmmaAttention w) {
#if HEDDLE_HAS_WGMMA
    extern __shared__ std::uint8_t dynamic[];
    std::uint8_t* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    auto& control = *reinterpret_cast<typename R::Control*>(shared + R::kControlAt);
    const AttentionTile place(w.a, R::kRows);
    const int tiles =
        static_cast<int>((place.last_key - place.first_key + R::kKeys - 1) / R::kKeys);
    if (threadIdx.x == 0) {
        control.keys.init(8);
        control.values.init(8);
        barrier_init_fence();
    }
    for (int i = threadIdx.x; i < tiles; i += R::kThreads)
        control.masks[i] = static_cast<int>(TileMask::unknown);
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (warp < 4) {
        give_registers<72>();
        if (threadIdx.x == 0) copy_tiles<R>(w, place, tiles, shared, control);
        if (warp == 0 || w.a.mask.data == nullptr) return;
        for (int tile = static_cast<int>(threadIdx.x) - 32; tile < tiles; tile += 96)
            look_at_mask<R::kRows>(w.a, w.masks, place, tile, control);
    } else {
        take_registers<216>();
        AttentionGroup<R>(w, place, shared, control).run();
    }
#endif
}

}  // namespace heddle::cuda
