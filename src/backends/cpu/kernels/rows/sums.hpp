// Sums over rows of floats, in double but for short stretches. Included once per instruction set.

#if defined(HEDDLE_CPU_ROW_SUMS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_ROW_SUMS_HPP
#undef HEDDLE_CPU_ROW_SUMS_HPP
#else
#define HEDDLE_CPU_ROW_SUMS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Floats that one lane adds up before it goes on in double: few enough that they lose no more than
/// rounding each of them would.
inline constexpr std::int64_t kFloatsPerLane = 16;

/// The lanes of `sum` added to `total`.
template <class DD, class V>
HWY_INLINE hn::Vec<DD> add_lanes(DD dd, hn::Vec<DD> total, V sum) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Add(total, hn::PromoteTo(dd, sum));
#else
    const hn::Rebind<float, DD> half;
    total = hn::Add(total, hn::PromoteTo(dd, hn::LowerHalf(half, sum)));
    return hn::Add(total, hn::PromoteTo(dd, hn::UpperHalf(half, sum)));
#endif
}

/// Sum of `term(d, i)` over i < n, where the term gives floats i and up in as many lanes as d has.
/// The order of additions depends on n and on the instruction set only.
template <class Term>
HWY_INLINE double sum_terms(std::int64_t n, Term term) {
    const hn::ScalableTag<float> df;
    const hn::ScalableTag<double> dd;
    const hn::CappedTag<float, 1> single;
    const auto step = static_cast<std::int64_t>(hn::Lanes(df));
    auto total = hn::Zero(dd);
    std::int64_t i = 0;
    const std::int64_t whole = n - n % (4 * step);
    while (i < whole) {
        const std::int64_t stretch = 4 * step * kFloatsPerLane;
        const std::int64_t end = whole - i < stretch ? whole : i + stretch;
        auto sum0 = hn::Zero(df), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (; i < end; i += 4 * step) {
            sum0 = hn::Add(sum0, term(df, i));
            sum1 = hn::Add(sum1, term(df, i + step));
            sum2 = hn::Add(sum2, term(df, i + 2 * step));
            sum3 = hn::Add(sum3, term(df, i + 3 * step));
        }
        total = add_lanes(dd, total, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
    }
    for (; i + step <= n; i += step) total = add_lanes(dd, total, term(df, i));
    double sum = hn::GetLane(hn::SumOfLanes(dd, total));
    for (; i < n; ++i) sum += static_cast<double>(hn::GetLane(term(single, i)));
    return sum;
}

inline double sum_of(const float* x, std::int64_t n) {
    return sum_terms(n, [x](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

inline double sum_of_products(const float* a, const float* b, std::int64_t n) {
    return sum_terms(n, [a, b](auto d, std::int64_t i)
                            HWY_ATTR { return hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)); });
}

/// Sum of (x - centre)^2.
inline double sum_of_squares(const float* x, std::int64_t n, float centre) {
    return sum_terms(n, [x, centre](auto d, std::int64_t i) HWY_ATTR {
        const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, centre));
        return hn::Mul(distance, distance);
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_ROW_SUMS_HPP
