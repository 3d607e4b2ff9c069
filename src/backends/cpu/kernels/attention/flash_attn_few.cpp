#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/flash_attn_few.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstddef>

#include "backends/cpu/dot/fetch.hpp"
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

/// Asks for rows ahead, a few cache lines in each of `steps` steps.
class Asking {
public:
    HWY_INLINE Asking(const RowsAhead& ahead, std::int64_t steps)
        : row_(ahead.rows), size_(ahead.size), pitch_(ahead.pitch), left_(ahead.count) {
        const auto lines = ahead.count * static_cast<std::int64_t>((size_ + kLine - 1) / kLine);
        lines_ = (lines + steps - 1) / steps;
    }

    HWY_INLINE void go_on() {
        for (std::int64_t n = left_ > 0 ? lines_ : 0; n > 0; --n) {
            fetch_soon(row_ + offset_);
            offset_ += kLine;
            if (offset_ < size_) continue;
            offset_ = 0;
            row_ += pitch_;
            if (--left_ == 0) return;
        }
    }

private:
    static constexpr std::size_t kLine = 64;

    const std::byte* row_;
    std::size_t size_, pitch_, offset_ = 0;
    std::int64_t left_, lines_;
};

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

/// Half of the elements of a row from `i` on, a multiple of `kPair`.
template <class T>
HWY_INLINE V load_half(const T* row, std::int64_t i, int half) {
    return load_element(kLanes, row, i + half * kVector);
}
HWY_INLINE V load_half(const Q8Block* row, std::int64_t i, int half) {
    static_assert(32 % kPair == 0);  // one scale for both halves, which the compiler sees
    const Q8Block& block = row[i / 32];
    return hn::Mul(load_codes(kLanes, block.codes + i % 32 + half * kVector),
                   hn::Set(kLanes, half_to_float(block.scale)));
}

// ---- weighted sums -----------------------------------------------------------------------------

/// Rows that go through all of their elements before the next ones: they stay in the first cache.
constexpr std::int64_t kBlockRows = 32;

/// Pairs of vectors that are summed up together: as many sums as keep the processor busy.
template <int kQueries>
constexpr int kPairsAtOnce = (kStripWidth == 12 && kQueries > 1 ? 8 : 4) / kQueries;

/// The weights of up to `kBlockRows` rows of a panel, for `kPairs` pairs of elements from `i` on.
template <class T, int kQueries, int kPairs>
struct SliceWeights {
    const float* const* weights;

    SliceWeights(const Panel&, const float* const* of, std::int64_t) : weights(of) {}

    HWY_INLINE V get(int q, int, std::int64_t j) const { return hn::Set(kLanes, weights[q][j]); }

    static HWY_INLINE V load(const T* row, std::int64_t i, int half) {
        return load_half(row, i, half);
    }
};

/// Weights are multiplied with the scales of blocks, so that codes need not be.
template <int kQueries, int kPairs>
struct SliceWeights<Q8Block, kQueries, kPairs> {
    static constexpr int kBlocks = kPairs * kPair < 32 ? 1 : static_cast<int>(kPairs * kPair / 32);
    HWY_ALIGN float of[kBlocks][kQueries][kBlockRows];

    SliceWeights(const Panel& panel, const float* const* weights, std::int64_t i) {
        for (int b = 0; b < kBlocks; ++b) {
            HWY_ALIGN F16 scales[kBlockRows] = {};
            for (std::int64_t j = 0; j < panel.count; ++j) {
                scales[j].bits = row_of<Q8Block>(panel, j)[i / 32 + b].scale;
            }
            for (std::int64_t j = 0; j < panel.count; j += kVector) {
                const V scale = load_f32(kLanes, scales + j);
                for (int q = 0; q < kQueries; ++q) {
                    hn::Store(hn::Mul(hn::LoadU(kLanes, weights[q] + j), scale), kLanes,
                              of[b][q] + j);
                }
            }
        }
    }

    HWY_INLINE V get(int q, int pair, std::int64_t j) const {
        return hn::Set(kLanes, of[pair * kPair / 32][q][j]);
    }

    static HWY_INLINE V load(const Q8Block* row, std::int64_t i, int half) {
        return load_codes(kLanes, row[i / 32].codes + i % 32 + half * kVector);
    }
};

/// Adds up to `kBlockRows` rows to `kPairs` pairs of elements from `i` on.
template <class T, int kQueries, int kPairs>
HWY_INLINE void add_slice(const Panel& panel, const float* const* weights, float* const* y,
                          std::int64_t i, Asking& ahead) {
    constexpr int kVectors = 2 * kPairs;
    const SliceWeights<T, kQueries, kPairs> slice(panel, weights, i);
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
        for (int v = 0; v < kVectors; ++v) x[v] = slice.load(row, i + v / 2 * kPair, v % 2);
        HWY_UNROLL(4)
        for (int q = 0; q < kQueries; ++q) {
            HWY_UNROLL(8)
            for (int v = 0; v < kVectors; ++v) {
                sums[q][v] = hn::MulAdd(x[v], slice.get(q, v / 2, j), sums[q][v]);
            }
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
                for (int r = 0; r < kRows; ++r) x[r] = load_half(row[r], i, half);
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
