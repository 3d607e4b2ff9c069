#include "backends/cuda/kernels/attention/attention_wgmma.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "ggml/op_list.h"
#include "ops/flash_attn.hpp"

/// The row of attention with many rows on Hopper. Other devices get `attention_mma`.
namespace heddle::cuda {
namespace {

using Size64 = AttentionRings<64, 64, 128, 4>;
using Size96 = AttentionRings<96, 96, 128, 2>;
using Size128 = AttentionRings<128, 128, 128, 2>;
using Size192 = AttentionRings<192, 128, 64, 3>;
using Size256 = AttentionRings<256, 256, 64, 2>;

constexpr int kRows = Size128::kRows, kKeys = MaskSummary::kKeys;

std::string_view objection(const Tensor& node) {
    if (const auto reason = attention_objection(node); !reason.empty()) return reason;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (k.ne[0] > 256 || v.ne[0] > 256) return "a head size is above 256";
    for (const Tensor* t : {&k, &v})
        if (t->type == GGML_TYPE_F32 || t->type == GGML_TYPE_BF16)
            return "keys or values have a wider range than f16";
    if (q.ne[1] * q.ne[2] / k.ne[2] < kRows / 2) return "too few rows";
    if (!has_aligned_strides(q, 16)) return "rows of q do not begin at multiples of 16 bytes";
    if (!(unpack<ops::FlashAttnExt::Params>(node).scale > 0)) return "the scale is not positive";
    const Tensor* mask = node.src[3];
    if (mask != nullptr && !has_whole_mask_pieces(*mask, k.ne[1]))
        return "rows of the mask are no multiples of 16 bytes";
    return {};
}

AttentionArguments arguments_of(const Tensor& node, const DeviceFacts& device, std::byte* partial) {
    return attention_arguments(node, kRows, kKeys, device, partial, 1);
}

/// Parts of the scratch memory: keys, values, what the mask does, partial results.
struct Parts {
    std::size_t values, masks, partial;

    Parts(const Tensor& node, const AttentionArguments& a)
        : values(halves_bytes(*node.src[1])),
          masks(values + halves_bytes(*node.src[2])),
          partial(masks + summary_bytes(a)) {}

    static std::size_t summary_bytes(const AttentionArguments& a) {
        return (MaskSummaries(a, nullptr).bytes(a) + 255) / 256 * 256;
    }
};

/// Whether there is a mask is known before it has memory.
AttentionArguments planned_arguments(const Tensor& node, const DeviceFacts& device) {
    static constexpr std::uint8_t kSomewhere = 0;
    AttentionArguments a = arguments_of(node, device, nullptr);
    if (node.src[3] != nullptr) a.mask.data = &kSomewhere;
    return a;
}

/// What runs the node elsewhere, or null: the generic row, without splits.
const Kernel* other_row(const Tensor& node) {
    return kAttentionMma.objection(node).empty() ? &kAttentionMma : nullptr;
}

void launch_other(const Tensor& node, const Launch& launch) {
    const Kernel* const other = other_row(node);
    return other != nullptr ? other->launch(node, launch) : launch_unsplit(node, launch);
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    const AttentionArguments a = planned_arguments(node, device);
    const std::size_t own = Parts(node, a).partial + partial_bytes(a);
    const Kernel* const other = other_row(node);
    const std::size_t of_other = other != nullptr ? other->scratch(node, device) : 0;
    return own > of_other ? own : of_other;
}

/// Heads and sequences of keys or values, in columns of 64 elements.
bool describe(const Tensor& t, const AttentionOperand& operand, unsigned keys, CUtensorMap& map) {
    return make_tensor_map({.data = operand.data,
                            .units = t.ne[0],
                            .rows = t.ne[1],
                            .matrices = t.ne[2],
                            .sequences = t.ne[3],
                            .row_stride = operand.stride1,
                            .matrix_stride = operand.stride2,
                            .sequence_stride = operand.stride3,
                            .box_units = 64,
                            .box_rows = keys,
                            .is_swizzled = true},
                           map);
}

template <class R>
bool launch_size(const Tensor& node, const AttentionOperand& keys, const AttentionOperand& values,
                 WgmmaAttention& w, const Launch& launch) {
    if (!describe(*node.src[1], keys, R::kKeys, w.keys) ||
        !describe(*node.src[2], values, R::kKeys, w.values))
        return false;
    cudaFuncSetAttribute(attention_wgmma<R>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         R::kShared);
    const std::int64_t tiles = attention_blocks(w.a, R::kRows),
                       most = launch.device.multiprocessors;
    attention_wgmma<R><<<static_cast<unsigned>(tiles < most ? tiles : most), R::kThreads,
                         R::kShared, launch.stream>>>(w);
    return true;
}

void launch_wgmma(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const Tensor* mask = node.src[3];
    const bool is_placed = is_aligned(q.data, 16) && (!is_ready(k) || is_aligned(k.data, 16)) &&
                           (!is_ready(v) || is_aligned(v.data, 16)) &&
                           (mask == nullptr || is_aligned(mask->data, 16));
    if (!has_wgmma(launch.device) || !is_placed) return launch_other(node, launch);
    const Parts parts(node, planned_arguments(node, launch.device));
    std::byte* const room = launch.scratch;
    const AttentionArguments a = arguments_of(node, launch.device, room + parts.partial);
    WgmmaAttention w{a, {}, {}, MaskSummaries(a, room + parts.masks)};
    const AttentionOperand keys = as_halves(k, a.k, room, launch);
    const AttentionOperand values = as_halves(v, a.v, room + parts.values, launch);
    if (const std::int64_t count = w.masks.count(a); count > 0)
        summarize_mask<<<static_cast<unsigned>((count + 7) / 8), 256, 0, launch.stream>>>(
            a, w.masks, count);
    const int size = a.key_size > a.value_size ? a.key_size : a.value_size;
    const auto start_of = [&]<class R>() { return launch_size<R>(node, keys, values, w, launch); };
    const bool is_started = size <= 64    ? start_of.template operator()<Size64>()
                            : size <= 96  ? start_of.template operator()<Size96>()
                            : size <= 128 ? start_of.template operator()<Size128>()
                            : a.key_size <= 192 && a.value_size <= 128
                                ? start_of.template operator()<Size192>()
                                : start_of.template operator()<Size256>();
    if (!is_started) return launch_other(node, launch);
    if (w.a.splits > 1) merge_splits(w.a, launch);
}

}  // namespace

const Kernel kAttentionWgmma{"attention_wgmma", GGML_OP_FLASH_ATTN_EXT, objection, scratch,
                             launch_wgmma};

}  // namespace heddle::cuda
