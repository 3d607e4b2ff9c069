#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_scores.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>

#include "backends/cpu/dot/strip_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

/// Few queries and many keys: the keys are what takes time, so each is read once for several
/// queries.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

#if !HEDDLE_HAS_STRIPS

template <class T>
void score_rows(const Panel& panel, const RowsAhead& ahead, const float* const* queries,
                float* const* out, int count) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    Asking asking(ahead, panel.count);
    for (std::int64_t j = 0; j < panel.count; ++j) {
        asking.go_on();
        const T* row = row_of<T>(panel, j);
        for (int q = 0; q < count; ++q) {
            auto sum = hn::Zero(lanes);
            std::int64_t i = 0;
            for (; i + step <= panel.depth; i += step) {
                sum =
                    hn::MulAdd(load_element(lanes, row, i), hn::LoadU(lanes, queries[q] + i), sum);
            }
            float total = hn::GetLane(hn::SumOfLanes(lanes, sum));
            for (; i < panel.depth; ++i) total += element(row, i) * queries[q][i];
            out[q][j] = total;
        }
    }
}

#else

constexpr hn::ScalableTag<float> kLanes;
using V = hn::Vec<decltype(kLanes)>;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kPair = 2 * kVector;

/// Keeps a vector that was read in a register. Compilers would read it again for each use, and
/// processors multiply vectors faster than they read them.
HWY_INLINE void keep(V& v) {
#if HWY_ARCH_X86
    asm("" : "+v"(v.raw));
#else
    static_cast<void>(v);
#endif
}

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
constexpr int kRowsAtOnce = kStripWidth == 12 ? (kQueries == 1 ? 8 : 4) : (kQueries <= 2 ? 4 : 2);

template <class T, int kQueries>
void score_queries(const Panel& panel, const RowsAhead& ahead, const float* const* query,
                   float* const* out) {
    constexpr int kRows = kRowsAtOnce<kQueries>, kSums = kQueries * kRows;
    Asking asking(ahead, (panel.count + kRows - 1) / kRows);
    for (std::int64_t j = 0; j < panel.count; j += kRows) {
        asking.go_on();
        const T* row[kRows];
        HWY_UNROLL(8)
        for (int r = 0; r < kRows; ++r) {
            row[r] = row_of<T>(panel, j + r < panel.count ? j + r : panel.count - 1);
        }
        V sums[kSums];
        HWY_UNROLL(16)
        for (int s = 0; s < kSums; ++s) sums[s] = hn::Zero(kLanes);
        std::int64_t i = 0;
        for (; i + kPair <= panel.depth; i += kPair) {
            HWY_UNROLL(2)
            for (int half = 0; half < 2; ++half) {
                V x[kRows];
                HWY_UNROLL(8)
                for (int r = 0; r < kRows; ++r)
                    x[r] = load_element(kLanes, row[r], i + half * kVector);
                HWY_UNROLL(4)
                for (int q = 0; q < kQueries; ++q) {
                    V y = hn::LoadU(kLanes, query[q] + i + half * kVector);
                    keep(y);
                    HWY_UNROLL(8)
                    for (int r = 0; r < kRows; ++r) {
                        sums[q * kRows + r] = hn::MulAdd(x[r], y, sums[q * kRows + r]);
                    }
                }
            }
        }
        HWY_ALIGN float totals[kSums];
        HWY_UNROLL(4)
        for (int s = 0; s < kSums; s += 4) store_sums(sums + s, totals + s);
        for (; i < panel.depth; ++i) {
            for (int s = 0; s < kSums; ++s) {
                totals[s] += element(row[s % kRows], i) * query[s / kRows][i];
            }
        }
        const int used = panel.count - j < kRows ? static_cast<int>(panel.count - j) : kRows;
        for (int q = 0; q < kQueries; ++q) {
            for (int r = 0; r < used; ++r) out[q][j + r] = totals[q * kRows + r];
        }
    }
}

template <class T>
void score_rows(const Panel& panel, const RowsAhead& ahead, const float* const* queries,
                float* const* out, int count) {
    for_queries(count, ahead, [&](auto number, int q, const RowsAhead& asked) HWY_ATTR {
        score_queries<T, number>(panel, asked, queries + q, out + q);
    });
}

#endif
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
