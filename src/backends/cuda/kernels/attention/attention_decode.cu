#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/attention/merge.cuh"
#include "backends/cuda/kernels/chain.cuh"
#include "backends/cuda/kernels/ptx.cuh"
#include "ggml/op_list.h"

/// Attention of few rows, as in decoding: reading keys and values once is most of the work.
///
/// `kLanes` lanes share a key, eight elements each, and all rows of a group meet it at once. A warp
/// has several keys under way; sums of lanes and warps meet in shared memory at the end.
namespace heddle::cuda {
namespace {

constexpr int kBatch = 2;  ///< keys of a lane whose loads are under way at once
constexpr int kMostRows = kDecodeShare.rows;
constexpr float kLog2E = 1.4426950408889634f;

/// Eight elements of a row as they were loaded: halves in one load, their rows are aligned to 16
/// bytes. Loads of several are under way at once; what they bring is unpacked when it is used.
template <class F>
struct Eight {
    float values[8];

    __device__ void load(const std::uint8_t* row, int at) { decode8_of_row<F>(row, at, values); }
    __device__ void clear() {
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] = 0;
    }
    __device__ void unpack(float (&y)[8]) const {
#pragma unroll
        for (int i = 0; i < 8; ++i) y[i] = values[i];
    }
};

template <>
struct Eight<Format<GGML_TYPE_F16>> {
    uint4 words;

    __device__ void load(const std::uint8_t* row, int at) {
        words = *reinterpret_cast<const uint4*>(row + 2 * at);
    }
    __device__ void clear() { words = {0, 0, 0, 0}; }
    __device__ void unpack(float (&y)[8]) const {
        const std::uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
            y[2 * i] = pair.x, y[2 * i + 1] = pair.y;
        }
    }
};

/// A batch of a team's keys or values.
template <class F, int kTeams>
struct Batch {
    Eight<F> eight[kBatch];

    __device__ void load(const std::uint8_t* rows, std::int64_t stride, std::int64_t first,
                         std::int64_t end, int at, int size) {
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
            const std::int64_t key = first + j * kTeams;
            if (key < end && at < size) {
                eight[j].load(rows + key * stride, at);
            } else {
                eight[j].clear();
            }
        }
    }
};

/// What one group of lanes knows of one row: softmax so far.
struct Softmax {
    float largest = -INFINITY, total = 0;
    float sums[8] = {};
};

template <int kLanes, int kRows>
struct DecodeLayout {
    static constexpr int kWarps = kRows <= 4 ? 8 : 4;  ///< as shared memory allows
    static constexpr int kThreads = 32 * kWarps;
    static constexpr int kTeams = 32 / kLanes;              ///< keys of a warp at a time
    static constexpr int kWidth = 8 * kLanes + 2;           ///< sums, total, largest
    static constexpr int kEntries = kWarps * kTeams;        ///< of each row, in shared memory
    static constexpr int kStep = kWarps * kTeams * kBatch;  ///< keys of a block at a time
    static constexpr std::size_t kShared = kEntries * kRows * kWidth * sizeof(float);
};

/// The rows of a block, as a lane needs them.
template <int kRows>
struct DecodeRows {
    float q[kRows][8];
    const std::uint8_t* mask[kRows];
    float slope[kRows];

    __device__ DecodeRows(const AttentionArguments& a, const AttentionTile& place, int at) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const AttentionRow row(a, place.group, min(std::int64_t{r}, a.rows() - 1));
            const auto* from = reinterpret_cast<const float*>(a.q.data + row.query * a.q.stride1 +
                                                              row.head * a.q.stride2 +
                                                              place.sequence * a.q.stride3);
#pragma unroll
            for (int i = 0; i < 8; ++i) q[r][i] = at < a.key_size ? from[at + i] * a.scale : 0.0f;
            mask[r] = a.mask.data != nullptr ? row.mask(a, place.sequence) : nullptr;
            slope[r] = a.mask.data != nullptr ? slope_of(a, row.head) : 1.0f;
        }
    }

    /// -inf: the row does not see the key.
    __device__ float bias(int r, std::int64_t key, bool is_there) const {
        if (!is_there) return -INFINITY;
        if (mask[r] == nullptr) return 0;
        const float value = load_half(mask[r] + 2 * key);
        return value == -INFINITY ? value : value * slope[r];
    }
};

/// Logits of a batch of keys for all rows, the same in all lanes that share a key.
template <class F, int kLanes, int kRows>
__device__ void score_batch(const AttentionArguments& a, const DecodeRows<kRows>& rows,
                            const Batch<F, 32 / kLanes>& keys, std::int64_t first, std::int64_t end,
                            float (&scores)[kBatch][kRows]) {
    constexpr int kTeams = 32 / kLanes;
    float biases[kBatch][kRows];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
        const std::int64_t key = first + j * kTeams;
#pragma unroll
        for (int r = 0; r < kRows; ++r) biases[j][r] = rows.bias(r, key, key < end);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
        float k[8];
        keys.eight[j].unpack(k);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) sum += rows.q[r][i] * k[i];
            scores[j][r] = sum;
        }
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma unroll
        for (int j = 0; j < kBatch; ++j)
#pragma unroll
            for (int r = 0; r < kRows; ++r)
                scores[j][r] += __shfl_xor_sync(0xffffffffu, scores[j][r], step);
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            const float bias = biases[j][r];
            float score = scores[j][r];
            if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
            scores[j][r] = bias == -INFINITY ? bias : (score + bias) * kLog2E;
        }
    }
}

/// A batch of values joins the sums.
template <class F, int kTeams, int kRows>
__device__ void add_batch(const Batch<F, kTeams>& values, const float (&scores)[kBatch][kRows],
                          Softmax (&state)[kRows]) {
    float v[kBatch][8];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) values.eight[j].unpack(v[j]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        Softmax& s = state[r];
        float top = s.largest;
#pragma unroll
        for (int j = 0; j < kBatch; ++j) top = fmaxf(top, scores[j][r]);
        if (top == -INFINITY) continue;
        const float shrink = exp2f(s.largest - top);
        s.largest = top;
        s.total *= shrink;
#pragma unroll
        for (int i = 0; i < 8; ++i) s.sums[i] *= shrink;
#pragma unroll
        for (int j = 0; j < kBatch; ++j) {
            const float weight = exp2f(scores[j][r] - top);
            if (weight == 0) continue;  // what is masked may be anything, even NaN
            s.total += weight;
#pragma unroll
            for (int i = 0; i < 8; ++i) s.sums[i] += weight * v[j][i];
        }
    }
}

/// Sums of all lanes and warps, in order, to the result or to this split's partial one.
template <int kLanes, int kRows>
__device__ void finish(const AttentionArguments& a, const AttentionTile& place,
                       const float* shared) {
    using L = DecodeLayout<kLanes, kRows>;
    for (int i = threadIdx.x; i < kRows * 8 * kLanes; i += L::kThreads) {
        const int r = i / (8 * kLanes), d = i % (8 * kLanes);
        if (r >= a.rows() || d >= a.value_size) continue;
        const float* entries = shared + r * L::kWidth;
        constexpr int kStride = kRows * L::kWidth;
        float largest = -INFINITY, total = 0, sum = 0;
#pragma unroll
        for (int e = 0; e < L::kEntries; ++e)
            largest = fmaxf(largest, entries[e * kStride + 8 * kLanes + 1]);
#pragma unroll
        for (int e = 0; e < L::kEntries; ++e) {
            const float* entry = entries + e * kStride;
            if (entry[8 * kLanes] == 0) continue;
            const float factor = exp2f(entry[8 * kLanes + 1] - largest);
            total += entry[8 * kLanes] * factor;
            sum += entry[d] * factor;
        }
        const AttentionRow row(a, place.group, r);
        const std::int64_t number = row.number(a, place.sequence);
        if (a.splits == 1) {
            a.y[number * a.value_size + d] = sum * finish_row(largest, total, a.sinks, row.head);
            continue;
        }
        float* to = a.partial + (number * a.splits + place.split) * partial_floats(a.value_size);
        to[d] = sum;
        if (d == 0) to[a.value_size] = total, to[a.value_size + 1] = largest;
    }
}

/// Keys and values of the block come into L2 while the kernel before still runs. Nothing is read,
/// so it does not matter that it may still write some of them.
template <class F>
__device__ void prefetch_keys(const AttentionArguments& a, const AttentionTile& place,
                              const std::uint8_t* keys, const std::uint8_t* values) {
    constexpr int kLine = 128, kMostKeys = 64;
    const int count =
        static_cast<int>(min(place.last_key - place.first_key, std::int64_t{kMostKeys}));
    const int lines =
        static_cast<int>(F::block_bytes * (a.key_size / F::block_elements) + kLine - 1) / kLine;
    for (int i = threadIdx.x; i < count * lines; i += blockDim.x) {
        const std::int64_t key = place.first_key + i / lines;
        const int at = i % lines * kLine;
        prefetch_to_l2(keys + key * a.k.stride1 + at);
        prefetch_to_l2(values + key * a.v.stride1 + at);
    }
}

template <class F, int kLanes, int kRows>
__global__ void __launch_bounds__(DecodeLayout<kLanes, kRows>::kThreads, 2)
    attention_decode(const __grid_constant__ AttentionArguments a, unsigned* tickets) {
    using L = DecodeLayout<kLanes, kRows>;
    extern __shared__ float shared[];
    chain_trigger();
    if (blockIdx.x >= a.groups * a.sequences * a.splits) return chain_wait();
    const AttentionTile place(a, kRows);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int team = lane / kLanes, at = lane % kLanes * 8;
    const std::int64_t head = place.group * a.group_heads;
    const std::uint8_t* keys =
        a.k.data + head / a.heads_per_key * a.k.stride2 + place.sequence * a.k.stride3;
    const std::uint8_t* values =
        a.v.data + head / a.heads_per_value * a.v.stride2 + place.sequence * a.v.stride3;
    prefetch_keys<F>(a, place, keys, values);
    chain_wait();
    const DecodeRows<kRows> rows(a, place, at);
    Softmax state[kRows];
    for (std::int64_t base = place.first_key + warp * L::kTeams * kBatch; base < place.last_key;
         base += L::kStep) {
        // Values are on their way before the keys are needed.
        Batch<F, L::kTeams> k, v;
        k.load(keys, a.k.stride1, base + team, place.last_key, at, a.key_size);
        v.load(values, a.v.stride1, base + team, place.last_key, at, a.value_size);
        float scores[kBatch][kRows];
        score_batch<F, kLanes, kRows>(a, rows, k, base + team, place.last_key, scores);
        add_batch(v, scores, state);
    }
    float* mine = shared + (warp * L::kTeams + team) * kRows * L::kWidth;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int i = 0; i < 8; ++i) mine[r * L::kWidth + at + i] = state[r].sums[i];
        if (at == 0) {
            mine[r * L::kWidth + 8 * kLanes] = state[r].total;
            mine[r * L::kWidth + 8 * kLanes + 1] = state[r].largest;
        }
    }
    __syncthreads();
    finish<kLanes, kRows>(a, place, shared);
    if (a.splits == 1 || tickets == nullptr) return;
    if (!is_last_block(tickets + blockIdx.x / a.splits, static_cast<unsigned>(a.splits))) return;
    merge_group(a, place, shared);
}

// ---- the row -----------------------------------------------------------------------------------

std::int64_t rows_of(const Tensor& node) {
    const DeviceFacts none{};
    return attention_arguments(node, kDecodeShare, none, nullptr).rows();
}

std::string_view objection(const Tensor& node) {
    if (const auto reason = attention_objection(node); !reason.empty()) return reason;
    const Tensor &k = *node.src[1], &v = *node.src[2];
    if (k.type != v.type) return "keys and values have different types";
    if (k.type != GGML_TYPE_F16 && k.type != GGML_TYPE_Q8_0) return "keys are not f16 or q8_0";
    if (k.ne[0] > 256 || v.ne[0] > 256) return "a head size is above 256";
    if (rows_of(node) > kMostRows) return "more than 8 rows share keys";
    if (k.type != GGML_TYPE_F16) return {};
    for (const Tensor* t : {&k, &v})
        for (int d = 1; d < 4; ++d)
            if (t->nb[d] % 16 != 0) return "rows of keys or values are not aligned to 16 bytes";
    return {};
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    return partial_bytes(attention_arguments(node, kDecodeShare, device, nullptr));
}

template <class F, int kLanes, int kRows>
void launch_block(const AttentionArguments& a, const Launch& launch) {
    using L = DecodeLayout<kLanes, kRows>;
    const auto kernel = attention_decode<F, kLanes, kRows>;
    constexpr std::size_t kShared = L::kShared > kChainShared ? L::kShared : kChainShared;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(kShared));
    const std::int64_t blocks = attention_blocks(a, kMostRows),
                       most = launch.device.multiprocessors;
    start(launch, kernel, static_cast<unsigned>(blocks > most ? blocks : most), L::kThreads,
          kShared, a, has_tickets(a, launch) ? launch.tickets : nullptr);
}

template <class F, int kLanes>
void launch_rows(const AttentionArguments& a, const Launch& launch) {
    if (a.rows() == 1) return launch_block<F, kLanes, 1>(a, launch);
    if (a.rows() <= 4) return launch_block<F, kLanes, 4>(a, launch);
    launch_block<F, kLanes, kMostRows>(a, launch);
}

template <class F>
void launch_lanes(const AttentionArguments& a, const Launch& launch) {
    const int size = a.key_size > a.value_size ? a.key_size : a.value_size;
    if (size <= 64) return launch_rows<F, 8>(a, launch);
    if (size <= 128) return launch_rows<F, 16>(a, launch);
    launch_rows<F, 32>(a, launch);
}

void launch_decode(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &k = *node.src[1], &v = *node.src[2];
    const bool is_half = k.type == GGML_TYPE_F16;
    for (const Tensor* t : {&k, &v})
        if (is_half && reinterpret_cast<std::uintptr_t>(t->data) % 16 != 0)
            return launch_unsplit(node, launch);
    const AttentionArguments a =
        attention_arguments(node, kDecodeShare, launch.device, launch.scratch);
    if (is_half) {
        launch_lanes<Format<GGML_TYPE_F16>>(a, launch);
    } else {
        launch_lanes<Format<GGML_TYPE_Q8_0>>(a, launch);
    }
    if (a.splits > 1 && !has_tickets(a, launch)) merge_splits(a, launch);
}

}  // namespace

const Kernel kAttentionDecode{"attention_decode", GGML_OP_FLASH_ATTN_EXT, objection, scratch,
                              launch_decode};

}  // namespace heddle::cuda
