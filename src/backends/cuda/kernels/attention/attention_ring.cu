#include "backends/cuda/kernels/attention/attention_ring_launch.cuh"
#include "backends/cuda/kernels/products/operands.cuh"
#include "ggml/op_list.h"

/// Attention of at most eight rows that share many keys, or keys of a block format, on Hopper: it
/// takes as long as reading them once.
///
/// Each warp has a ring of its own in shared memory, which the copy engine fills. Warps join what
/// they know there, blocks that have different keys in global memory: the last one does.
namespace heddle::cuda {

template bool launch_ring<GGML_TYPE_F16>(const Tensor&, const AttentionArguments&, const Launch&);
template bool launch_ring<GGML_TYPE_Q8_0>(const Tensor&, const AttentionArguments&, const Launch&);
template bool launch_ring<GGML_TYPE_Q4_0>(const Tensor&, const AttentionArguments&, const Launch&);

namespace {

constexpr std::int64_t kLeastHalfKeys = 4096;  ///< F16; `attention_token` starts faster

using LaunchOfType = bool (*)(const Tensor&, const AttentionArguments&, const Launch&);

/// Null: not for this type.
LaunchOfType launch_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16:
            return launch_ring<GGML_TYPE_F16>;
        case GGML_TYPE_Q8_0:
            return launch_ring<GGML_TYPE_Q8_0>;
        case GGML_TYPE_Q5_1:
            return launch_ring<GGML_TYPE_Q5_1>;
        case GGML_TYPE_Q5_0:
            return launch_ring<GGML_TYPE_Q5_0>;
        case GGML_TYPE_Q4_1:
            return launch_ring<GGML_TYPE_Q4_1>;
        case GGML_TYPE_Q4_0:
            return launch_ring<GGML_TYPE_Q4_0>;
        case GGML_TYPE_IQ4_NL:
            return launch_ring<GGML_TYPE_IQ4_NL>;
        default:
            return nullptr;
    }
}

/// Whether the copy engine can read keys or values as they lie.
bool has_boxes(const Tensor& t) {
    return t.nb[1] % 16 == 0 && t.nb[3] % 16 == 0 && t.nb[2] % (are_heads_in_rows(t) ? 2 : 16) == 0;
}

std::int64_t rows_of(const Tensor& node) {
    return attention_arguments(node, kRingShare, DeviceFacts{}, nullptr).rows();
}

std::string_view objection(const Tensor& node) {
    if (const auto reason = attention_objection(node); !reason.empty()) return reason;
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (k.type != v.type) return "keys and values have different types";
    const bool is_half = k.type == GGML_TYPE_F16;
    if (launch_of(k.type) == nullptr) return "keys are neither f16 nor of blocks of 32";
    if (rows_of(node) > (is_half && k.ne[0] > 128 ? 4 : 8)) return "too many rows share keys";
    for (const Tensor* t : {&k, &v})
        if (is_half ? t->ne[0] > 256 : t->ne[0] != 64 && t->ne[0] != 128 && t->ne[0] != 256)
            return is_half ? "a head size is above 256" : "a head size is not 64, 128 or 256";
    if (!is_half && k.ne[0] != v.ne[0]) return "heads of keys and values differ in size";
    if (is_half && k.ne[1] < kLeastHalfKeys) return "fewer than 4096 keys";
    if (!has_boxes(k) || !has_boxes(v))
        return "rows of keys or values are no multiples of 16 bytes";
    if (!has_aligned_strides(q, 16)) return "rows of q do not begin at multiples of 16 bytes";
    const Tensor* mask = node.src[3];
    if (mask != nullptr && !has_whole_mask_pieces(*mask, k.ne[1]))
        return "rows of the mask are no multiples of 16 bytes";
    return {};
}

/// The row that runs the node elsewhere.
const Kernel& other_row(const Tensor& node) {
    for (const Kernel* row : {&kAttentionToken, &kAttentionDecode, &kAttentionMma})
        if (row->objection(node).empty()) return *row;
    return kAttentionGeneric;
}

std::size_t scratch(const Tensor& node, const DeviceFacts& device) {
    const std::size_t own = partial_bytes(attention_arguments(node, kRingShare, device, nullptr)),
                      other = other_row(node).scratch(node, device);
    return own > other ? own : other;
}

void launch(const Tensor& node, const Launch& launch) {
    if (is_empty(node)) return;
    const Tensor* mask = node.src[3];
    const bool is_placed =
        is_aligned(node.src[0]->data, 16) && (mask == nullptr || is_aligned(mask->data, 16));
    if (launch.device.architecture < 900 || !is_placed) return other_row(node).launch(node, launch);
    const AttentionArguments a =
        attention_arguments(node, kRingShare, launch.device, launch.scratch);
    if (!launch_of(a.k.type)(node, a, launch)) return other_row(node).launch(node, launch);
    if (a.splits > 1 && !has_tickets(a, launch)) merge_splits(a, launch);
}

}  // namespace

const Kernel kAttentionRing{"attention_ring", GGML_OP_FLASH_ATTN_EXT, objection, scratch, launch};

}  // namespace heddle::cuda
