#pragma once

#include "backends/cuda/kernels/attention/attention.cuh"

/// What the mask does to a tile of rows and keys. It is read once, by a kernel of its own, for all
/// heads and before keys are copied.
namespace heddle::cuda {

enum class TileMask {
    hidden,  ///< -inf for all rows and keys
    open,    ///< 0 for all
    cut,     ///< 0 or -inf
    mixed,
};

/// Of a block of queries and a tile of keys.
struct MaskSummary {
    static constexpr int kQueries = 16, kKeys = 128;

    std::uint32_t visible[4];  ///< a bit for each key that some query sees
    std::uint32_t has_values;  ///< somewhere it is neither 0 nor -inf
    std::uint32_t hides;       ///< somewhere it is -inf
    std::uint32_t unused[2];
};

/// Summaries of all matrices of a mask, and the keys that each query sees.
struct MaskSummaries {
    MaskSummary* data;
    uint4* seen;  ///< a bit for each key: queries, and for each of them tiles of keys
    std::int64_t queries, blocks, tiles;  ///< blocks of queries, tiles of keys

    MaskSummaries(const AttentionArguments& a, std::byte* at)
        : data(reinterpret_cast<MaskSummary*>(at)),
          queries(a.queries),
          blocks((a.queries + MaskSummary::kQueries - 1) / MaskSummary::kQueries),
          tiles((a.keys + MaskSummary::kKeys - 1) / MaskSummary::kKeys) {
        seen = reinterpret_cast<uint4*>(data + count(a));
    }

    std::int64_t count(const AttentionArguments& a) const {
        return a.mask.data == nullptr ? 0 : blocks * tiles * a.mask2 * a.mask3;
    }
    std::size_t bytes(const AttentionArguments& a) const {
        if (a.mask.data == nullptr) return 0;
        const auto rows = static_cast<std::size_t>(queries * tiles * a.mask2 * a.mask3);
        return static_cast<std::size_t>(count(a)) * sizeof(MaskSummary) + rows * sizeof(uint4);
    }
    __device__ const MaskSummary& of(std::int64_t matrix, std::int64_t block,
                                     std::int64_t tile) const {
        return data[(matrix * blocks + block) * tiles + tile];
    }
    __device__ uint4* seen_by(std::int64_t matrix, std::int64_t query) const {
        return seen + (matrix * queries + query) * tiles;
    }
};

/// Of eight keys and one query, and whether there was anything but 0 and -inf so far.
struct MaskBits {
    bool has_values = false;

    __device__ __forceinline__ unsigned visible(const uint4& eight) {
        constexpr std::uint32_t kHidden = 0xfc00u;
        if ((eight.x | eight.y | eight.z | eight.w) == 0) return 255;
        const std::uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
        unsigned visible = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const std::uint32_t half = words[i / 2] >> 16 * (i % 2) & 0xffffu;
            if (half != kHidden) visible |= 1u << i;
            has_values = has_values || (half != kHidden && half != 0);
        }
        return visible;
    }
};

/// A warp per summary: sixteen lanes have eight keys each of a query.
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
    constexpr int kRounds = MaskSummary::kQueries / 2;
    uint4 eight[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
        const std::int64_t query = first + 2 * i + lane / 16;
        constexpr std::uint32_t kBothHidden = 0xfc00fc00u;
        eight[i] = {kBothHidden, kBothHidden, kBothHidden, kBothHidden};
        if (key < a.keys && query < a.queries)
            eight[i] = *reinterpret_cast<const uint4*>(from + query * a.mask.stride1);
    }
    MaskBits bits;
    std::uint32_t any = 0, all = ~0u;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
        const std::int64_t query = first + 2 * i + lane / 16;
        std::uint32_t word = bits.visible(eight[i]) << 8 * (lane % 4);
        word |= __shfl_xor_sync(0xffffffffu, word, 1);
        word |= __shfl_xor_sync(0xffffffffu, word, 2);
        if (query >= a.queries) continue;
        any |= word, all &= word;
        if (lane % 4 == 0)
            reinterpret_cast<std::uint32_t*>(to.seen_by(matrix, query) + tile)[lane % 16 / 4] =
                word;
    }
    any |= __shfl_xor_sync(0xffffffffu, any, 16);
    const bool has_values = __any_sync(0xffffffffu, bits.has_values) != 0;
    const bool hides = __any_sync(0xffffffffu, all != ~0u) != 0;
    MaskSummary& summary = to.data[number];
    if (lane < 16 && lane % 4 == 0) summary.visible[lane / 4] = any;
    if (lane == 0) summary.has_values = has_values ? 1 : 0, summary.hides = hides ? 1 : 0;
}

/// A tile of keys, and what a block's rows see of it. Tiles of a split are numbered from its first.
struct TileView {
    int tile;  ///< -1: none
    TileMask mask;
    std::uint32_t visible[MaskSummary::kKeys / 32];  ///< a bit for each key that some row sees

    /// Without a mask, keys past the end alone are hidden.
    template <int kKeys>
    __device__ static TileView of_end(const AttentionTile& place, int tile) {
        TileView view{tile, TileMask::open, {}};
        const std::int64_t left = place.last_key - place.first_key - std::int64_t{tile} * kKeys;
        if (left < kKeys) view.mask = TileMask::cut;
#pragma unroll
        for (int word = 0; word < kKeys / 32; ++word) {
            const std::int64_t bits = min(max(left - 32 * word, std::int64_t{0}), std::int64_t{32});
            view.visible[word] = bits == 32 ? ~0u : (1u << bits) - 1u;
        }
        return view;
    }

    template <int kKeys, int kRows>
    __device__ static TileView of_mask(const AttentionArguments& a, const MaskSummaries& summaries,
                                       const AttentionTile& place, int tile) {
        const std::int64_t last_row = min(place.first_row + kRows, a.rows()) - 1;
        const std::int64_t first =
            AttentionRow(a, place.group, place.first_row).query / MaskSummary::kQueries;
        const std::int64_t last =
            AttentionRow(a, place.group, last_row).query / MaskSummary::kQueries;
        constexpr int kParts = MaskSummary::kKeys / kKeys, kWords = kKeys / 32;
        const std::int64_t at = place.first_key / MaskSummary::kKeys + tile / kParts;
        const std::int64_t heads = a.mask2 > 1 ? a.group_heads : 1;
        TileView view{tile, TileMask::hidden, {}};
        std::uint32_t seen = 0, has_values = 0, hides = 0;
        for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t matrix =
                Division(place.group * a.group_heads + h, a.mask2).remainder +
                Division(place.sequence, a.mask3).remainder * a.mask2;
            for (std::int64_t block = first; block <= last; ++block) {
                const MaskSummary& summary = summaries.of(matrix, block, at);
#pragma unroll
                for (int word = 0; word < kWords; ++word) {
                    const std::uint32_t more = summary.visible[tile % kParts * kWords + word];
                    view.visible[word] |= more, seen |= more;
                }
                has_values |= summary.has_values, hides |= summary.hides;
            }
        }
        if (seen != 0)
            view.mask = has_values != 0 ? TileMask::mixed
                        : hides != 0    ? TileMask::cut
                                        : TileMask::open;
        return view;
    }
};

}  // namespace heddle::cuda
