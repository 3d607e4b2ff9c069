#pragma once

#include "backends/cuda/kernels/attention/attention_mask.cuh"
#include "backends/cuda/kernels/ring.cuh"
#include "backends/cuda/kernels/tensor_map.hpp"

/// What `attention_wgmma` works on, and how keys and values come into shared memory: one warp finds
/// the tiles that some row sees, one thread copies them.
namespace heddle::cuda {

struct WgmmaAttention {
    AttentionArguments a;
    CUtensorMap keys, values;
    MaskSummaries masks;
};

/// Heads of up to these sizes; smaller ones are padded with zeros, which the copy engine makes.
template <int kKeySize_, int kValueSize_, int kKeys_, int kStages_>
struct AttentionRings {
    static constexpr int kKeySize = kKeySize_, kValueSize = kValueSize_;
    static constexpr int kRows = 128, kKeys = kKeys_, kStages = kStages_, kThreads = 384;
    /// Columns of 128 bytes.
    static constexpr int kKeyColumns = (kKeySize + 63) / 64, kValueColumns = (kValueSize + 63) / 64;
    static constexpr int kColumnBytes = kKeys * 128;
    static constexpr int kKeyBytes = kKeyColumns * kColumnBytes,
                         kValueBytes = kValueColumns * kColumnBytes;
    static constexpr int kGroupBytes = kKeyColumns * 64 * 128;  ///< queries of a warp group

    static constexpr int kKeysAt = 2 * kGroupBytes, kValuesAt = kKeysAt + kStages * kKeyBytes;
    static constexpr int kControlAt = kValuesAt + kStages * kValueBytes;  ///< a multiple of 16

    /// A tile that comes to the rings.
    struct Coming {
        TileView view;
        bool is_last;  ///< of its rows
    };
    /// Tiles that were found.
    struct Batch {
        TileView views[32];
        int count;
        bool is_last;  ///< of its rows
    };
    struct Control {
        RingBarriers<kStages> keys, values;
        RingBarriers<2> batches;
        Coming coming[2][kStages];  ///< by phase: values are read after their keys' stage is empty
        Batch batch[2];
    };
    static constexpr int kShared = kControlAt + static_cast<int>(sizeof(Control)) + 1024;
    static_assert(kShared <= 227 * 1024);
};

/// The tiles of rows and keys that a block works on, one after the other. Rows that see most keys
/// come first; blocks take turns forth and back, so that all have as much to do.
class TilesOfBlock {
public:
    __device__ TilesOfBlock(const AttentionArguments& a, int rows) : a_(a), rows_(rows) {}

    /// False: there are no more.
    __device__ bool next() {
        const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
        const int item = blocks * round_ + (round_ % 2 == 0 ? block : blocks - 1 - block);
        ++round_;
        const int splits = a_.splits, groups = static_cast<int>(a_.groups * a_.sequences);
        const int tiles = (static_cast<int>(a_.rows()) + rows_ - 1) / rows_;
        if (item >= tiles * groups * splits) return false;
        number_ =
            (item / splits % groups * tiles + item / splits / groups) * splits + item % splits;
        return true;
    }
    __device__ AttentionTile place() const { return {a_, rows_, number_}; }

private:
    const AttentionArguments& a_;
    int rows_, round_ = 0, number_ = 0;
};

template <class R>
__device__ int tiles_of(const AttentionTile& place) {
    return static_cast<int>((place.last_key - place.first_key + R::kKeys - 1) / R::kKeys);
}

/// Eight elements of a query; zeros behind the last row and element.
template <class R>
__device__ __forceinline__ void load_query_piece(const AttentionArguments& a,
                                                 const AttentionTile& place, int number,
                                                 float4 (&x)[2]) {
    constexpr int kPieces = R::kKeySize / 8;
    const int at = number % kPieces;
    const std::int64_t r = place.first_row + number / kPieces;
    const bool is_there = r < a.rows() && 8 * at < a.key_size;
    const AttentionRow row(a, place.group, is_there ? r : 0);
    const auto* from = reinterpret_cast<const float4*>(
        a.q.data + row.query * a.q.stride1 + row.head * a.q.stride2 + place.sequence * a.q.stride3 +
        (is_there ? 32 * at : 0));
    x[0] = __ldg(from), x[1] = __ldg(from + 1);
    if (!is_there) x[0] = x[1] = {0, 0, 0, 0};
}

/// Queries come to L2 while the rows before are still worked on.
template <class R>
__device__ void prefetch_queries(const AttentionArguments& a, const AttentionTile& place) {
    constexpr int kLine = 128;
    const int lines = (a.key_size * 4 + kLine - 1) / kLine;
    for (int i = threadIdx.x % 32; i < R::kRows * lines; i += 32) {
        if (place.first_row + i / lines >= a.rows()) return;
        const AttentionRow row(a, place.group, place.first_row + i / lines);
        prefetch_to_l2(a.q.data + row.query * a.q.stride1 + row.head * a.q.stride2 +
                       place.sequence * a.q.stride3 + i % lines * kLine);
    }
}

/// The warp that finds tiles, 32 at a time.
template <class R>
__device__ void find_tiles(const WgmmaAttention& w, typename R::Control& control) {
    const int lane = threadIdx.x % 32;
    RingPlace<2> at;
    for (TilesOfBlock work(w.a, R::kRows); work.next();) {
        const AttentionTile place = work.place();
        const int tiles = tiles_of<R>(place);
        for (int first = 0; first == 0 || first < tiles; first += 32) {
            const int tile = first + lane;
            TileView view{tile, TileMask::hidden, {}};
            if (tile < tiles)
                view = w.a.mask.data == nullptr
                           ? TileView::of_end<R::kKeys>(place, tile)
                           : TileView::of_mask<R::kKeys, R::kRows>(w.a, w.masks, place, tile);
            const bool is_seen = view.mask != TileMask::hidden;
            const unsigned seen = __ballot_sync(0xffffffffu, is_seen);
            typename R::Batch& batch = control.batch[at.stage];
            barrier_wait(&control.batches.empty[at.stage], at.phase ^ 1u);
            if (is_seen) batch.views[__popc(seen & ((1u << lane) - 1u))] = view;
            if (lane == 0) batch.count = __popc(seen), batch.is_last = first + 32 >= tiles;
            barrier_arrive(&control.batches.full[at.stage]);
            at.advance();
        }
        prefetch_queries<R>(w.a, place);  // rows before are still worked on, but for the first
    }
}

/// The thread that copies them.
template <class R>
class TileCopies {
public:
    __device__ TileCopies(const WgmmaAttention& w, std::uint8_t* shared,
                          typename R::Control& control)
        : w_(w), shared_(shared), control_(control) {}

    __device__ void run() {
        for (TilesOfBlock work(w_.a, R::kRows); work.next();) {
            const AttentionTile place = work.place();
            const int head = static_cast<int>(place.group * w_.a.group_heads);
            key_head_ = head / static_cast<int>(w_.a.heads_per_key);
            value_head_ = head / static_cast<int>(w_.a.heads_per_value);
            sequence_ = static_cast<int>(place.sequence);
            first_key_ = static_cast<int>(place.first_key);
            TileView held{-1, TileMask::hidden, {}};  // until it is known whether it is the last
            for (bool is_last = false; !is_last; batches_.advance()) {
                control_.batches.wait(batches_);
                const typename R::Batch& batch = control_.batch[batches_.stage];
                for (int i = 0; i < batch.count; ++i) {
                    if (held.tile >= 0) copy(held, false);
                    held = batch.views[i];
                }
                is_last = batch.is_last;
                barrier_arrive(&control_.batches.empty[batches_.stage]);
            }
            copy(held, true);
        }
    }

private:
    __device__ __forceinline__ void copy_boxes(const CUtensorMap& map, int columns, int head,
                                               int key, std::uint8_t* to,
                                               std::uint64_t* full) const {
        for (int column = 0; column < columns; ++column)
            tensor_copy(to + column * R::kColumnBytes, &map, {64 * column, key, head, sequence_},
                        full);
    }

    /// A tile, or that rows see none at all.
    __device__ void copy(const TileView& view, bool is_last) {
        const int stage = at_.stage, key = first_key_ + view.tile * R::kKeys;
        const unsigned bytes = view.tile >= 0 ? 1 : 0;
        barrier_wait(&control_.keys.empty[stage], at_.phase ^ 1u);
        control_.coming[at_.phase][stage] = {view, is_last};
        barrier_arrive_expecting(&control_.keys.full[stage], bytes * R::kKeyBytes);
        if (bytes != 0)
            copy_boxes(w_.keys, R::kKeyColumns, key_head_, key,
                       shared_ + R::kKeysAt + stage * R::kKeyBytes, &control_.keys.full[stage]);
        std::uint64_t* const full = control_.values.fill(at_, bytes * R::kValueBytes);
        if (bytes != 0)
            copy_boxes(w_.values, R::kValueColumns, value_head_, key,
                       shared_ + R::kValuesAt + stage * R::kValueBytes, full);
        at_.advance();
    }

    const WgmmaAttention& w_;
    std::uint8_t* shared_;
    typename R::Control& control_;
    RingPlace<R::kStages> at_;
    RingPlace<2> batches_;
    int key_head_ = 0, value_head_ = 0, sequence_ = 0, first_key_ = 0;
};

}  // namespace heddle::cuda
