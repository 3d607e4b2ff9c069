#include "backends/cuda/kernels/attention/attention_token.cuh"
#include "backends/cuda/kernels/attention/merge.cuh"
#include "backends/cuda/kernels/chain.cuh"
#include "ggml/op_list.h"

/// Attention of at most eight rows that share keys and values of F16, on tensor cores: as in
/// decoding, reading them once is most of the work.
///
/// A warp takes sixteen keys at a time. Warps join what they know in shared memory, blocks that
/// have different keys in global memory: the last one does.
namespace heddle::cuda {
namespace {

constexpr int kRows = kTokenRows, kKeys = kTokenKeys;
constexpr int kWarps = 4, kThreads = 32 * kWarps;
/// Registers of a thread that leave room for a block of `gemv_column`: a quarter of a
/// multiprocessor has four of its warps at 72.
constexpr int kRegisters = 224;

/// Room for what a warp knows of a row: sums, their weight, the largest logit.
template <int kSize>
constexpr int kEntry = kSize + 2;

template <int kSize>
__device__ void leave_sums(const TokenWarp<kSize>& warp, float* shared) {
    using W = TokenWarp<kSize>;
    float total = warp.total;
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    float* to = shared + (threadIdx.x / 32 * kRows + W::group()) * kEntry<kSize>;
#pragma unroll
    for (int n = 0; n < 8 * W::kValuePieces; ++n) {
        const int at = n / 8 * 64 + n % 8 + 16 * W::place();
        to[at] = warp.sums[n][0] + warp.sums[n][2];
        to[at + 8] = warp.sums[n][1] + warp.sums[n][3];
    }
    if (W::place() == 0) to[kSize] = total, to[kSize + 1] = warp.largest;
}

/// What all warps know of four elements of a row, from element d on.
struct Weighed {
    float4 sum{0, 0, 0, 0};
    float total = 0, largest = -INFINITY;

    /// Of warps that know of different keys, in order. `entry` is the row's of the first one.
    template <int kSize>
    __device__ static Weighed join(const float* entry, int d) {
        constexpr int kNext = kRows * kEntry<kSize>;
        Weighed all;
#pragma unroll
        for (int w = 0; w < kWarps; ++w)
            all.largest = fmaxf(all.largest, entry[w * kNext + kSize + 1]);
#pragma unroll
        for (int w = 0; w < kWarps; ++w, entry += kNext) {
            if (entry[kSize] == 0) continue;
            const float factor = exp2f(entry[kSize + 1] - all.largest);
            all.total += entry[kSize] * factor;
            all.sum.x += entry[d] * factor, all.sum.y += entry[d + 1] * factor;
            all.sum.z += entry[d + 2] * factor, all.sum.w += entry[d + 3] * factor;
        }
        return all;
    }
    __device__ void store(float* to, float factor) const {
        to[0] = sum.x * factor, to[1] = sum.y * factor;
        to[2] = sum.z * factor, to[3] = sum.w * factor;
    }
};

/// To the result, or to this split's partial one.
template <int kSize>
__device__ void finish_block(const AttentionArguments& a, const AttentionTile& place,
                             const float* shared) {
    const int rows = static_cast<int>(a.rows());
    for (int i = threadIdx.x; i < rows * (kSize / 4); i += kThreads) {
        const int r = i / (kSize / 4), d = i % (kSize / 4) * 4;
        if (d >= a.value_size) continue;
        const Weighed all = Weighed::join<kSize>(shared + r * kEntry<kSize>, d);
        const AttentionRow row(a, place.group, r);
        const std::int64_t number = row.number(a, place.sequence);
        if (a.splits == 1) {
            const float factor = finish_row(all.largest, all.total, a.sinks, row.head);
            if (a.codes != nullptr)
                pass_four({all.sum.x * factor, all.sum.y * factor, all.sum.z * factor,
                           all.sum.w * factor},
                          a.heads * a.value_size, static_cast<int>(number) * a.value_size + d,
                          a.codes);
            all.store(a.y + number * a.value_size + d, factor);
            continue;
        }
        float* to = a.partial + (number * a.splits + place.split) * partial_floats(a.value_size);
        all.store(to + d, 1);
        if (d == 0) to[a.value_size] = all.total, to[a.value_size + 1] = all.largest;
    }
}

/// Sixteen keys and values come into L2, the first ones while the kernel before still runs: nothing
/// is read, so it does not matter that it may still write some of them.
__device__ void prefetch_keys(const AttentionArguments& a, const TokenRows& rows,
                              std::int64_t first, std::int64_t end) {
    constexpr int kLine = 128;
    const int lane = threadIdx.x % 32;
    const std::int64_t key = first + lane % kKeys;
    if (key >= end) return;
    const std::uint8_t* at =
        lane < kKeys ? rows.keys + key * a.k.stride1 : rows.values + key * a.v.stride1;
    const int bytes = 2 * (lane < kKeys ? a.key_size : a.value_size);
    for (int i = 0; i < bytes; i += kLine) prefetch_to_l2(at + i);
}

template <int kSize>
__global__ void __maxnreg__(kRegisters)
    attention_token(const __grid_constant__ AttentionArguments a, unsigned* tickets) {
    extern __shared__ float shared[];
    chain_trigger();
    touch_arguments(a);
    if (blockIdx.x >= a.groups * a.sequences * a.splits) return keep_place();
    const AttentionTile place(a, kRows);
    const TokenRows rows(a, place);
    const std::int64_t end = place.last_key;
    std::int64_t first = place.first_key + threadIdx.x / 32 * kKeys;
    constexpr int kStep = kWarps * kKeys, kAhead = 2 * kStep;
    for (int ahead = 0; ahead < kAhead; ahead += kStep) prefetch_keys(a, rows, first + ahead, end);
    chain_wait();
    TokenWarp<kSize> warp;
    const typename TokenWarp<kSize>::Query query(a, place, rows.row);
    warp.load(a, rows, first, end);  // on their way while the query is rounded
    warp.take(query, a.scale);
    while (first < end) {
        prefetch_keys(a, rows, first + kAhead, end);
        float biases[4], scores[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) biases[i] = rows.bias(warp.masks[i]);
        warp.score(a, biases, scores);
        warp.weigh(scores);
        warp.hide_values(biases);
        warp.add_values(scores);
        first += kStep;
        if (first < end) warp.load(a, rows, first, end);
    }
    leave_sums(warp, shared);
    __syncthreads();
    finish_block<kSize>(a, place, shared);
    if (a.splits == 1 || tickets == nullptr) return;
    if (!is_last_block(tickets + blockIdx.x / a.splits, static_cast<unsigned>(a.splits))) return;
    merge_group(a, place, shared);
}

// ---- the row -----------------------------------------------------------------------------------

std::string_view objection(const Tensor& node) {
    if (const auto reason = attention_objection(node); !reason.empty()) return reason;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (k.type != GGML_TYPE_F16 || v.type != GGML_TYPE_F16) return "keys or values are not f16";
    if (k.ne[0] > 128 || v.ne[0] > 128) return "a head size is above 128";
    const DeviceFacts none{};
    if (attention_arguments(node, kTokenShare, none, nullptr).rows() > kRows)
        return "more than 8 rows share keys";
    for (const Tensor* t : {&q, &k, &v})
        for (int d = 1; d < 4; ++d)
            if (t->nb[d] % 16 != 0) return "rows are not aligned to 16 bytes";
    return {};
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    return partial_bytes(attention_arguments(node, kTokenShare, device, nullptr));
}

template <int kSize>
void launch_size(const AttentionArguments& a, unsigned* tickets, const Launch& launch) {
    constexpr std::size_t kEntries = kWarps * kRows * kEntry<kSize> * sizeof(float);
    static_assert(kEntries <= kChainShared);
    const auto kernel = attention_token<kSize>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int{kChainShared});
    const auto blocks = static_cast<unsigned>(attention_blocks(a, kRows));
    const auto most = static_cast<unsigned>(launch.device.multiprocessors);
    start(launch, kernel, blocks > most ? blocks : most, kThreads, kChainShared, a, tickets);
}

void launch_token(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    for (const Tensor* t : {node.src[0], node.src[1], node.src[2]})
        if (reinterpret_cast<std::uintptr_t>(t->data) % 16 != 0)
            return launch_unsplit(node, launch);
    AttentionArguments a = attention_arguments(node, kTokenShare, launch.device, launch.scratch);
    a.codes = launch.left.codes;
    unsigned* const tickets = has_tickets(a, launch) ? launch.tickets : nullptr;
    if (a.key_size <= 64 && a.value_size <= 64) {
        launch_size<64>(a, tickets, launch);
    } else {
        launch_size<128>(a, tickets, launch);
    }
    if (a.splits > 1 && tickets == nullptr) merge_splits(a, launch);
}

}  // namespace

const Kernel kAttentionToken{"attention_token", GGML_OP_FLASH_ATTN_EXT, objection, scratch,
                             launch_token};

}  // namespace heddle::cuda
