// Sums over rows of floats, added up in double. Included once per instruction set.

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

/// Sum of `term(d, i)` over i < n, where the term gives floats i and up in as many lanes as d has.
/// The order of additions depends on n and on the instruction set only.
template <class Term>
HWY_INLINE double sum_terms(std::int64_t n, Term term) {
    const hn::ScalableTag<double> dd;
    const hn::Rebind<float, decltype(dd)> df;
    const hn::CappedTag<float, 1> single;
    const auto step = static_cast<std::int64_t>(hn::Lanes(dd));
    auto sum0 = hn::Zero(dd), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    std::int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
        sum0 = hn::Add(sum0, hn::PromoteTo(dd, term(df, i)));
        sum1 = hn::Add(sum1, hn::PromoteTo(dd, term(df, i + step)));
        sum2 = hn::Add(sum2, hn::PromoteTo(dd, term(df, i + 2 * step)));
        sum3 = hn::Add(sum3, hn::PromoteTo(dd, term(df, i + 3 * step)));
    }
    for (; i + step <= n; i += step) sum0 = hn::Add(sum0, hn::PromoteTo(dd, term(df, i)));
    const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    double total = hn::GetLane(hn::SumOfLanes(dd, sum));
    for (; i < n; ++i) total += static_cast<double>(hn::GetLane(term(single, i)));
    return total;
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
