#include "backends/cuda/kernels/attention/attention_wgmma.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "ggml/op_list.h"
#include "ops/flash_attn.hpp"

/// The row of attention with many rows on Hopper. Other devices get `attention_mma`.
namespace heddle::cuda {
namespace {

using Small = AttentionRings<64>;
using Large = AttentionRings<128>;

std::string_view objection(const Tensor& node) {
    if (const auto reason = kAttentionMma.objection(node); !reason.empty()) return reason;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (k.ne[0] != v.ne[0] || (k.ne[0] != 64 && k.ne[0] != 128))
        return "head sizes are not both 64 or both 128";
    if (q.ne[1] * q.ne[2] / k.ne[2] < Large::kRows / 2) return "too few rows";
    if (!has_aligned_strides(q, 16)) return "rows of q do not begin at multiples of 16 bytes";
    if (k.ne[1] > std::int64_t{Large::kMostTiles} * Large::kKeys) return "more than 131072 keys";
    if (!(unpack<ops::FlashAttnExt::Params>(node).scale >= 0)) return "the scale is negative";
    const Tensor* mask = node.src[3];
    if (mask != nullptr && (!has_aligned_strides(*mask, 16) || k.ne[1] % 8 != 0))
        return "rows of the mask are no multiples of 16 bytes";
    return {};
}

AttentionArguments arguments_of(const Tensor& node, const DeviceFacts& device, std::byte* partial) {
    return attention_arguments(node, Large::kRows, Large::kKeys, device, partial, 1);
}

/// Parts of the scratch memory: keys, values, what the mask does, partial results.
struct Parts {
    std::size_t values, masks, partial;

    Parts(const Tensor& node, const AttentionArguments& a)
        : values(halves_bytes(*node.src[1])),
          masks(values + halves_bytes(*node.src[2])),
          partial(masks + summary_bytes(a)) {}

    static std::size_t summary_bytes(const AttentionArguments& a) {
        const std::int64_t count = MaskSummaries(a, nullptr).count(a);
        return (static_cast<std::size_t>(count) * sizeof(MaskSummary) + 255) / 256 * 256;
    }
};

/// Whether there is a mask is known before it has memory.
AttentionArguments planned_arguments(const Tensor& node, const DeviceFacts& device) {
    static constexpr std::uint8_t kSomewhere = 0;
    AttentionArguments a = arguments_of(node, device, nullptr);
    if (node.src[3] != nullptr) a.mask.data = &kSomewhere;
    return a;
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    const AttentionArguments a = planned_arguments(node, device);
    const std::size_t own = Parts(node, a).partial + partial_bytes(a);
    const std::size_t other = kAttentionMma.scratch(node, device);
    return own > other ? own : other;
}

/// Heads and sequences of keys or values, in columns of 64 elements.
bool describe(const Tensor& t, const AttentionOperand& operand, CUtensorMap& map) {
    return make_tensor_map({.data = operand.data,
                            .units = t.ne[0],
                            .rows = t.ne[1],
                            .matrices = t.ne[2],
                            .sequences = t.ne[3],
                            .row_stride = operand.stride1,
                            .matrix_stride = operand.stride2,
                            .sequence_stride = operand.stride3,
                            .box_units = 64,
                            .box_rows = Large::kKeys,
                            .is_swizzled = true},
                           map);
}

template <class R>
void launch_size(const WgmmaAttention& w, const Launch& launch) {
    cudaFuncSetAttribute(attention_wgmma<R>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         R::kShared);
    attention_wgmma<R><<<static_cast<unsigned>(attention_blocks(w.a, R::kRows)), R::kThreads,
                         R::kShared, launch.stream>>>(w);
}

void launch_wgmma(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Tensor* mask = node.src[3];
    const bool is_placed = is_aligned(q.data, 16) && (!is_ready(k) || is_aligned(k.data, 16)) &&
                           (!is_ready(v) || is_aligned(v.data, 16)) &&
                           (mask == nullptr || is_aligned(mask->data, 16));
    if (!has_wgmma(launch.device) || !is_placed) return kAttentionMma.launch(node, launch);
    const Parts parts(node, planned_arguments(node, launch.device));
    std::byte* const room = launch.scratch;
    const AttentionArguments a = arguments_of(node, launch.device, room + parts.partial);
    WgmmaAttention w{a, {}, {}, MaskSummaries(a, room + parts.masks)};
    const AttentionOperand keys = as_halves(k, a.k, room, launch);
    const AttentionOperand values = as_halves(v, a.v, room + parts.values, launch);
    if (!describe(k, keys, w.keys) || !describe(v, values, w.values))
        return kAttentionMma.launch(node, launch);
    if (const std::int64_t count = w.masks.count(a); count > 0)
        summarize_mask<<<static_cast<unsigned>((count + 7) / 8), 256, 0, launch.stream>>>(
            a, w.masks, count);
    if (w.a.value_size == 64)
        launch_size<Small>(w, launch);
    else
        launch_size<Large>(w, launch);
    if (w.a.splits > 1) merge_splits(w.a, launch);
}

}  // namespace

const Kernel kAttentionWgmma{"attention_wgmma", GGML_OP_FLASH_ATTN_EXT, objection, scratch,
                             launch_wgmma};

}  // namespace heddle::cuda
