#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_few.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>

#include "backends/cpu/dot/strip_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

/// Few queries and many rows: the rows are what takes time, so each is read once for several
/// queries.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

template <class T>
const T* row_of(const Panel& panel, std::int64_t j) {
    return reinterpret_cast<const T*>(panel.rows + static_cast<std::size_t>(j) * panel.pitch);
}

// ---- one query ---------------------------------------------------------------------------------

template <class T>
void add_row(float weight, const T* x, float* y, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto w = hn::Set(lanes, weight);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::MulAdd(load_element(lanes, x, i), w, hn::LoadU(lanes, y + i)), lanes, y + i);
    }
    for (; i < n; ++i) y[i] += element(x, i) * weight;
}

/// Four rows at once, so that y is read and written a quarter as often.
template <class T>
void add_four_rows(const float* weights, const T* const* x, float* y, std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto w0 = hn::Set(lanes, weights[0]), w1 = hn::Set(lanes, weights[1]);
    const auto w2 = hn::Set(lanes, weights[2]), w3 = hn::Set(lanes, weights[3]);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        auto sum = hn::LoadU(lanes, y + i);
        sum = hn::MulAdd(load_element(lanes, x[0], i), w0, sum);
        sum = hn::MulAdd(load_element(lanes, x[1], i), w1, sum);
        sum = hn::MulAdd(load_element(lanes, x[2], i), w2, sum);
        hn::StoreU(hn::MulAdd(load_element(lanes, x[3], i), w3, sum), lanes, y + i);
    }
    for (; i < n; ++i) {
        for (int r = 0; r < 4; ++r) y[i] += element(x[r], i) * weights[r];
    }
}

/// Leaves out rows of weight 0: a masked row may hold anything, even NaN.
template <class T>
void add_some_rows(const Panel& panel, const float* weights, float* y) {
    float pending[4];
    const T* x[4];
    int found = 0;
    for (std::int64_t j = 0; j < panel.count; ++j) {
        if (weights[j] == 0) continue;
        pending[found] = weights[j];
        x[found++] = row_of<T>(panel, j);
        if (found < 4) continue;
        add_four_rows(pending, x, y, panel.depth);
        found = 0;
    }
    for (int r = 0; r < found; ++r) add_row(pending[r], x[r], y, panel.depth);
}

#if !HEDDLE_HAS_STRIPS

template <class T>
void add_rows(const Panel& panel, const RowsAhead&, const float* const* weights, float* const* y,
              int count) {
    for (int q = 0; q < count; ++q) add_some_rows<T>(panel, weights[q], y[q]);
}

template <class T>
void score_rows(const Panel& panel, const RowsAhead&, const float* const* queries,
                float* const* out, int count) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    for (std::int64_t j = 0; j < panel.count; ++j) {
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

/// The elements of a row from `i` on, a multiple of `kPair`.
template <class T>
HWY_INLINE void load_pair(const T* row, std::int64_t i, V& low, V& high) {
    low = load_element(kLanes, row, i);
    high = load_element(kLanes, row, i + kVector);
}
HWY_INLINE void load_pair(const Q8Block* row, std::int64_t i, V& low, V& high) {
    static_assert(32 % kPair == 0);  // one scale for both
    const V scale = hn::Set(kLanes, half_to_float(row[i / 32].scale));
    low = hn::Mul(load_codes(kLanes, row[i / 32].codes + i % 32), scale);
    high = hn::Mul(load_codes(kLanes, row[i / 32].codes + i % 32 + kVector), scale);
}

/// Asks for every `pieces`-th cache line of row `r`, from number `piece` on.
HWY_INLINE void ask_for(const RowsAhead& ahead, std::int64_t r, std::size_t piece,
                        std::size_t pieces) {
    constexpr std::size_t kLine = 64;
    if (r >= ahead.count) return;
    const std::byte* row = ahead.rows + static_cast<std::size_t>(r) * ahead.pitch;
    for (std::size_t at = piece * kLine; at < ahead.size; at += pieces * kLine) {
        hwy::Prefetch(row + at);
    }
}

// ---- weighted sums -----------------------------------------------------------------------------

/// Rows whose scales are looked up together.
constexpr std::int64_t kScaleRows = 64;

/// The weights of rows from `begin` on, and what is left to do with them.
template <class T, int kQueries>
struct SliceWeights {
    const float* of[kQueries];

    SliceWeights(const Panel&, const float* const* weights, std::int64_t, std::int64_t begin,
                 std::int64_t) {
        for (int q = 0; q < kQueries; ++q) of[q] = weights[q] + begin;
    }

    static HWY_INLINE void load(const T* row, std::int64_t i, V& low, V& high) {
        load_pair(row, i, low, high);
    }
};

/// Weights are multiplied with the scales of blocks, so that codes need not be.
template <int kQueries>
struct SliceWeights<Q8Block, kQueries> {
    HWY_ALIGN float of[kQueries][kScaleRows];

    SliceWeights(const Panel& panel, const float* const* weights, std::int64_t i,
                 std::int64_t begin, std::int64_t count) {
        HWY_ALIGN F16 scales[kScaleRows];
        for (std::int64_t j = 0; j < count; ++j) {
            scales[j].bits = row_of<Q8Block>(panel, begin + j)[i / 32].scale;
        }
        std::int64_t j = 0;
        for (; j + kVector <= count; j += kVector) {
            const V scale = load_f32(kLanes, scales + j);
            for (int q = 0; q < kQueries; ++q) {
                hn::StoreU(hn::Mul(hn::LoadU(kLanes, weights[q] + begin + j), scale), kLanes,
                           of[q] + j);
            }
        }
        for (; j < count; ++j) {
            for (int q = 0; q < kQueries; ++q) {
                of[q][j] = weights[q][begin + j] * to_float(scales[j]);
            }
        }
    }

    static HWY_INLINE void load(const Q8Block* row, std::int64_t i, V& low, V& high) {
        low = load_codes(kLanes, row[i / 32].codes + i % 32);
        high = load_codes(kLanes, row[i / 32].codes + i % 32 + kVector);
    }
};

/// Elements `i` .. `i + kPair` of the sums.
template <class T, int kQueries>
HWY_INLINE void add_slice(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
                          float* const* y, std::int64_t i) {
    const auto slices = static_cast<std::size_t>(panel.depth / kPair);
    V low[kQueries], high[kQueries];
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        low[q] = hn::LoadU(kLanes, y[q] + i);
        high[q] = hn::LoadU(kLanes, y[q] + i + kVector);
    }
    for (std::int64_t begin = 0; begin < panel.count; begin += kScaleRows) {
        const std::int64_t left = panel.count - begin;
        const std::int64_t count = left < kScaleRows ? left : kScaleRows;
        const SliceWeights<T, kQueries> slice(panel, weights, i, begin, count);
        for (std::int64_t j = 0; j < count; ++j) {
            V x0, x1;
            slice.load(row_of<T>(panel, begin + j), i, x0, x1);
            ask_for(ahead, begin + j, static_cast<std::size_t>(i / kPair), slices);
            HWY_UNROLL(4)
            for (int q = 0; q < kQueries; ++q) {
                const V weight = hn::Set(kLanes, slice.of[q][j]);
                low[q] = hn::MulAdd(x0, weight, low[q]);
                high[q] = hn::MulAdd(x1, weight, high[q]);
            }
        }
    }
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        hn::StoreU(low[q], kLanes, y[q] + i);
        hn::StoreU(high[q], kLanes, y[q] + i + kVector);
    }
}

template <class T, int kQueries>
void add_all_rows(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
                  float* const* y) {
    std::int64_t i = 0;
    for (; i + kPair <= panel.depth; i += kPair)
        add_slice<T, kQueries>(panel, ahead, weights, y, i);
    for (; i < panel.depth; ++i) {
        for (int q = 0; q < kQueries; ++q) {
            float sum = y[q][i];
            for (std::int64_t j = 0; j < panel.count; ++j) {
                sum += weights[q][j] * element(row_of<T>(panel, j), i);
            }
            y[q][i] = sum;
        }
    }
}

bool has_zero(const float* weights, std::int64_t n) {
    const V zero = hn::Zero(kLanes);
    auto any = hn::Ne(zero, zero);
    std::int64_t j = 0;
    for (; j + kVector <= n; j += kVector) {
        any = hn::Or(any, hn::Eq(hn::LoadU(kLanes, weights + j), zero));
    }
    bool found = !hn::AllFalse(kLanes, any);
    for (; j < n; ++j) found |= weights[j] == 0;
    return found;
}

template <class T, int kQueries>
void add_queries(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
                 float* const* y) {
    bool is_simple = true;
    for (int q = 0; q < kQueries; ++q) is_simple &= !has_zero(weights[q], panel.count);
    if (is_simple) return add_all_rows<T, kQueries>(panel, ahead, weights, y);

    constexpr std::int64_t kSome = 32;  // where keys are masked, most of their neighbours are too
    for (std::int64_t begin = 0; begin < panel.count; begin += kSome) {
        Panel part = panel;
        part.rows += static_cast<std::size_t>(begin) * panel.pitch;
        part.count = panel.count - begin < kSome ? panel.count - begin : kSome;
        const float* shifted[kQueries];
        is_simple = true;
        for (int q = 0; q < kQueries; ++q) {
            shifted[q] = weights[q] + begin;
            is_simple &= !has_zero(shifted[q], part.count);
        }
        if (is_simple) {
            add_all_rows<T, kQueries>(part, {}, shifted, y);
            continue;
        }
        for (int q = 0; q < kQueries; ++q) add_some_rows<T>(part, shifted[q], y[q]);
    }
}

template <class T>
void add_rows(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
              float* const* y, int count) {
    int q = 0;
    RowsAhead asked = ahead;  // the first queries ask for all of them
    for (; q + 4 <= count; q += 4, asked = {}) {
        add_queries<T, 4>(panel, asked, weights + q, y + q);
    }
    for (; q + 2 <= count; q += 2, asked = {}) {
        add_queries<T, 2>(panel, asked, weights + q, y + q);
    }
    for (; q < count; ++q, asked = {}) add_queries<T, 1>(panel, asked, weights + q, y + q);
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
    const hn::FixedTag<float, 4> four;
    const auto a = fold(kLanes, v[0]), b = fold(kLanes, v[1]);
    const auto c = fold(kLanes, v[2]), d = fold(kLanes, v[3]);
    const auto ab = hn::Add(hn::InterleaveLower(four, a, b), hn::InterleaveUpper(four, a, b));
    const auto cd = hn::Add(hn::InterleaveLower(four, c, d), hn::InterleaveUpper(four, c, d));
    hn::StoreU(hn::Add(hn::ConcatLowerLower(four, cd, ab), hn::ConcatUpperUpper(four, cd, ab)),
               four, to);
}

template <int kQueries>
constexpr int kRowsAtOnce = kQueries <= 2 || kStripWidth == 12 ? 4 : 2;  // what registers hold

template <class T, int kQueries>
void score_queries(const Panel& panel, const RowsAhead& ahead, const float* const* query,
                   float* const* out) {
    constexpr int kRows = kRowsAtOnce<kQueries>, kSums = kQueries * kRows;
    for (std::int64_t j = 0; j < panel.count; j += kRows) {
        const T* row[kRows];
        for (int r = 0; r < kRows; ++r) {
            row[r] = row_of<T>(panel, j + r < panel.count ? j + r : panel.count - 1);
            ask_for(ahead, j + r, 0, 1);
        }
        V sums[kSums];
        HWY_UNROLL(16)
        for (int s = 0; s < kSums; ++s) sums[s] = hn::Zero(kLanes);
        std::int64_t i = 0;
        for (; i + kPair <= panel.depth; i += kPair) {
            HWY_UNROLL(4)
            for (int r = 0; r < kRows; ++r) {
                V x0, x1;
                load_pair(row[r], i, x0, x1);
                HWY_UNROLL(4)
                for (int q = 0; q < kQueries; ++q) {
                    V& sum = sums[q * kRows + r];
                    sum = hn::MulAdd(x0, hn::LoadU(kLanes, query[q] + i), sum);
                    sum = hn::MulAdd(x1, hn::LoadU(kLanes, query[q] + i + kVector), sum);
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
    int q = 0;
    RowsAhead asked = ahead;  // the first queries ask for all of them
    for (; q + 4 <= count; q += 4, asked = {}) {
        score_queries<T, 4>(panel, asked, queries + q, out + q);
    }
    for (; q + 2 <= count; q += 2, asked = {}) {
        score_queries<T, 2>(panel, asked, queries + q, out + q);
    }
    for (; q < count; ++q, asked = {}) score_queries<T, 1>(panel, asked, queries + q, out + q);
}

#endif
}  // namespace

ScoreRows rows_scorer(Type type) {
    if (type == GGML_TYPE_F32) return score_rows<float>;
    if (type == GGML_TYPE_F16) return score_rows<F16>;
    if (type == GGML_TYPE_BF16) return score_rows<Bf16>;
#if HEDDLE_HAS_STRIPS  // elsewhere a vector may have more lanes than a block
    if (type == GGML_TYPE_Q8_0) return score_rows<Q8Block>;
#endif
    return nullptr;
}

AddRows rows_adder(Type type) {
    if (type == GGML_TYPE_F32) return add_rows<float>;
    if (type == GGML_TYPE_F16) return add_rows<F16>;
    if (type == GGML_TYPE_BF16) return add_rows<Bf16>;
#if HEDDLE_HAS_STRIPS
    if (type == GGML_TYPE_Q8_0) return add_rows<Q8Block>;
#endif
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(rows_scorer);
HWY_EXPORT(rows_adder);

ScoreRows score_rows_of(Type type) { return HWY_DYNAMIC_DISPATCH(rows_scorer)(type); }
AddRows add_rows_of(Type type) { return HWY_DYNAMIC_DISPATCH(rows_adder)(type); }

}  // namespace heddle::cpu
#endif
