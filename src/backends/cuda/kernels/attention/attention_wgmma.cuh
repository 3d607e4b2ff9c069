#pragma once

#include "backends/cuda/kernels/attention/wgmma_tiles.cuh"
#include "backends/cuda/kernels/wgmma.cuh"

/// Attention of many rows on Hopper: keys, values, queries and weights as f16, sums in f32.
///
/// A block goes from tile of rows to tile of rows. One warp looks ahead at what the mask does:
/// tiles of keys that no row sees are skipped, and only where it has values is it read again. One
/// thread copies the others to rings in shared memory; two warp groups have 64 rows each. While
/// tensor cores weigh the values of a tile, the logits of the next one become weights.
namespace heddle::cuda {

/// One of the two rows of which a lane has numbers.
struct WgmmaRow {
    int query, head;
    float largest, total, shrink;

    /// The last query takes the place of those behind it.
    __device__ int loaded_query(const AttentionArguments& a) const {
        return min(query, static_cast<int>(a.queries) - 1);
    }
    __device__ bool is_there(const AttentionArguments& a) const { return query < a.queries; }
};

/// cap * tanh(x / cap), without a branch.
__device__ __forceinline__ float soft_cap(float x, float cap) {
    constexpr float kTwoLog2E = 2.8853900817779268f;
    return cap * (1 - __fdividef(2, exp2_fast(kTwoLog2E * x / cap) + 1));
}

/// A warp group: 64 rows of queries.
template <class R>
class AttentionGroup {
public:
    __device__ AttentionGroup(const WgmmaAttention& w, std::uint8_t* shared,
                              typename R::Control& control)
        : w_(w), a_(w.a), shared_(shared), control_(control) {}

    __device__ __forceinline__ void run() {
        if (group() == 1) pass_turn();
        TilesOfBlock work(a_, R::kRows);
        bool is_more = work.next();
        if (is_more) load_queries(work.place());
        while (is_more) {
            start_rows(work.place());
            is_more = work.next();
            find_keys();
            if (is_there_) {
                add_tiles();
            } else {
                control_.keys.release(at_.stage);
                barrier_wait(&control_.values.full[at_.stage], at_.phase);
            }
            control_.values.release(at_.stage);
            at_.advance();
            if (is_more) load_queries(work.place());
            store();
        }
        if (group() == 0) take_turn();
    }

private:
    using Logits = Wgmma<R::kKeys>;
    using Sums = Wgmma<R::kValueSize>;
    static constexpr float kLog2E = 1.4426950408889634f;
    static constexpr int kWords = R::kKeys / 32;  ///< of a bit for each key

    __device__ static int lane() { return threadIdx.x % 32; }
    __device__ static int group() { return static_cast<int>(threadIdx.x) / 128 - 1; }
    __device__ static int lane_row() {
        return (static_cast<int>(threadIdx.x) / 32 - 4) * 16 + lane() / 4;
    }
    __device__ std::uint8_t* queries() const { return shared_ + group() * R::kGroupBytes; }

    __device__ __forceinline__ void start_rows(const AttentionTile& place) {
        split_ = place.split;
        sequence_ = static_cast<int>(place.sequence);
        first_key_ = static_cast<int>(place.first_key);
        last_key_ = static_cast<int>(place.last_key);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const AttentionRow row(a_, place.group, place.first_row + lane_row() + 8 * r);
            rows_[r] = {static_cast<int>(row.query), static_cast<int>(row.head), -INFINITY, 0, 1};
        }
#pragma unroll
        for (int i = 0; i < Sums::kSums; ++i) sums_[i] = 0;
    }

    /// All tiles of keys that the rows see, from the one on that was found.
    __device__ __forceinline__ void add_tiles() {
        take_turn();
        start_logits();
        pass_turn();
        wgmma_wait<0>();
        finish_logits();
        pack();
        int stage = at_.stage;
        while (prepare_values(), !is_last_) {
            at_.advance();
            find_keys();
            take_turn();
            start_logits();
            start_values(stage);
            pass_turn();
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

    /// The two groups start their products in turn: while tensor cores work for one, the other one
    /// weighs logits. Else both would wait for products and then weigh at the same time.
    __device__ static void take_turn() { named_barrier(3 + group(), 256); }
    __device__ static void pass_turn() { named_barrier_arrive(4 - group(), 256); }

    /// Queries as f16, in the order of wgmma's operands. Many loads are under way at once.
    __device__ __forceinline__ void load_queries(const AttentionTile& place) const {
        constexpr int kPieces = R::kKeySize / 8, kRounds = 64 * kPieces / 128, kAtOnce = 8;
        named_barrier(1 + group(), 128);  // all warps have multiplied the ones before
#pragma unroll
        for (int first = 0; first < kRounds; first += kAtOnce) {
            float4 x[kAtOnce][2];
#pragma unroll
            for (int i = 0; i < kAtOnce && first + i < kRounds; ++i)
                load_query_piece<R>(a_, place,
                                    64 * group() * kPieces + 128 * (first + i) + threadIdx.x % 128,
                                    x[i]);
#pragma unroll
            for (int i = 0; i < kAtOnce && first + i < kRounds; ++i) {
                const int number = 128 * (first + i) + threadIdx.x % 128;
                const int r = number / kPieces, at = number % kPieces;
                std::uint8_t* to =
                    queries() + at / 8 * (64 * 128) + r * 128 + 16 * swizzled(r, at % 8);
                *reinterpret_cast<uint4*>(to) =
                    uint4{pack_halves(x[i][0].x, x[i][0].y), pack_halves(x[i][0].z, x[i][0].w),
                          pack_halves(x[i][1].x, x[i][1].y), pack_halves(x[i][1].z, x[i][1].w)};
            }
        }
        fence_for_async();
        named_barrier(1 + group(), 128);
    }

    /// Waits for a tile of keys.
    __device__ __forceinline__ void find_keys() {
        control_.keys.wait(at_);
        const typename R::Coming& coming = control_.coming[at_.phase][at_.stage];
        // Votes, so that the compiler knows that warps do not diverge here.
        is_there_ = __any_sync(0xffffffffu, coming.view.tile >= 0) != 0;
        is_last_ = __any_sync(0xffffffffu, coming.is_last) != 0;
        const bool is_cut = coming.view.mask == TileMask::cut,
                   is_mixed = coming.view.mask == TileMask::mixed || (is_cut && a_.softcap != 0);
        is_mixed_ = __any_sync(0xffffffffu, is_mixed) != 0;
        is_cut_ = __any_sync(0xffffffffu, is_cut && !is_mixed) != 0;
        tile_ = coming.view.tile;
        if (!is_cut_) return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const std::uint32_t* const from =
                a_.mask.data != nullptr ? seen_by(rows_[r]) : coming.view.visible;
#pragma unroll
            for (int i = 0; i < kWords; ++i) seen_[r][i] = from[i];
        }
    }

    /// A bit for each key of the tile.
    __device__ const std::uint32_t* seen_by(const WgmmaRow& row) const {
        const std::int64_t matrix = Division(row.head, a_.mask2).remainder +
                                    Division(sequence_, a_.mask3).remainder * a_.mask2;
        const uint4* const seen = w_.masks.seen_by(matrix, row.loaded_query(a_));
        return reinterpret_cast<const std::uint32_t*>(seen) + (first_key_ + tile_ * R::kKeys) / 32;
    }
    __device__ const std::uint8_t* mask_of(const WgmmaRow& row) const {
        return a_.mask.data + row.loaded_query(a_) * a_.mask.stride1 +
               Division(row.head, a_.mask2).remainder * a_.mask.stride2 +
               Division(sequence_, a_.mask3).remainder * a_.mask.stride3;
    }

    /// logits = queries times keys.
    __device__ __forceinline__ void start_logits() {
        const std::uint64_t q = swizzled_operand(queries());
        const std::uint64_t k = swizzled_operand(shared_ + R::kKeysAt + at_.stage * R::kKeyBytes);
        wgmma_fence();
        Logits::template multiply<false>(logits_, q, k);
#pragma unroll
        for (int i = 1; i < R::kKeySize / 16; ++i) {
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
    __device__ __forceinline__ void load_biases(const std::uint8_t* const (&masks)[2], int first,
                                                __half2 (&two)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int key = first + i / 2 * 8 + lane() % 4 * 2;
            two[i] = *reinterpret_cast<const __half2*>(
                masks[i % 2] + (key < last_key_ ? 2 * std::int64_t{key} : 0));
        }
    }

    /// Logits of a tile that the mask, a softcap or its end changes: in units of log2.
    __device__ __forceinline__ void apply_mask() {
        const int tile = first_key_ + tile_ * R::kKeys;
        const bool has_mask = is_mixed_ && a_.mask.data != nullptr;
        const std::uint8_t* const masks[2] = {mask_of(rows_[0]), mask_of(rows_[1])};
        const float slopes[2] = {slope_of(a_, rows_[0].head), slope_of(a_, rows_[1].head)};
#pragma unroll
        for (int batch = 0; batch < Logits::kSums; batch += 16) {
            const int first = tile + batch / 4 * 8;
            __half2 two[8] = {};
            if (has_mask) load_biases(masks, first, two);
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                const int key = first + i / 4 * 8 + lane() % 4 * 2 + i % 2;
                const float2 both = __half22float2(two[i / 4 * 2 + i / 2 % 2]);
                const float bias = i % 2 == 0 ? both.x : both.y;
                const bool is_hidden = bias == -INFINITY || key >= last_key_;
                float score = logits_[batch + i] * a_.scale;
                const float capped = soft_cap(score, a_.softcap);
                score = a_.softcap != 0 ? capped : score;
                logits_[batch + i] =
                    is_hidden ? -INFINITY : (score + bias * slopes[i / 2 % 2]) * kLog2E;
            }
        }
    }

    /// Logits of a tile that the mask only cuts.
    __device__ __forceinline__ void cut() {
#pragma unroll
        for (int i = 0; i < Logits::kSums; ++i) {
            const std::uint32_t word = seen_[i / 2 % 2][i / 16] >> 2 * (lane() % 4);
            if ((word >> (i / 4 % 4 * 8 + i % 2) & 1u) == 0) logits_[i] = -INFINITY;
        }
    }

    /// Logits become weights; the running maximum and total move on.
    __device__ __forceinline__ void weigh() {
        float factor = a_.scale * kLog2E;
        if (is_cut_) cut();
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
        if (!is_mixed_ && !is_cut_) return;
        const std::uint32_t* const visible = control_.coming[at_.phase][at_.stage].view.visible;
        std::uint8_t* const values = shared_ + R::kValuesAt + at_.stage * R::kValueBytes;
        for (int i = threadIdx.x % 128; i < R::kValueBytes / 16; i += 128) {
            const int key = i / 8 % R::kKeys;
            if ((visible[key / 32] >> key % 32 & 1u) != 0) continue;
            *reinterpret_cast<uint4*>(values + 16 * i) = uint4{0, 0, 0, 0};
        }
        fence_for_async();
        named_barrier(1 + group(), 128);
    }

    /// sums += weights times values.
    __device__ __forceinline__ void start_values(int stage) {
        const std::uint64_t v =
            transposed_operand(shared_ + R::kValuesAt + stage * R::kValueBytes, R::kColumnBytes);
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
        // The largest logit of all keys comes early as a rule.
        if (!__any_sync(0xffffffffu, rows_[0].shrink != 1 || rows_[1].shrink != 1)) return;
#pragma unroll
        for (int i = 0; i < Sums::kSums; ++i) sums_[i] *= rows_[i / 2 % 2].shrink;
    }

    __device__ __forceinline__ void store() {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            WgmmaRow& row = rows_[r];
            row.total += __shfl_xor_sync(0xffffffffu, row.total, 1);
            row.total += __shfl_xor_sync(0xffffffffu, row.total, 2);
            if (!row.is_there(a_)) continue;
            const int pair = lane() % 4 * 2;
            const int size = a_.value_size;
            const std::int64_t number = (sequence_ * a_.queries + row.query) * a_.heads + row.head;
            float* to = a_.y + number * size;
            float factor = 1;
            if (a_.splits > 1) {
                to = a_.partial + (number * a_.splits + split_) * partial_floats(size);
                if (pair == 0) to[size] = row.total, to[size + 1] = row.largest;
            } else {
                factor = finish_row(row.largest, row.total, a_.sinks, row.head);
            }
#pragma unroll
            for (int n = 0; n < R::kValueSize / 8; ++n) {
                if (8 * n >= size) break;
                *reinterpret_cast<float2*>(to + 8 * n + pair) =
                    float2{sums_[4 * n + 2 * r] * factor, sums_[4 * n + 2 * r + 1] * factor};
            }
        }
    }

    const WgmmaAttention& w_;
    const AttentionArguments& a_;
    std::uint8_t* shared_;
    typename R::Control& control_;
    WgmmaRow rows_[2];
    RingPlace<R::kStages> at_;
    int tile_ = 0, split_ = 0, sequence_ = 0, first_key_ = 0, last_key_ = 0;
    bool is_there_ = false, is_last_ = false, is_mixed_ = false, is_cut_ = false;
    std::uint32_t seen_[2][kWords];  ///< keys that a row sees, of a tile that is cut
    float logits_[Logits::kSums], sums_[Sums::kSums];
    std::uint32_t weights_[R::kKeys / 16][4];
};

template <class R>
__global__ void __launch_bounds__(R::kThreads, 1)
    attention_wgmma(const __grid_constant__ WgmmaAttention w) {
#if HEDDLE_HAS_WGMMA
    extern __shared__ std::uint8_t dynamic[];
    std::uint8_t* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    auto& control = *reinterpret_cast<typename R::Control*>(shared + R::kControlAt);
    if (threadIdx.x == 0) {
        control.keys.init(8);
        control.values.init(8);
        control.batches.init(1, 32);  // all lanes of a warp write a batch
        barrier_init_fence();
    }
    __syncthreads();
    const int warp = threadIdx.x / 32;
    if (warp < 4) {
        give_registers<40>();
        if (threadIdx.x == 0) TileCopies<R>(w, shared, control).run();
        if (warp == 1) find_tiles<R>(w, control);
    } else {
        take_registers<232>();
        AttentionGroup<R>(w, shared, control).run();
    }
#endif
}

}  // namespace heddle::cuda
