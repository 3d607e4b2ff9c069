#pragma once

#include "backends/cuda/kernels/attention/attention.cuh"
#include "backends/cuda/kernels/attention/cache_rows.cuh"
#include "backends/cuda/kernels/ring.cuh"
#include "backends/cuda/kernels/tensor_map.hpp"

/// How keys and values come to a warp of `attention_ring`: in stages of its own in shared memory,
/// which the copy engine fills.
namespace heddle::cuda {

/// Keys or values as boxes. Heads lie side by side in a row, or are matrices. Boxes begin at
/// multiples of 16 bytes: a head begins at the next multiple of 4 or at one of the two after it.
struct RingOperand {
    CUtensorMap map;
    int first_byte, head_bytes, head_matrices;

    __host__ __device__ int start(int head) const { return first_byte + head * head_bytes; }
    __host__ __device__ int phase(int head) const { return start(head) % 16; }
};

struct RingAttention {
    AttentionArguments a;
    RingOperand keys, values;
};

/// Columns for what rounding loses.
enum class Low {
    none,    ///< eight rows
    beside,  ///< four rows, each has two of eight columns
    apart,   ///< eight rows, eight columns more
};

template <ggml_type kType_, int kSize_, Low kLow_>
struct RingLayout {
    static constexpr ggml_type kType = kType_;
    static constexpr int kSize = kSize_;
    static constexpr Low kLow = kLow_;
    static constexpr bool kIsHalf = kType == GGML_TYPE_F16;
    static constexpr int kTiles = kLow == Low::apart ? 2 : 1;  ///< of eight columns
    static constexpr int kRows = kLow == Low::beside ? 4 : 8;

    static constexpr int block_bytes() {
        if constexpr (kIsHalf)
            return 64;
        else
            return CacheRows<kType>::kBlockBytes;
    }
    /// F16: 64 columns of a box, 128 bytes, swizzled. Blocks: the bytes of a row as they are.
    static constexpr int kPitch = kIsHalf ? 128 : (kSize / 32 * block_bytes() + 15) / 16 * 16;
    static constexpr int kBoxes = kIsHalf ? kSize / 64 : 1;
    static constexpr int kBlocks = kPitch * kBoxes > 144 ? 1 : 2;  ///< of sixteen keys, of a stage
    static constexpr int kKeys = 16 * kBlocks;
    static constexpr int kBoxBytes = kKeys * kPitch, kTileBytes = kBoxes * kBoxBytes;
    static constexpr int kMaskPitch = 2 * kKeys, kMaskBytes = 8 * kMaskPitch;  ///< of a stage
    static constexpr int kWarps = kIsHalf && kSize > 128 ? 4 : 8, kThreads = 32 * kWarps;
    static constexpr int kStages = 3 * kWarps * (2 * kTileBytes + kMaskBytes) <= 160 * 1024 ? 3 : 2;
    static constexpr int kStep = kWarps * kKeys;
    static constexpr int kMasksAt = kWarps * kStages * 2 * kTileBytes;
    static constexpr int kRingBytes = kMasksAt + kWarps * kStages * kMaskBytes;
    /// Of a warp and row: sums, their weight, the largest logit.
    static constexpr int kEntry = kSize + 2;
    static constexpr int kEntryBytes = kWarps * kRows * kEntry * 4;
    static constexpr int kUsed = kRingBytes > kEntryBytes ? kRingBytes : kEntryBytes;
    static_assert(kUsed <= 226 * 1024);
};

/// The stages of a warp: keys, values, and the masks of the rows, or of the queries if heads share
/// them.
template <class L>
class KeyRing {
public:
    __device__ KeyRing(const RingAttention& w, const AttentionTile& place, std::uint8_t* shared,
                       std::uint64_t* full)
        : w_(w), place_(place), full_(full) {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        tiles_ = shared + warp * L::kStages * 2 * L::kTileBytes;
        masks_ = shared + L::kMasksAt + warp * L::kStages * L::kMaskBytes;
        const std::int64_t head = place.group * w.a.group_heads;
        key_head_ = static_cast<int>(Division(head, w.a.heads_per_key).quotient);
        value_head_ = static_cast<int>(Division(head, w.a.heads_per_value).quotient);
        if (threadIdx.x % 32 != 0) return;
        for (int i = 0; i < L::kStages; ++i) barrier_init(&full_[i], 1);
        barrier_init_fence();
    }

    /// Keys from `first` on come to stage `stage`, which the warp has read.
    __device__ __forceinline__ void copy(int first, int stage) {
        if (threadIdx.x % 32 != 0) return;
        const AttentionArguments& a = w_.a;
        const int count =
            a.mask.data == nullptr ? 0 : static_cast<int>(a.mask2 > 1 ? a.rows() : a.queries);
        const unsigned bytes = 2 * min(L::kKeys, static_cast<int>(a.keys) - first);
        barrier_arrive_expecting(&full_[stage], 2 * L::kTileBytes + count * bytes);
        copy_boxes(w_.keys, key_head_, first, keys_at(stage), &full_[stage]);
        copy_boxes(w_.values, value_head_, first, values_at(stage), &full_[stage]);
        for (int i = 0; i < count; ++i) {
            const AttentionRow row(a, place_.group, a.mask2 > 1 ? i : i * a.group_heads);
            bulk_copy(masks_ + stage * L::kMaskBytes + i * L::kMaskPitch,
                      row.mask(a, place_.sequence) + 2 * std::int64_t{first}, bytes, &full_[stage]);
        }
    }
    __device__ __forceinline__ void wait(const RingPlace<L::kStages>& at) {
        barrier_wait(&full_[at.stage], at.phase);
    }
    /// The first key of a stage.
    __device__ __forceinline__ const std::uint8_t* keys(int stage) const {
        return keys_at(stage) + w_.keys.phase(key_head_);
    }
    __device__ __forceinline__ const std::uint8_t* values(int stage) const {
        return values_at(stage) + w_.values.phase(value_head_);
    }
    /// The first row's mask.
    __device__ __forceinline__ const std::uint8_t* masks(int stage) const {
        return masks_ + stage * L::kMaskBytes;
    }

private:
    __device__ __forceinline__ std::uint8_t* keys_at(int stage) const {
        return tiles_ + 2 * stage * L::kTileBytes;
    }
    __device__ __forceinline__ std::uint8_t* values_at(int stage) const {
        return tiles_ + (2 * stage + 1) * L::kTileBytes;
    }
    __device__ __forceinline__ void copy_boxes(const RingOperand& from, int head, int first,
                                               std::uint8_t* to, std::uint64_t* full) const {
#pragma unroll
        for (int box = 0; box < L::kBoxes; ++box)
            tensor_copy(to + box * L::kBoxBytes, &from.map,
                        {from.start(head) / 16 * 8 + 64 * box, first, head * from.head_matrices,
                         static_cast<int>(place_.sequence)},
                        full);
    }

    const RingAttention& w_;
    const AttentionTile& place_;
    std::uint8_t *tiles_, *masks_;
    std::uint64_t* full_;
    int key_head_, value_head_;
};

}  // namespace heddle::cuda
