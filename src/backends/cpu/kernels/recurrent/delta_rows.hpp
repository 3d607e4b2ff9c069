// Matrices whose rows change by what they recall: each row belongs to a value, columns to keys, so
// each row goes its own way. Included once per instruction set, after hwy/foreach_target.h, which
// is what the odd include guard is about.

#if defined(HEDDLE_CPU_DELTA_ROWS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DELTA_ROWS_HPP
#undef HEDDLE_CPU_DELTA_ROWS_HPP
#else
#define HEDDLE_CPU_DELTA_ROWS_HPP
#endif

#include "backends/cpu/kernels/recurrent/decayed_states.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What a token does to a row m with value v, given factors for each key:
///   recalled = sum of m ask;  m = m + change bring + v brings_value;  y = sum of m read.
/// The change is `recalled` where a token brings values too, else rate (v - recalled).
struct DeltaToken {
    const float *ask, *bring, *read;
    const float* brings_value;  ///< null: nothing
    const float* product;       ///< what m is multiplied by after it was asked; null: nothing
    float rate;
    const float* v;
    float* y;

    template <bool kBringsValue>
    HWY_INLINE float change(std::int64_t row, float recalled) const {
        return kBringsValue ? recalled : rate * (v[row] - recalled);
    }
};

/// Elements of rows that go through all tokens of a run before others do: half L1.
inline constexpr std::int64_t kElementsAtOnce = 4096;
inline constexpr std::int64_t kMostRowsAtOnce = 64;  // as many as there are keys

/// What a token finds in `kRows` rows of `n`, from `row` on.
template <int kRows, bool kBringsValue>
HWY_INLINE void ask_rows(const DeltaToken& token, std::int64_t row, const float* matrix,
                         std::int64_t n, float* changes) {
    const StateLanes d;
    const float* from = matrix + row * n;
    hn::Vec<StateLanes> sum[kRows];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + kStateLanes <= n; i += kStateLanes) {
        const auto ask = hn::LoadU(d, token.ask + i);
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
            sum[r] = hn::MulAdd(hn::LoadU(d, from + r * n + i), ask, sum[r]);
        }
    }
    float recalled[kRows];
    add_lanes(d, sum, recalled);
    for (; i < n; ++i) {
        for (int r = 0; r < kRows; ++r) recalled[r] += from[r * n + i] * token.ask[i];
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        changes[r] = token.change<kBringsValue>(row + r, recalled[r]);
    }
}

/// Changes `kRows` rows by what the token found.
template <int kRows, bool kBringsValue, bool kIsLast>
HWY_INLINE void change_rows(const DeltaToken& token, std::int64_t row, const float* changes,
                            const float* matrix, float* changed, std::int64_t n) {
    const StateLanes d;
    using V = hn::Vec<StateLanes>;
    const float *from = matrix + row * n, *v = token.v + row;
    const float *bring = token.bring, *read = token.read, *product = token.product;
    const float* brings_value = token.brings_value;
    float* to = changed + row * n;
    V change[kRows], value[kRows], sum[kRows];
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
        change[r] = hn::Set(d, changes[r]);
        value[r] = hn::Set(d, v[r]);
        sum[r] = hn::Zero(d);
    }
    std::int64_t i = 0;
    for (; i + kStateLanes <= n; i += kStateLanes) {
        const V in = hn::LoadU(d, bring + i), out = hn::LoadU(d, read + i);
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r) {
            V m = hn::LoadU(d, from + r * n + i);
            if constexpr (kIsLast) m = hn::Mul(m, hn::LoadU(d, product + i));
            if constexpr (kBringsValue) {
                m = hn::MulAdd(value[r], hn::LoadU(d, brings_value + i), m);
            }
            m = hn::MulAdd(change[r], in, m);
            hn::StoreU(m, d, to + r * n + i);
            sum[r] = hn::MulAdd(m, out, sum[r]);
        }
    }
    float y[kRows];
    add_lanes(d, sum, y);
    for (; i < n; ++i) {
        for (int r = 0; r < kRows; ++r) {
            float m = from[r * n + i];
            if constexpr (kIsLast) m *= product[i];
            if constexpr (kBringsValue) m += v[r] * brings_value[i];
            m += changes[r] * bring[i];
            to[r * n + i] = m;
            y[r] += m * read[i];
        }
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) token.y[row + r] = y[r];
}

/// First all rows are asked, then all are changed: so nothing waits for the sum of a single row.
template <bool kBringsValue, bool kIsLast>
HWY_INLINE void step_rows(const DeltaToken& token, Range rows, const float* from, float* to,
                          std::int64_t n) {
    float changes[kMostRowsAtOnce];
    const std::int64_t fours = rows.begin + (rows.end - rows.begin) / 4 * 4;
    const auto change_of = [&](std::int64_t row) { return changes + (row - rows.begin); };
    std::int64_t row = rows.begin;
    for (; row < fours; row += 4) ask_rows<4, kBringsValue>(token, row, from, n, change_of(row));
    for (; row < rows.end; ++row) ask_rows<1, kBringsValue>(token, row, from, n, change_of(row));
    row = rows.begin;
    for (; row < fours; row += 4) {
        change_rows<4, kBringsValue, kIsLast>(token, row, change_of(row), from, to, n);
    }
    for (; row < rows.end; ++row) {
        change_rows<1, kBringsValue, kIsLast>(token, row, change_of(row), from, to, n);
    }
}

/// All tokens of a run.
template <bool kBringsValue>
void run_rows(const DeltaToken* tokens, std::int64_t count, const float* from, float* to,
              std::int64_t n) {
    std::int64_t some = kElementsAtOnce / n / 4 * 4;
    some = some < 4 ? 4 : some > kMostRowsAtOnce ? kMostRowsAtOnce : some;
    for (std::int64_t row = 0; row < n; row += some) {
        const Range rows{row, row + some < n ? row + some : n};
        const float* source = from;
        for (std::int64_t t = 0; t + 1 < count; ++t, source = to) {
            step_rows<kBringsValue, false>(tokens[t], rows, source, to, n);
        }
        step_rows<kBringsValue, true>(tokens[count - 1], rows, source, to, n);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_DELTA_ROWS_HPP
