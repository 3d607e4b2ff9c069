#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_sums.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>

#include "backends/cpu/dot/strip_lanes.hpp"
#include "backends/cpu/kernels/attention/flash_attn_lanes.hpp"
#include "backends/cpu/kernels/attention/soft_rows.hpp"

/// Few queries and many values: the values are what takes time, so each is read once for several
/// queries.
HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

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
void add_rows(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
              float* const* y, int count) {
    Asking(ahead, 1).go_on();
    for (int q = 0; q < count; ++q) add_some_rows<T>(panel, weights[q], y[q]);
}

#else

constexpr hn::ScalableTag<float> kLanes;
using V = hn::Vec<decltype(kLanes)>;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));
constexpr std::int64_t kPair = 2 * kVector;

// ---- weighted sums -----------------------------------------------------------------------------

/// Rows that go through all of their elements before the next ones: they stay in the first cache.
constexpr std::int64_t kBlockRows = 32;

/// Pairs of vectors that are summed up together: as many sums as keep the processor busy.
template <int kQueries>
constexpr int kPairsAtOnce = (kStripWidth == 12 && kQueries > 1 ? 8 : 4) / kQueries;

/// Adds up to `kBlockRows` rows to `kPairs` pairs of elements from `i` on.
template <class T, int kQueries, int kPairs>
HWY_INLINE void add_slice(const Panel& panel, const float* const* weights, float* const* y,
                          std::int64_t i, Asking& ahead) {
    constexpr int kVectors = 2 * kPairs;
    V sums[kQueries][kVectors];
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sums[q][v] = hn::LoadU(kLanes, y[q] + i + v * kVector);
    }
    for (std::int64_t j = 0; j < panel.count; ++j) {
        if (i == 0) ahead.go_on();
        const T* row = row_of<T>(panel, j);
        V x[kVectors];
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) x[v] = load_element(kLanes, row, i + v * kVector);
        HWY_UNROLL(4)
        for (int q = 0; q < kQueries; ++q) {
            const V weight = hn::Set(kLanes, weights[q][j]);
            HWY_UNROLL(8)
            for (int v = 0; v < kVectors; ++v) sums[q][v] = hn::MulAdd(x[v], weight, sums[q][v]);
        }
    }
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[q][v], kLanes, y[q] + i + v * kVector);
    }
}

/// Adds a block of rows from element `i` on, as far as whole pairs go; returns how far that is.
template <class T, int kQueries, int kPairs>
HWY_INLINE std::int64_t add_slices(const Panel& block, const float* const* weights, float* const* y,
                                   std::int64_t i, Asking& ahead) {
    for (; i + kPairs * kPair <= block.depth; i += kPairs * kPair) {
        add_slice<T, kQueries, kPairs>(block, weights, y, i, ahead);
    }
    if constexpr (kPairs > 1) {
        i = add_slices<T, kQueries, kPairs / 2>(block, weights, y, i, ahead);
    }
    return i;
}

template <class T, int kQueries>
void add_block(const Panel& block, const float* const* weights, float* const* y, Asking& ahead) {
    std::int64_t i = add_slices<T, kQueries, kPairsAtOnce<kQueries> >(block, weights, y, 0, ahead);
    for (; i < block.depth; ++i) {
        for (int q = 0; q < kQueries; ++q) {
            float sum = y[q][i];
            for (std::int64_t j = 0; j < block.count; ++j) {
                sum += weights[q][j] * element(row_of<T>(block, j), i);
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
    Asking asking(ahead, panel.count);
    for (std::int64_t begin = 0; begin < panel.count; begin += kBlockRows) {
        Panel block = panel;
        block.rows += static_cast<std::size_t>(begin) * panel.pitch;
        block.count = panel.count - begin < kBlockRows ? panel.count - begin : kBlockRows;
        const float* shifted[kQueries];
        bool is_simple = true;
        for (int q = 0; q < kQueries; ++q) {
            shifted[q] = weights[q] + begin;
            is_simple &= !has_zero(shifted[q], block.count);
        }
        if (is_simple) {
            add_block<T, kQueries>(block, shifted, y, asking);
            continue;
        }
        for (int q = 0; q < kQueries; ++q) add_some_rows<T>(block, shifted[q], y[q]);
    }
}

template <class T>
void add_rows(const Panel& panel, const RowsAhead& ahead, const float* const* weights,
              float* const* y, int count) {
    for_queries(count, ahead, [&](auto number, int q, const RowsAhead& asked) HWY_ATTR {
        add_queries<T, number>(panel, asked, weights + q, y + q);
    });
}

#endif
}  // namespace

AddRows rows_adder(Type type) {
    if (type == GGML_TYPE_F32) return add_rows<float>;
    if (type == GGML_TYPE_F16) return add_rows<F16>;
    if (type == GGML_TYPE_BF16) return add_rows<Bf16>;
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(rows_adder);

AddRows add_rows_of(Type type) {
    const AddRows of_codes = code_adder_of(type);
    return of_codes != nullptr ? of_codes : HWY_DYNAMIC_DISPATCH(rows_adder)(type);
}

}  // namespace heddle::cpu
#endif
