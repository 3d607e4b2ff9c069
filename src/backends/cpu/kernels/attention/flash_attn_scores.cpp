#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_scores.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <span>

#include "backends/cpu/dot/micro_panel_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"
#include "simd/opaque.hpp"

/// Few queries and many keys: the keys are what takes time, so each is read once for several
/// queries.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

/// Rows that all heads see before they go on: they stay in L1.
constexpr std::int64_t kBlockRows = 8;

#if !HEDDLE_HAS_MICRO_PANELS

template <class T, int kQueries>
void score_block(const MatrixView& block, const std::byte* const* queries, float* const* out,
                 std::int64_t first) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    for (std::int64_t j = 0; j < block.count; ++j) {
        const T* row = row_of<T>(block, j);
        for (int q = 0; q < kQueries; ++q) {
            const auto* query = reinterpret_cast<const float*>(queries[q]);
            auto sum = hn::Zero(lanes);
            std::int64_t i = 0;
            for (; i + step <= block.depth; i += step) {
                sum = hn::MulAdd(load_element(lanes, row, i), hn::LoadU(lanes, query + i), sum);
            }
            float total = hn::GetLane(hn::SumOfLanes(lanes, sum));
            for (; i < block.depth; ++i) total += element(row, i) * query[i];
            out[q][first + j] = total;
        }
    }
}

#else

constexpr hn::ScalableTag<float> kLanes;
using V = hn::Vec<decltype(kLanes)>;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kPair = 2 * kVector;

// ---- products ----------------------------------------------------------------------------------

/// The upper lanes added to the lower ones, down to four.
template <class D>
HWY_INLINE auto fold(D, hn::Vec<D> v) {
    if constexpr (hn::MaxLanes(D()) == 4) {
        return v;
    } else {
        const hn::Half<D> half;
        return fold(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    }
}

/// The sums of the lanes of each of four vectors.
HWY_INLINE void store_sums(const V* v, float* to) {
    const hn::Repartition<double, decltype(kLanes)> pairs;
    const V ab =
        hn::Add(hn::InterleaveLower(kLanes, v[0], v[1]), hn::InterleaveUpper(kLanes, v[0], v[1]));
    const V cd =
        hn::Add(hn::InterleaveLower(kLanes, v[2], v[3]), hn::InterleaveUpper(kLanes, v[2], v[3]));
    const auto two = hn::BitCast(pairs, ab), others = hn::BitCast(pairs, cd);
    const V four = hn::Add(hn::BitCast(kLanes, hn::InterleaveLower(pairs, two, others)),
                           hn::BitCast(kLanes, hn::InterleaveUpper(pairs, two, others)));
    hn::StoreU(fold(kLanes, four), hn::FixedTag<float, 4>(), to);
}

/// What registers hold.
template <int kQueries>
constexpr int kRowsAtOnce = kMicroPanelWidth == 12 ? (kQueries == 1 ? 8 : 4)
                                                   : (kQueries <= 2 ? 4 : 2);

/// The products of up to `kRows` rows, from row `j` of the block on.
template <class T, int kQueries, int kRows>
HWY_INLINE void score_few(const MatrixView& block, std::int64_t j, const std::byte* const* queries,
                          float* const* out, std::int64_t first) {
    constexpr int kSums = kQueries * kRows;
    const bool is_whole = j + kRows <= block.count;
    const std::byte* next = block.rows + static_cast<std::size_t>(j) * block.pitch;
    const T* row[kRows];  // where some are missing, the last one again
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
        row[r] = reinterpret_cast<const T*>(next);
        if (is_whole || j + r + 1 < block.count) next += block.pitch;
    }
    const auto query = [&](int q) HWY_ATTR { return reinterpret_cast<const float*>(queries[q]); };
    V sums[kSums];
    HWY_UNROLL(16)
    for (int s = 0; s < kSums; ++s) sums[s] = hn::Zero(kLanes);
    const auto add_vector = [&](std::int64_t at) HWY_ATTR {
        V x[kRows];
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) x[r] = load_element(kLanes, row[r], at);
        HWY_UNROLL(4)
        for (int q = 0; q < kQueries; ++q) {
            V y = hn::LoadU(kLanes, query(q) + at);
            opaque(y);  // or it is read again for each use, which takes longer than a product
            HWY_UNROLL(8)
            for (int r = 0; r < kRows; ++r) {
                sums[q * kRows + r] = hn::MulAdd(x[r], y, sums[q * kRows + r]);
            }
        }
    };
    std::int64_t i = 0;
    for (; i + kPair <= block.depth; i += kPair) {
        add_vector(i);
        add_vector(i + kVector);
    }
    if (i + kVector <= block.depth) {
        add_vector(i);
        i += kVector;
    }
    HWY_ALIGN float totals[kSums];
    HWY_UNROLL(4)
    for (int s = 0; s < kSums; s += 4) store_sums(sums + s, totals + s);
    for (; i < block.depth; ++i) {
        for (int s = 0; s < kSums; ++s) {
            totals[s] += element(row[s % kRows], i) * query(s / kRows)[i];
        }
    }
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        float* scores = out[q] + first + j;
        const float* total = totals + q * kRows;
        if (kRows % 4 == 0 && is_whole) {
            HWY_UNROLL(2)
            for (int r = 0; r < kRows; r += 4) {
                const hn::FixedTag<float, 4> four;
                hn::StoreU(hn::Load(four, total + r), four, scores + r);
            }
            continue;
        }
        for (int r = 0; r < kRows && j + r < block.count; ++r) scores[r] = total[r];
    }
}

template <class T, int kQueries>
HWY_INLINE void score_block(const MatrixView& block, const std::byte* const* queries,
                            float* const* out, std::int64_t first) {
    constexpr int kRows = kRowsAtOnce<kQueries>;
    for (std::int64_t j = 0; j < block.count; j += kRows) {
        score_few<T, kQueries, kRows>(block, j, queries, out, first);
    }
}

#endif

template <class T>
void score_rows(const MatrixView& view, std::span<const HeadScores> heads, int queries,
                const Ahead& ahead) {
    for_blocks(
        view, heads, kBlockRows, queries, ahead,
        [&](auto number, const MatrixView& block, const HeadScores& head, int q, std::int64_t first)
            HWY_ATTR { score_block<T, number>(block, head.queries + q, head.scores + q, first); });
}

}  // namespace

ScoreRows rows_scorer(Type type) {
    if (type == GGML_TYPE_F32) return score_rows<float>;
    if (type == GGML_TYPE_F16) return score_rows<F16>;
    if (type == GGML_TYPE_BF16) return score_rows<Bf16>;
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(rows_scorer);

ScoreRows score_rows_of(Type type) { return HWY_DYNAMIC_DISPATCH(rows_scorer)(type); }

}  // namespace heddle::cpu
#endif
