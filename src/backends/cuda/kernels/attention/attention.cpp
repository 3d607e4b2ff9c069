#include "backends/cuda/kernels/attention/attention.hpp"

#include <cmath>
#include <cstdint>

#include "ops/flash_attn.hpp"
#include "quant/codec.hpp"

namespace heddle::cuda {
namespace {

constexpr std::int64_t kLargestHead = 576;

AttentionOperand operand_of(const Tensor* t) {
    if (t == nullptr) return {nullptr, 0, 0, 0, GGML_TYPE_F16};
    const auto stride = [&](int d) { return static_cast<std::int64_t>(t->nb[d]); };
    return {static_cast<const std::uint8_t*>(t->data), stride(1), stride(2), stride(3), t->type};
}

std::int64_t common_divisor(std::int64_t a, std::int64_t b) {
    while (b != 0) {
        const std::int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

bool has_decoder(ggml_type type) {
    return type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
           quant::codec_of(type) != nullptr;
}

/// As many splits of the keys as fill the device once, each a few tiles at least. Depends on
/// shapes alone, so that results do not change from run to run.
void split_keys(AttentionArguments& a, int rows_per_tile, int keys_per_tile, int most_blocks,
                const DeviceFacts& device) {
    const std::int64_t tiles = (a.keys + keys_per_tile - 1) / keys_per_tile;
    a.splits = 1;
    const std::int64_t blocks = attention_blocks(a, rows_per_tile);
    // With few keys one block a multiprocessor: more would only make more partial results to join.
    const std::int64_t per_multiprocessor = a.keys > 1024 ? most_blocks : 1;
    const std::int64_t wanted =
        blocks > 0 ? per_multiprocessor * device.multiprocessors / blocks : 1;
    const std::int64_t most = (tiles + 1) / 2;
    std::int64_t splits = wanted < most ? wanted : most;
    if (splits < 1) splits = 1;
    const std::int64_t share = tiles == 0 ? 1 : (tiles + splits - 1) / splits;
    a.share = share * keys_per_tile;
    a.splits = static_cast<int>(tiles == 0 ? 1 : (tiles + share - 1) / share);
}

}  // namespace

std::int64_t attention_blocks(const AttentionArguments& a, int rows_per_tile) {
    return (a.rows() + rows_per_tile - 1) / rows_per_tile * a.groups * a.sequences * a.splits;
}

bool is_one_wave(const Tensor& node, const Kernel& kernel, const DeviceFacts& device) {
    const DecodeShare* const share = kernel.launch == kAttentionRing.launch     ? &kRingShare
                                     : kernel.launch == kAttentionToken.launch  ? &kTokenShare
                                     : kernel.launch == kAttentionDecode.launch ? &kDecodeShare
                                                                                : nullptr;
    if (share == nullptr) return false;
    const AttentionArguments a = attention_arguments(node, *share, device, nullptr);
    return attention_blocks(a, share->rows) <= device.multiprocessors;
}

bool can_pass(const Tensor& node, const Kernel& kernel) {
    if (kernel.launch != kAttentionToken.launch) return false;
    const DeviceFacts none{};
    const AttentionArguments a = attention_arguments(node, kTokenShare, none, nullptr);
    // Eight lanes of a whole warp code 32 elements of a head.
    const bool are_whole = a.rows() * a.value_size % 128 == 0;
    for (const Tensor* t : {node.src[0], node.src[1], node.src[2]})
        if (reinterpret_cast<std::uintptr_t>(t->data) % 16 != 0) return false;
    return a.queries == 1 && a.sequences == 1 && a.groups <= kTickets && are_whole &&
           (a.value_size == 64 || a.value_size == 128) && a.key_size <= a.value_size;
}

std::size_t partial_bytes(const AttentionArguments& a) {
    if (a.splits == 1) return 0;
    return static_cast<std::size_t>(a.sequences * a.queries * a.heads * a.splits *
                                    partial_floats(a.value_size)) *
           sizeof(float);
}

AttentionArguments attention_arguments(const Tensor& node, int rows_per_tile, int keys_per_tile,
                                       const DeviceFacts& device, std::byte* partial,
                                       int most_blocks) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    const auto params = unpack<ops::FlashAttnExt::Params>(node);
    AttentionArguments a{};
    a.q = operand_of(&q);
    a.k = operand_of(&k);
    a.v = operand_of(&v);
    a.mask = operand_of(node.src[3]);
    a.sinks = node.src[4] != nullptr ? static_cast<const float*>(node.src[4]->data) : nullptr;
    a.y = static_cast<float*>(node.data);
    a.key_size = static_cast<int>(k.ne[0]);
    a.value_size = static_cast<int>(v.ne[0]);
    a.queries = q.ne[1];
    a.keys = k.ne[1];
    a.heads = q.ne[2];
    a.sequences = q.ne[3];
    a.heads_per_key = q.ne[2] / k.ne[2];
    a.heads_per_value = q.ne[2] / v.ne[2];
    a.group_heads = common_divisor(a.heads_per_key, a.heads_per_value);
    a.groups = a.heads / a.group_heads;
    a.mask2 = node.src[3] != nullptr ? node.src[3]->ne[2] : 1;
    a.mask3 = node.src[3] != nullptr ? node.src[3]->ne[3] : 1;
    a.scale = params.scale;
    a.softcap = params.logit_softcap;
    if (params.max_bias > 0) {
        a.slope_heads = 1;
        while (2 * a.slope_heads <= a.heads) a.slope_heads *= 2;
        a.slope_step = -params.max_bias / static_cast<float>(a.slope_heads);
    }
    split_keys(a, rows_per_tile, keys_per_tile, most_blocks, device);
    a.partial = reinterpret_cast<float*>(partial);
    return a;
}

std::string_view attention_objection(const Tensor& node) {
    const Tensor &q = *node.src[0], &k = *node.src[1], &v = *node.src[2];
    if (q.type != GGML_TYPE_F32) return "q is not f32";
    if (!has_decoder(k.type) || !has_decoder(v.type)) return "the type of k or v has no decoder";
    if (k.ne[0] % 8 != 0 || v.ne[0] % 8 != 0) return "a head size is no multiple of 8";
    if (k.ne[0] > kLargestHead || v.ne[0] > kLargestHead) return "a head size is above 576";
    if (k.ne[1] != v.ne[1]) return "k and v differ in length";
    if (k.ne[2] == 0 || v.ne[2] == 0 || q.ne[2] % k.ne[2] != 0 || q.ne[2] % v.ne[2] != 0)
        return "heads of k or v do not divide those of q";
    if (q.ne[1] * q.ne[2] * q.ne[3] > INT32_MAX) return "more rows than 32 bits count";
    for (const Tensor* t : {&q, &k, &v})
        if (t->nb[0] != size_of(t->type)) return "rows of q, k or v are not dense";
    if (node.type != GGML_TYPE_F32 || !is_contiguous(node)) return "the result is not dense f32";
    const Tensor* mask = node.src[3];
    if (mask != nullptr) {
        if (mask->type != GGML_TYPE_F16 || mask->nb[0] != 2) return "the mask is not dense f16";
        if (mask->ne[0] < k.ne[1] || mask->ne[1] < q.ne[1]) return "the mask is too small";
        if (mask->ne[2] == 0 || mask->ne[3] == 0) return "the mask is empty";
    }
    if (node.src[4] != nullptr && (node.src[4]->type != GGML_TYPE_F32 || node.src[4]->nb[0] != 4))
        return "sinks are not dense f32";
    return {};
}

}  // namespace heddle::cuda
