#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_sums.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>
#include <span>

#include "backends/cpu/dot/micro_panel_lanes.hpp"
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
void add_some_rows(const MatrixView& view, const float* weights, float* y) {
    float pending[4];
    const T* x[4];
    int found = 0;
    for (std::int64_t j = 0; j < view.count; ++j) {
        if (weights[j] == 0) continue;
        pending[found] = weights[j];
        x[found++] = row_of<T>(view, j);
        if (found < 4) continue;
        add_four_rows(pending, x, y, view.depth);
        found = 0;
    }
    for (int r = 0; r < found; ++r) add_row(pending[r], x[r], y, view.depth);
}

/// Rows that all heads see before they go on: they stay in L1.
constexpr std::int64_t kBlockRows = 8;

#if !HEDDLE_HAS_MICRO_PANELS

template <class T, int kQueries>
void add_block(const MatrixView& block, const float* const* weights, float* const* y,
               std::int64_t first) {
    for (int q = 0; q < kQueries; ++q) add_some_rows<T>(block, weights[q] + first, y[q]);
}

#else

constexpr hn::ScalableTag<float> kLanes;
using V = hn::Vec<decltype(kLanes)>;
constexpr auto kVector = static_cast<std::int64_t>(hn::MaxLanes(kLanes));

// ---- weighted sums -----------------------------------------------------------------------------

/// Vectors that are summed up together: as many sums as keep the CPU busy.
template <int kQueries>
constexpr int kVectorsAtOnce = (kMicroPanelWidth == 12 && kQueries > 1 ? 16 : 8) / kQueries;

/// Adds rows to `kVectors` vectors of elements from `i` on.
template <class T, int kQueries, int kVectors>
HWY_INLINE void add_slice(const MatrixView& view, const float* const* weights, float* const* y,
                          std::int64_t i) {
    V sums[kQueries][kVectors];
    HWY_UNROLL(4)
    for (int q = 0; q < kQueries; ++q) {
        HWY_UNROLL(8)
        for (int v = 0; v < kVectors; ++v) sums[q][v] = hn::LoadU(kLanes, y[q] + i + v * kVector);
    }
    for (std::int64_t j = 0; j < view.count; ++j) {
        const T* row = row_of<T>(view, j);
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

/// Adds a block of rows from element `i` on, as far as whole vectors go; returns how far that is.
template <class T, int kQueries, int kVectors>
HWY_INLINE std::int64_t add_slices(const MatrixView& block, const float* const* weights,
                                   float* const* y, std::int64_t i) {
    for (; i + kVectors * kVector <= block.depth; i += kVectors * kVector) {
        add_slice<T, kQueries, kVectors>(block, weights, y, i);
    }
    if constexpr (kVectors > 1) {
        i = add_slices<T, kQueries, kVectors / 2>(block, weights, y, i);
    }
    return i;
}

template <class T, int kQueries>
HWY_INLINE void add_all_rows(const MatrixView& block, const float* const* weights,
                             float* const* y) {
    std::int64_t i = add_slices<T, kQueries, kVectorsAtOnce<kQueries> >(block, weights, y, 0);
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

HWY_INLINE bool has_zero(const float* weights, std::int64_t n) {
    const hn::FixedTag<float, 4> four;
    const auto zero = hn::Zero(four);
    auto any = hn::Ne(zero, zero);
    std::int64_t j = 0;
    for (; j + 4 <= n; j += 4) any = hn::Or(any, hn::Eq(hn::LoadU(four, weights + j), zero));
    bool found = !hn::AllFalse(four, any);
    for (; j < n; ++j) found |= weights[j] == 0;
    return found;
}

template <class T, int kQueries>
HWY_INLINE void add_block(const MatrixView& block, const float* const* weights, float* const* y,
                          std::int64_t first) {
    const float* shifted[kQueries];
    bool is_simple = true;
    for (int q = 0; q < kQueries; ++q) {
        shifted[q] = weights[q] + first;
        is_simple &= !has_zero(shifted[q], block.count);
    }
    if (HWY_LIKELY(is_simple)) return add_all_rows<T, kQueries>(block, shifted, y);
    for (int q = 0; q < kQueries; ++q) add_some_rows<T>(block, shifted[q], y[q]);
}

#endif

template <class T>
void add_rows(const MatrixView& view, std::span<const HeadSums> heads, int queries,
              const Ahead& ahead) {
    // With several queries it takes longer to read and write all sums.
    for_blocks(
        view, heads, queries > 1 ? 2 * kBlockRows : kBlockRows, queries, ahead,
        [&](auto number, const MatrixView& block, const HeadSums& head, int q, std::int64_t first)
            HWY_ATTR { add_block<T, number>(block, head.weights + q, head.sums + q, first); });
}

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
