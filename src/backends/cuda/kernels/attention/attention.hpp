#pragma once

#include "backends/cuda/kernel.hpp"

/// What the kernels of FLASH_ATTN_EXT share on the host: operands and how keys are split.
namespace heddle::cuda {

struct AttentionOperand {
    const std::uint8_t* data;
    std::int64_t stride1, stride2, stride3;  ///< bytes
    ggml_type type;
};

/// A group is the heads of queries that share a head of keys and a head of values. Its rows are
/// numbered query by query, heads running fastest: all of them meet the same keys and values.
struct AttentionArguments {
    AttentionOperand q, k, v, mask;  ///< mask.data is null if there is none
    const float* sinks;              ///< null: none
    float* y;
    int key_size, value_size;
    std::int64_t queries, keys, heads, sequences;
    std::int64_t group_heads, groups;  ///< heads of a group; groups of a sequence
    std::int64_t heads_per_key, heads_per_value;
    std::int64_t mask2, mask3;  ///< extents of the mask
    float scale, softcap;       ///< softcap 0: none
    float slope_step;           ///< of ALiBi, log2 of one head's slope over the one before; 0: none
    std::int64_t slope_heads;   ///< heads with that step, further ones are in between

    int splits;          ///< of the keys
    std::int64_t share;  ///< keys of a split
    float* partial;      ///< with several splits: see `partial_floats`

    std::uint8_t* codes;  ///< where the result goes besides, as an `Int8Column`; null: nowhere

    __host__ __device__ std::int64_t rows() const { return queries * group_heads; }
};

/// Sum of weights and largest logit of a row, and its weighted sum of values, from one split.
/// Row after row, split after split: value_size floats, then these two, at multiples of 16 bytes.
__host__ __device__ inline std::int64_t partial_floats(int value_size) { return value_size + 4; }

/// How rows and keys are shared out to blocks of `attention_ring`, `attention_token` and
/// `attention_decode`.
struct DecodeShare {
    int rows, keys;   ///< keys are split in multiples of twice these
    int most_blocks;  ///< on a multiprocessor
};
inline constexpr DecodeShare kTokenShare{8, 32, 1}, kDecodeShare{8, 16, 2}, kRingShare{8, 64, 1};

/// Reads a node. What one block takes, and how many of them a multiprocessor has at most, decides
/// how the keys are split.
AttentionArguments attention_arguments(const Tensor& node, int rows_per_tile, int keys_per_tile,
                                       const DeviceFacts& device, std::byte* partial,
                                       int most_blocks = 2);
inline AttentionArguments attention_arguments(const Tensor& node, const DecodeShare& share,
                                              const DeviceFacts& device, std::byte* partial) {
    return attention_arguments(node, share.rows, share.keys, device, partial, share.most_blocks);
}

/// Bytes of partial results; 0 without splits.
std::size_t partial_bytes(const AttentionArguments& a);

std::int64_t attention_blocks(const AttentionArguments& a, int rows_per_tile);

/// Whether blocks join their splits themselves.
inline bool has_tickets(const AttentionArguments& a, const Launch& launch) {
    return launch.tickets != nullptr && a.groups * a.sequences <= kTickets;
}

/// Whether one of these runs the node with at most one block on every multiprocessor.
bool is_one_wave(const Tensor& node, const Kernel& kernel, const DeviceFacts& device);

/// Whether the kernel can leave its result coded for the launch that follows.
bool can_pass(const Tensor& node, const Kernel& kernel);

/// Joins the splits of every row, in order.
void merge_splits(const AttentionArguments& a, const Launch& launch);

std::string_view attention_objection(const Tensor& node);

/// Whether rows of keys or values are f16 that can be copied by 16 bytes, as they are.
bool is_ready(const Tensor& t);

/// Bytes of keys or values as f16; 0 if they are ready.
std::size_t halves_bytes(const Tensor& t);

/// Keys or values as f16: `from` if they are ready, else decoded to `to`, where they lie densely.
AttentionOperand as_halves(const Tensor& t, const AttentionOperand& from, std::byte* to,
                           const Launch& launch);

/// Rows that strides and views say are aligned may lie at an odd address after all. The generic
/// kernel runs without splits then, since no memory was asked for them.
void launch_unsplit(const Tensor& node, const Launch& launch);

// The rows of attention_kernels(), one in each file.
extern const Kernel kAttentionRing, kAttentionToken, kAttentionDecode, kAttentionWgmma,
    kAttentionMma, kAttentionGeneric;

}  // namespace heddle::cuda
