#pragma once

#include "backends/cuda/kernels/attention/attention_ring.cuh"
#include "backends/cuda/kernels/attention/attention_ring.hpp"
#include "backends/cuda/kernels/attention/merge.cuh"
#include "backends/cuda/kernels/chain.cuh"

/// The kernel of `attention_ring` and its launch, for the types that a source instantiates.
namespace heddle::cuda {
namespace {

/// What all warps know of four elements of a row, in order, to the result or to this split's
/// partial one.
template <class L>
__device__ void finish_block(const AttentionArguments& a, const AttentionTile& place,
                             const float* shared) {
    constexpr int kNext = L::kRows * L::kEntry;
    const int rows = static_cast<int>(a.rows());
    for (int i = threadIdx.x; i < rows * L::kSize; i += L::kThreads) {
        const int r = i / L::kSize, d = i % L::kSize;
        if (d >= a.value_size) continue;
        const float* const entries = shared + r * L::kEntry;
        float largest = -INFINITY, total = 0, sum = 0;
#pragma unroll
        for (int w = 0; w < L::kWarps; ++w)
            largest = fmaxf(largest, entries[w * kNext + L::kSize + 1]);
#pragma unroll
        for (int w = 0; w < L::kWarps; ++w) {
            const float* const entry = entries + w * kNext;
            if (entry[L::kSize] == 0) continue;
            const float factor = exp2f(entry[L::kSize + 1] - largest);
            total += entry[L::kSize] * factor;
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

template <class L>
__global__ void __launch_bounds__(L::kThreads, 1)
    attention_ring(const __grid_constant__ RingAttention w, unsigned* tickets) {
    extern __shared__ std::uint8_t dynamic[];
    __shared__ std::uint64_t full[L::kWarps][L::kStages];
    std::uint8_t* const shared = dynamic + (1024 - shared_address(dynamic) % 1024) % 1024;
    const AttentionArguments& a = w.a;
    chain_trigger();
    if (blockIdx.x >= a.groups * a.sequences * a.splits) return chain_wait();
    if (threadIdx.x == 0) prefetch_tensor_map(&w.keys.map), prefetch_tensor_map(&w.values.map);
    const AttentionTile place(a, L::kRows);
    const int number = threadIdx.x / 32;
    KeyRing<L> ring(w, place, shared, full[number]);
    const int end = static_cast<int>(place.last_key);
    int first = static_cast<int>(place.first_key) + number * L::kKeys;
    chain_wait();
    const typename RingWarp<L>::Query query(a, place);  // before memory has more to do
    for (int stage = 0; stage < L::kStages; ++stage)
        if (first + stage * L::kStep < end) ring.copy(first + stage * L::kStep, stage);
    RingWarp<L> warp(a, place, query);
    __syncwarp();  // barriers are initialised
    RingPlace<L::kStages> at;
    for (; first < end; first += L::kStep) {
        ring.wait(at);
        warp.add(ring.keys(at.stage), ring.values(at.stage), {ring.masks(at.stage), end - first});
        __syncwarp();
        if (first + L::kStages * L::kStep < end) ring.copy(first + L::kStages * L::kStep, at.stage);
        at.advance();
    }
    __syncthreads();
    auto* const entries = reinterpret_cast<float*>(shared);
    warp.leave(entries + number * L::kRows * L::kEntry);
    __syncthreads();
    finish_block<L>(a, place, entries);
    if (a.splits == 1 || tickets == nullptr) return;
    if (!is_last_block(tickets + blockIdx.x / a.splits, static_cast<unsigned>(a.splits))) return;
    merge_group(a, place, entries);
}

/// False if the copy engine or the kernel cannot read them as they lie.
template <class L>
bool describe(const Tensor& t, RingOperand& operand) {
    const auto stride = [&](int d) { return static_cast<std::int64_t>(t.nb[d]); };
    const bool in_rows = are_heads_in_rows(t);
    const auto bytes = static_cast<int>(row_size(t.type, t.ne[0]));
    operand.first_byte = static_cast<int>(reinterpret_cast<std::uintptr_t>(t.data) % 16);
    operand.head_bytes = in_rows ? static_cast<int>(t.nb[2]) : 0;
    operand.head_matrices = in_rows ? 0 : 1;
    for (int head = 0; head < 16; ++head) {
        const int phase = operand.phase(head);
        if (phase % (L::kIsHalf ? 16 : 4) != 0 || phase + bytes > L::kBoxes * L::kPitch)
            return false;
    }
    const std::int64_t last_head = in_rows ? (t.ne[2] - 1) * stride(2) : 0;
    return make_tensor_map({.data = static_cast<const std::byte*>(t.data) - operand.first_byte,
                            .units = (operand.first_byte + last_head + bytes) / 2,
                            .rows = t.ne[1],
                            .matrices = in_rows ? 1 : t.ne[2],
                            .sequences = t.ne[3],
                            .row_stride = stride(1),
                            .matrix_stride = in_rows ? stride(3) : stride(2),
                            .sequence_stride = stride(3),
                            .box_units = L::kPitch / 2,
                            .box_rows = L::kKeys,
                            .is_swizzled = L::kIsHalf},
                           operand.map);
}

template <ggml_type kType, int kSize, Low kLow>
bool launch_layout(const Tensor& node, const AttentionArguments& a, const Launch& launch) {
    using L = RingLayout<kType, kSize, kLow>;
    RingAttention w{a, {}, {}};
    if (!describe<L>(*node.src[1], w.keys) || !describe<L>(*node.src[2], w.values)) return false;
    constexpr std::size_t kUsed = L::kUsed + 1024;
    constexpr std::size_t kShared = kUsed > kChainShared ? kUsed : kChainShared;
    const auto kernel = attention_ring<L>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(kShared));
    const std::int64_t blocks = attention_blocks(a, 8), most = launch.device.multiprocessors;
    start(launch, kernel, static_cast<unsigned>(blocks > most ? blocks : most), L::kThreads,
          kShared, w, has_tickets(a, launch) ? launch.tickets : nullptr);
    return true;
}

template <ggml_type kType, int kSize>
bool launch_size(const Tensor& node, const AttentionArguments& a, const Launch& launch) {
    if (a.rows() <= 4) return launch_layout<kType, kSize, Low::beside>(node, a, launch);
    if constexpr (kType != GGML_TYPE_F16)
        return launch_layout<kType, kSize, Low::none>(node, a, launch);
    else if constexpr (kSize <= 128)
        return launch_layout<kType, kSize, Low::apart>(node, a, launch);
    else
        return false;
}

}  // namespace

template <ggml_type kType>
bool launch_ring(const Tensor& node, const AttentionArguments& a, const Launch& launch) {
    const int size = a.key_size > a.value_size ? a.key_size : a.value_size;
    if (size <= 64) return launch_size<kType, 64>(node, a, launch);
    if (size <= 128) return launch_size<kType, 128>(node, a, launch);
    return launch_size<kType, 256>(node, a, launch);
}

}  // namespace heddle::cuda
