#include "backends/cuda/kernels/attention/attention.cuh"
#include "backends/cuda/kernels/ptx.cuh"
#include "ggml/op_list.h"

/// Attention on tensor cores: keys, values, queries and weights as f16, sums in f32.
///
/// Four warps have sixteen rows each; tiles of 64 keys and values come through two stages of shared
/// memory. Keys and values that are not f16 are decoded to scratch memory first, once for all
/// rows.
namespace heddle::cuda {
namespace {

constexpr int kRows = 64, kKeys = 64, kThreads = 128;
constexpr float kLog2E = 1.4426950408889634f;

template <int kSize>
struct AttentionLayout {
    static constexpr int kPitch = kSize + 8;  ///< of a row of halves: an odd number of 16 bytes
    static constexpr int kTileHalves = kKeys * kPitch;
    static constexpr int kShared = 4 * kTileHalves * 2;  ///< two stages of keys and of values
};

/// Rows of halves to shared memory; what lies past the end or past `size` becomes zeros.
template <int kSize>
__device__ void copy_tile(__half* to, const std::uint8_t* head, std::int64_t stride, int size,
                          std::int64_t first, std::int64_t end) {
    using L = AttentionLayout<kSize>;
#pragma unroll
    for (int i = threadIdx.x; i < kKeys * kSize / 8; i += kThreads) {
        const int row = i / (kSize / 8), at = i % (kSize / 8) * 8;
        const bool there = first + row < end && at < size;
        copy16(to + row * L::kPitch + at, head + (there ? (first + row) * stride + 2 * at : 0),
               there);
    }
}

/// The sixteen rows of queries of each warp, as operands of the tensor cores.
template <int kSize>
__device__ void load_queries(const AttentionArguments& a, const AttentionTile& place, __half* tile,
                             std::uint32_t (&fragments)[kSize / 16][4]) {
    using L = AttentionLayout<kSize>;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < kRows * kSize; i += kThreads) {
        const int r = i / kSize, d = i % kSize;
        float x = 0;
        if (place.first_row + r < a.rows() && d < a.key_size) {
            const AttentionRow row(a, place.group, place.first_row + r);
            x = reinterpret_cast<const float*>(a.q.data + row.query * a.q.stride1 +
                                               row.head * a.q.stride2 +
                                               place.sequence * a.q.stride3)[d];
        }
        tile[r * L::kPitch + d] = __float2half_rn(x);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSize / 16; ++k)
        load_matrices(fragments[k],
                      tile + (16 * warp + lane % 16) * L::kPitch + 16 * k + lane / 16 * 8);
    __syncthreads();
}

/// One of the two rows of which a lane has numbers.
struct LaneRow {
    const std::uint8_t* mask = nullptr;
    std::int64_t head = 0, number = 0;
    float slope = 1, largest = -INFINITY, total = 0;
    bool is_there = false;

    __device__ LaneRow(const AttentionArguments& a, const AttentionTile& place, int r) {
        const std::int64_t at = place.first_row + r;
        is_there = at < a.rows();
        if (!is_there) return;
        const AttentionRow row(a, place.group, at);
        head = row.head;
        number = row.number(a, place.sequence);
        if (a.mask.data != nullptr) {
            mask = row.mask(a, place.sequence);
            slope = slope_of(a, head);
        }
    }
};

/// Biases of the keys of a tile for a lane's rows: 8 groups of 8 keys, two keys of each group. -inf
/// is what is not visible.
struct Biases {
    float of[8][4];
    bool any = false, all = true;

    __device__ Biases(const LaneRow (&rows)[2], std::int64_t first, std::int64_t end) {
        const int pair = threadIdx.x % 4 * 2;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const LaneRow& row = rows[c / 2];
                const std::int64_t key = first + 8 * n + pair + c % 2;
                float bias = row.is_there && key < end ? 0.0f : -INFINITY;
                if (bias == 0 && row.mask != nullptr) {
                    bias = load_half(row.mask + 2 * key);
                    if (bias != -INFINITY) bias *= row.slope;
                }
                of[n][c] = bias;
                any = any || bias != -INFINITY;
                all = all && (bias != -INFINITY || !row.is_there || key >= end);
            }
        }
    }
};

/// scores = queries times keys.
template <int kSize>
__device__ void score_keys(const std::uint32_t (&queries)[kSize / 16][4], const __half* keys,
                           float (&scores)[8][4]) {
    using L = AttentionLayout<kSize>;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < kSize / 16; ++k) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            std::uint32_t b[4];
            load_matrices(b, keys + (16 * n + lane / 16 * 8 + lane % 8) * L::kPitch + 16 * k +
                                 lane / 8 % 2 * 8);
            multiply_halves(scores[2 * n], queries[k], b[0], b[1]);
            multiply_halves(scores[2 * n + 1], queries[k], b[2], b[3]);
        }
    }
}

/// Scores become weights, the running maximum and total move on; returns by what earlier sums
/// shrink.
__device__ float2 weigh(const AttentionArguments& a, const Biases& biases, LaneRow (&rows)[2],
                        float (&scores)[8][4]) {
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float top = rows[r].largest;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int c = 2 * r; c < 2 * r + 2; ++c) {
                float score = scores[n][c] * a.scale;
                if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
                const float bias = biases.of[n][c];
                scores[n][c] = bias == -INFINITY ? -INFINITY : (score + bias) * kLog2E;
                top = fmaxf(top, scores[n][c]);
            }
        }
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
        const bool is_nothing = top == -INFINITY;
        shrink[r] = is_nothing ? 1.0f : exp2f(rows[r].largest - top);
        rows[r].largest = top;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int c = 2 * r; c < 2 * r + 2; ++c) {
                scores[n][c] = is_nothing ? 0.0f : exp2f(scores[n][c] - top);
                sum += scores[n][c];
            }
        }
        rows[r].total = rows[r].total * shrink[r] + sum;  // of this lane's keys
    }
    return {shrink[0], shrink[1]};
}

/// sums += weights times values.
template <int kSize>
__device__ void add_values(const float (&weights)[8][4], const __half* values,
                           float (&sums)[kSize / 8][4]) {
    using L = AttentionLayout<kSize>;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const std::uint32_t p[4] = {pack_halves(weights[2 * k][0], weights[2 * k][1]),
                                    pack_halves(weights[2 * k][2], weights[2 * k][3]),
                                    pack_halves(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                                    pack_halves(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < kSize / 16; ++n) {
            std::uint32_t b[4];
            load_matrices_transposed(
                b, values + (16 * k + lane % 16) * L::kPitch + 16 * n + lane / 16 * 8);
            multiply_halves(sums[2 * n], p, b[0], b[1]);
            multiply_halves(sums[2 * n + 1], p, b[2], b[3]);
        }
    }
}

/// Values of keys that no row of the block sees become zeros: they may be anything, even NaN, and
/// nothing times NaN is NaN.
template <int kSize>
__device__ void clear_hidden(const Biases& biases, __half* values) {
    __shared__ int is_visible[kKeys];
    using L = AttentionLayout<kSize>;
    if (threadIdx.x < kKeys) is_visible[threadIdx.x] = 0;
    __syncthreads();
    const int pair = threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
            if (biases.of[n][c] != -INFINITY || biases.of[n][c + 2] != -INFINITY)
                is_visible[8 * n + pair + c] = 1;
    __syncthreads();
    for (int i = threadIdx.x; i < kKeys * kSize / 8; i += kThreads) {
        const int row = i / (kSize / 8), at = i % (kSize / 8) * 8;
        if (is_visible[row] == 0)
            *reinterpret_cast<uint4*>(values + row * L::kPitch + at) = uint4{0, 0, 0, 0};
    }
    __syncthreads();
}

template <int kSize>
__device__ void store_rows(const AttentionArguments& a, const AttentionTile& place,
                           LaneRow (&rows)[2], const float (&sums)[kSize / 8][4]) {
    const int pair = threadIdx.x % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        LaneRow& row = rows[r];
        row.total += __shfl_xor_sync(0xffffffffu, row.total, 1);
        row.total += __shfl_xor_sync(0xffffffffu, row.total, 2);
        if (!row.is_there) continue;
        float* to = a.y + row.number * a.value_size;
        float factor = 1;
        if (a.splits > 1) {
            to = a.partial + (row.number * a.splits + place.split) * partial_floats(a.value_size);
            if (pair == 0) {
                to[a.value_size] = row.total;
                to[a.value_size + 1] = row.largest;
            }
        } else {
            factor = finish_row(row.largest, row.total, a.sinks, row.head);
        }
#pragma unroll
        for (int n = 0; n < kSize / 8; ++n) {
            const int d = 8 * n + pair;
            if (d >= a.value_size) break;
            to[d] = sums[n][2 * r] * factor;
            to[d + 1] = sums[n][2 * r + 1] * factor;
        }
    }
}

template <int kSize>
__global__ void __launch_bounds__(kThreads) attention_mma(AttentionArguments a) {
    using L = AttentionLayout<kSize>;
    extern __shared__ __align__(16) __half halves[];
    __half* keys = halves;                         // two stages
    __half* values = halves + 2 * L::kTileHalves;  // two stages
    const AttentionTile place(a, kRows);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const std::int64_t first_head = place.group * a.group_heads;
    const std::uint8_t* key_head =
        a.k.data + first_head / a.heads_per_key * a.k.stride2 + place.sequence * a.k.stride3;
    const std::uint8_t* value_head =
        a.v.data + first_head / a.heads_per_value * a.v.stride2 + place.sequence * a.v.stride3;
    const auto copy_stage = [&](int stage, std::int64_t first) {
        if (first < place.last_key) {
            copy_tile<kSize>(keys + stage * L::kTileHalves, key_head, a.k.stride1, a.key_size,
                             first, place.last_key);
            copy_tile<kSize>(values + stage * L::kTileHalves, value_head, a.v.stride1, a.value_size,
                             first, place.last_key);
        }
        copies_commit();
    };

    std::uint32_t queries[kSize / 16][4];
    load_queries<kSize>(a, place, keys, queries);
    LaneRow rows[2] = {LaneRow(a, place, 16 * warp + lane / 4),
                       LaneRow(a, place, 16 * warp + lane / 4 + 8)};
    float sums[kSize / 8][4] = {};

    copy_stage(0, place.first_key);
    int stage = 0;
    for (std::int64_t first = place.first_key; first < place.last_key; first += kKeys) {
        copy_stage(stage ^ 1, first + kKeys);
        const Biases biases(rows, first, place.last_key);
        copies_wait<1>();
        const bool any = __syncthreads_or(biases.any) != 0;
        const bool all = __syncthreads_and(biases.all) != 0;
        if (any) {
            __half* tile = values + stage * L::kTileHalves;
            if (!all) clear_hidden<kSize>(biases, tile);
            float scores[8][4] = {};
            score_keys<kSize>(queries, keys + stage * L::kTileHalves, scores);
            const float2 shrink = weigh(a, biases, rows, scores);
#pragma unroll
            for (int n = 0; n < kSize / 8; ++n) {
                sums[n][0] *= shrink.x, sums[n][1] *= shrink.x;
                sums[n][2] *= shrink.y, sums[n][3] *= shrink.y;
            }
            add_values<kSize>(scores, tile, sums);
        }
        __syncthreads();
        stage ^= 1;
    }
    store_rows<kSize>(a, place, rows, sums);
}

// ---- the row -----------------------------------------------------------------------------------

std::string_view objection(const Tensor& node) {
    if (const auto reason = attention_objection(node); !reason.empty()) return reason;
    const Tensor &k = *node.src[1], &v = *node.src[2];
    if (k.ne[0] > 128 || v.ne[0] > 128) return "a head size is above 128";
    for (const Tensor* t : {&k, &v})
        if (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_BF16)
            return "keys or values have a wider range than f16";
    return {};
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    return halves_bytes(*node.src[1]) + halves_bytes(*node.src[2]) +
           partial_bytes(attention_arguments(node, kRows, kKeys, device, nullptr));
}

template <int kSize>
void launch_size(const AttentionArguments& a, const Launch& launch) {
    using L = AttentionLayout<kSize>;
    cudaFuncSetAttribute(attention_mma<kSize>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         L::kShared);
    attention_mma<kSize><<<static_cast<unsigned>(attention_blocks(a, kRows)), kThreads, L::kShared,
                           launch.stream>>>(a);
}

void launch_mma(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &k = *node.src[1], &v = *node.src[2];
    for (const Tensor* t : {&k, &v})
        if (is_ready(*t) && reinterpret_cast<std::uintptr_t>(t->data) % 16 != 0)
            return launch_unsplit(node, launch);
    std::byte* const values_at = launch.scratch + halves_bytes(k);
    AttentionArguments a =
        attention_arguments(node, kRows, kKeys, launch.device, values_at + halves_bytes(v));
    a.k = as_halves(k, a.k, launch.scratch, launch);
    a.v = as_halves(v, a.v, values_at, launch);
    if (a.key_size <= 64 && a.value_size <= 64)
        launch_size<64>(a, launch);
    else
        launch_size<128>(a, launch);
    if (a.splits > 1) merge_splits(a, launch);
}

}  // namespace

const Kernel kAttentionMma{"attention_mma", GGML_OP_FLASH_ATTN_EXT, objection, scratch, launch_mma};

}  // namespace heddle::cuda
