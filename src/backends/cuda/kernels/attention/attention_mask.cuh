#pragma once

#include "backends/cuda/kernels/attention/attention.cuh"

/// What the mask does to a tile of rows and keys. It is read once, by a kernel of its own, for all
/// heads and before keys are copied.
namespace heddle::cuda {

enum class TileMask {
    unknown,
    hidden,  ///< -inf for all rows and keys
    open,    ///< 0 for all
    mixed,
};

/// Of a block of queries and a tile of keys.
struct MaskSummary {
    static constexpr int kQueries = 16, kKeys = 128;

    std::uint32_t visible[4];  ///< a bit for each key that some query sees
    std::uint32_t has_bias;    ///< somewhere it is not 0
    std::uint32_t unused[3];
};

/// Summaries of all matrices of a mask.
struct MaskSummaries {
    MaskSummary* data;
    std::int64_t blocks, tiles;  ///< of queries, of keys

    MaskSummaries(const AttentionArguments& a, std::byte* at)
        : data(reinterpret_cast<MaskSummary*>(at)),
          blocks((a.queries + MaskSummary::kQueries - 1) / MaskSummary::kQueries),
          tiles((a.keys + MaskSummary::kKeys - 1) / MaskSummary::kKeys) {}

    std::int64_t count(const AttentionArguments& a) const {
        return a.mask.data == nullptr ? 0 : blocks * tiles * a.mask2 * a.mask3;
    }
    __device__ const MaskSummary& of(std::int64_t matrix, std::int64_t block,
                                     std::int64_t tile) const {
        return data[(matrix * blocks + block) * tiles + tile];
    }
};

/// Of eight keys, over several queries.
struct MaskBits {
    unsigned visible = 0;
    bool has_bias = false;

    __device__ __forceinline__ void add(const uint4& eight) {
        constexpr std::uint32_t kHidden = 0xfc00u, kBothHidden = 0xfc00fc00u;
        if ((eight.x | eight.y | eight.z | eight.w) == 0) {
            visible = 255;
            return;
        }
        has_bias = true;
        const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (words[i] == kBothHidden) continue;
            if ((words[i] & 0xffffu) != kHidden) visible |= 1u << 2 * i;
            if (words[i] >> 16 != kHidden) visible |= 2u << 2 * i;
        }
    }
};

/// A warp per summary: sixteen lanes have eight keys each.
static __global__ void summarize_mask(AttentionArguments a, MaskSummaries to, std::int64_t count) {
    const std::int64_t number =
        static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (number >= count) return;
    const int lane = threadIdx.x % 32;
    const std::int64_t tile = number % to.tiles, block = number / to.tiles % to.blocks;
    const std::int64_t matrix = number / to.tiles / to.blocks;
    const std::int64_t key = tile * MaskSummary::kKeys + lane % 16 * 8;
    const std::int64_t first = block * MaskSummary::kQueries;
    const std::uint8_t* from = a.mask.data + matrix % a.mask2 * a.mask.stride2 +
                               matrix / a.mask2 * a.mask.stride3 + 2 * key;
    MaskBits bits;
    bits.has_bias = key >= a.keys;
#pragma unroll
    for (int i = 0; i < MaskSummary::kQueries / 2; ++i) {
        const std::int64_t query = first + 2 * i + lane / 16;
        if (key < a.keys && query < a.queries)
            bits.add(*reinterpret_cast<const uint4*>(from + query * a.mask.stride1));
    }
    bits.visible |= __shfl_xor_sync(0xffffffffu, bits.visible, 16);
    unsigned word = bits.visible << 8 * (lane % 4);
    word |= __shfl_xor_sync(0xffffffffu, word, 1);
    word |= __shfl_xor_sync(0xffffffffu, word, 2);
    const bool has_bias = __any_sync(0xffffffffu, bits.has_bias) != 0;
    MaskSummary& summary = to.data[number];
    if (lane < 16 && lane % 4 == 0) summary.visible[lane / 4] = word;
    if (lane == 0) summary.has_bias = has_bias ? 1 : 0;
}

/// The mask of a block's rows and a tile of keys, counted from the block's first.
template <int kRows, class Control>
__device__ void look_at_mask(const AttentionArguments& a, const MaskSummaries& summaries,
                             const AttentionTile& place, int tile, Control& control) {
    const std::int64_t last_row = min(place.first_row + kRows, a.rows()) - 1;
    const std::int64_t first =
        AttentionRow(a, place.group, place.first_row).query / MaskSummary::kQueries;
    const std::int64_t last = AttentionRow(a, place.group, last_row).query / MaskSummary::kQueries;
    const std::int64_t at = place.first_key / MaskSummary::kKeys + tile;
    const std::int64_t heads = a.mask2 > 1 ? a.group_heads : 1;
    uint4 visible{0, 0, 0, 0};
    std::uint32_t has_bias = 0;
    for (std::int64_t h = 0; h < heads; ++h) {
        const std::int64_t matrix = Division(place.group * a.group_heads + h, a.mask2).remainder +
                                    Division(place.sequence, a.mask3).remainder * a.mask2;
        for (std::int64_t block = first; block <= last; ++block) {
            const MaskSummary& summary = summaries.of(matrix, block, at);
            const uint4 more = *reinterpret_cast<const uint4*>(summary.visible);
            visible.x |= more.x, visible.y |= more.y, visible.z |= more.z, visible.w |= more.w;
            has_bias |= summary.has_bias;
        }
    }
    *reinterpret_cast<uint4*>(control.visible[tile]) = visible;
    __threadfence_block();
    const bool is_seen = (visible.x | visible.y | visible.z | visible.w) != 0;
    const TileMask mask = !is_seen        ? TileMask::hidden
                          : has_bias != 0 ? TileMask::mixed
                                          : TileMask::open;
    control.masks[tile] = static_cast<int>(mask);
}

/// Without a mask, keys past the end alone are hidden.
template <class Control>
__device__ TileMask end_of_keys(const AttentionTile& place, int tile, Control& control) {
    constexpr int kKeys = MaskSummary::kKeys;
    const std::int64_t left = place.last_key - place.first_key - std::int64_t{tile} * kKeys;
    if (left >= kKeys) return TileMask::open;
    for (int word = 0; word < kKeys / 32; ++word) {
        const std::int64_t bits = min(max(left - 32 * word, std::int64_t{0}), std::int64_t{32});
        control.visible[tile][word] = bits == 32 ? ~0u : (1u << bits) - 1u;
    }
    return TileMask::mixed;
}

}  // namespace heddle::cuda
