#include "backends/cuda/formats/all.cuh"
#include "backends/cuda/kernels/attention/attention.cuh"
#include "ggml/op_list.h"

/// Attention in f32 for any head size and any types of keys and values.
namespace heddle::cuda {
namespace {

constexpr int kRows = 8, kKeys = 32, kThreads = 32 * kRows;
constexpr int kMostParts = 5;  ///< of 128 values: heads of up to 640
constexpr float kLog2E = 1.4426950408889634f;

/// Eight elements of a row whose type is known at run time only.
__device__ __noinline__ void decode8_any(ggml_type type, const std::uint8_t* row, int i,
                                         float (&y)[8]) {
    dispatch_format(type, [&](auto format) { decode8_of_row<decltype(format)>(row, i, y); });
}

/// Rows of keys or values from `first` on, decoded; rows from `end` on are zeros.
__device__ void load_tile(const AttentionOperand& from, const std::uint8_t* head, int size,
                          std::int64_t first, std::int64_t end, float* tile, int pitch) {
    const int parts = size / 8;
    for (int i = threadIdx.x; i < kKeys * parts; i += kThreads) {
        const int row = i / parts, at = i % parts * 8;
        float y[8] = {};
        if (first + row < end) decode8_any(from.type, head + (first + row) * from.stride1, at, y);
        float4* to = reinterpret_cast<float4*>(tile + row * pitch + at);
        to[0] = {y[0], y[1], y[2], y[3]};
        to[1] = {y[4], y[5], y[6], y[7]};
    }
}

__device__ float dot(const float* a, const float* b, int n) {
    float sum[4] = {};
    for (int i = 0; i < n; i += 4) {
        const float4 x = *reinterpret_cast<const float4*>(a + i);
        const float4 y = *reinterpret_cast<const float4*>(b + i);
        sum[0] += x.x * y.x, sum[1] += x.y * y.y, sum[2] += x.z * y.z, sum[3] += x.w * y.w;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

__device__ float warp_max(float v) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, s));
    return v;
}
__device__ float warp_sum(float v) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    return v;
}

/// A warp has one row: a lane scores one key of 32, then holds four values of every 128.
__global__ void __launch_bounds__(kThreads) attention_generic(AttentionArguments a) {
    extern __shared__ __align__(16) float shared[];
    const int pitch = max(a.key_size, a.value_size) + 4;
    float* queries = shared;                    // kRows of key_size
    float* tile = shared + kRows * a.key_size;  // kKeys of pitch
    const AttentionTile place(a, kRows);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const std::int64_t row_number = place.first_row + warp;
    const bool has_row = row_number < a.rows();
    const AttentionRow row(a, place.group, has_row ? row_number : a.rows() - 1);
    const std::int64_t first_head = place.group * a.group_heads;
    const std::uint8_t* keys =
        a.k.data + first_head / a.heads_per_key * a.k.stride2 + place.sequence * a.k.stride3;
    const std::uint8_t* values =
        a.v.data + first_head / a.heads_per_value * a.v.stride2 + place.sequence * a.v.stride3;

    const auto* q = reinterpret_cast<const float*>(
        a.q.data + row.query * a.q.stride1 + row.head * a.q.stride2 + place.sequence * a.q.stride3);
    for (int d = lane; d < a.key_size; d += 32) queries[warp * a.key_size + d] = q[d] * a.scale;
    const float slope = slope_of(a, row.head);
    float largest = -INFINITY, total = 0;
    float4 sums[kMostParts] = {};

    for (std::int64_t first = place.first_key; first < place.last_key; first += kKeys) {
        const std::int64_t key = first + lane;
        float bias = has_row && key < place.last_key ? 0.0f : -INFINITY;
        if (a.mask.data != nullptr && bias == 0) {
            bias = load_half(row.mask(a, place.sequence) + 2 * key);
            if (bias != -INFINITY) bias *= slope;
        }
        if (__syncthreads_or(bias != -INFINITY) == 0) continue;
        load_tile(a.k, keys, a.key_size, first, place.last_key, tile, pitch);
        __syncthreads();
        float score = -INFINITY;
        if (bias != -INFINITY) {
            score = dot(queries + warp * a.key_size, tile + lane * pitch, a.key_size);
            if (a.softcap != 0) score = a.softcap * tanhf(score / a.softcap);
            score = (score + bias) * kLog2E;
        }
        const float top = fmaxf(largest, warp_max(score));
        const float weight = top == -INFINITY ? 0.0f : exp2f(score - top);
        const float shrink = top == -INFINITY ? 1.0f : exp2f(largest - top);
        largest = top;
        total = total * shrink + warp_sum(weight);
        __syncthreads();
        load_tile(a.v, values, a.value_size, first, place.last_key, tile, pitch);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < kMostParts; ++p) {
            sums[p].x *= shrink, sums[p].y *= shrink, sums[p].z *= shrink, sums[p].w *= shrink;
        }
        for (int j = 0; j < kKeys; ++j) {
            const float w = __shfl_sync(0xffffffffu, weight, j);
            if (w == 0) continue;  // what is masked may be anything, even NaN
#pragma unroll
            for (int p = 0; p < kMostParts; ++p) {
                const int d = 128 * p + 4 * lane;
                if (d >= a.value_size) break;
                const float4 v = *reinterpret_cast<const float4*>(tile + j * pitch + d);
                sums[p].x += w * v.x, sums[p].y += w * v.y;
                sums[p].z += w * v.z, sums[p].w += w * v.w;
            }
        }
        __syncthreads();
    }
    if (!has_row) return;
    const std::int64_t number = row.number(a, place.sequence);
    float* to = a.y + number * a.value_size;
    float factor = 1;
    if (a.splits > 1) {
        to = a.partial + (number * a.splits + place.split) * partial_floats(a.value_size);
        if (lane == 0) {
            to[a.value_size] = total;
            to[a.value_size + 1] = largest;
        }
    } else {
        factor = finish_row(largest, total, a.sinks, row.head);
    }
#pragma unroll
    for (int p = 0; p < kMostParts; ++p) {
        const int d = 128 * p + 4 * lane;
        if (d >= a.value_size) break;
        to[d] = sums[p].x * factor, to[d + 1] = sums[p].y * factor;
        to[d + 2] = sums[p].z * factor, to[d + 3] = sums[p].w * factor;
    }
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    return partial_bytes(attention_arguments(node, kRows, kKeys, device, nullptr));
}

void launch_generic(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const AttentionArguments a =
        attention_arguments(node, kRows, kKeys, launch.device, launch.scratch);
    const int pitch = (a.key_size > a.value_size ? a.key_size : a.value_size) + 4;
    const int shared = (kRows * a.key_size + kKeys * pitch) * static_cast<int>(sizeof(float));
    cudaFuncSetAttribute(attention_generic, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    attention_generic<<<static_cast<unsigned>(attention_blocks(a, kRows)), kThreads,
                        static_cast<std::size_t>(shared), launch.stream>>>(a);
    if (a.splits > 1) merge_splits(a, launch);
}

}  // namespace

const Kernel kAttentionGeneric{"attention_generic", GGML_OP_FLASH_ATTN_EXT, attention_objection,
                               scratch, launch_generic};

void launch_unsplit(const Tensor& node, const Launch& launch) {
    DeviceFacts device = launch.device;
    device.multiprocessors = 0;
    launch_generic(node, {launch.stream, launch.scratch, device});
}

}  // namespace heddle::cuda
