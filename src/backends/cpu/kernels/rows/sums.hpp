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

/// Elements from `i` on that a sum by whole vectors leaves out.
template <class AddTerm>
HWY_INLINE double sum_one_by_one(std::int64_t i, std::int64_t n, AddTerm add_term) {
    const hn::CappedTag<float, 1> single;
    double sum = 0;
    for (; i < n; ++i) {
        sum += static_cast<double>(hn::GetLane(add_term(single, hn::Zero(single), i)));
    }
    return sum;
}

/// Every term in double: for terms so large that a few of them overflow.
template <class AddTerm>
HWY_NOINLINE double sum_large_terms(std::int64_t n, AddTerm add_term) {
    const hn::ScalableTag<float> df;
    const hn::ScalableTag<double> dd;
    const auto step = static_cast<std::int64_t>(hn::Lanes(df));
    auto total = hn::Zero(dd);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) total = add_lanes(dd, total, add_term(df, hn::Zero(df), i));
    return hn::GetLane(hn::SumOfLanes(dd, total)) + sum_one_by_one(i, n, add_term);
}

/// Sum of the terms i < n, where `add_term(d, sum, i)` adds floats i and up, as many as d has
/// lanes. The order of additions depends on n and on the instruction set only.
template <class AddTerm>
HWY_INLINE double sum_terms(std::int64_t n, AddTerm add_term) {
    const hn::ScalableTag<float> df;
    const hn::ScalableTag<double> dd;
    const auto step = static_cast<std::int64_t>(hn::Lanes(df));
    const auto zero = hn::Zero(df);
    auto total = hn::Zero(dd);
    std::int64_t i = 0;
    const std::int64_t whole = n - n % (4 * step);
    while (i < whole) {
        const std::int64_t stretch = 4 * step * kFloatsPerLane;
        const std::int64_t end = whole - i < stretch ? whole : i + stretch;
        auto sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
        for (; i < end; i += 4 * step) {
            sum0 = add_term(df, sum0, i);
            sum1 = add_term(df, sum1, i + step);
            sum2 = add_term(df, sum2, i + 2 * step);
            sum3 = add_term(df, sum3, i + 3 * step);
        }
        total = add_lanes(dd, total, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
    }
    for (; i + step <= n; i += step) total = add_lanes(dd, total, add_term(df, zero, i));
    const double sum = hn::GetLane(hn::SumOfLanes(dd, total)) + sum_one_by_one(i, n, add_term);
    const bool is_finite = sum - sum == 0;
    return HWY_LIKELY(is_finite) ? sum : sum_large_terms(n, add_term);
}

inline double sum_of(const float* x, std::int64_t n) {
    return sum_terms(n, [x](auto d, auto sum, std::int64_t i)
                            HWY_ATTR { return hn::Add(sum, hn::LoadU(d, x + i)); });
}

inline double sum_of_products(const float* a, const float* b, std::int64_t n) {
    return sum_terms(n, [a, b](auto d, auto sum, std::int64_t i) HWY_ATTR {
        return hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
    });
}

/// Sum of (x - centre)^2.
inline double sum_of_squares(const float* x, std::int64_t n, float centre) {
    return sum_terms(n, [x, centre](auto d, auto sum, std::int64_t i) HWY_ATTR {
        const auto distance = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, centre));
        return hn::MulAdd(distance, distance, sum);
    });
}

/// Sums of x - centre and of its square.
struct Moments {
    double sum = 0, squares = 0;
};

/// Both in one pass. Terms so large that a few of them overflow make them infinite. A function of
/// its own, so that the sums have all registers.
template <class D>
HWY_NOINLINE Moments moments_of(D df, const float* x, std::int64_t n, float centre) {
    const hn::ScalableTag<double> dd;
    const auto step = static_cast<std::int64_t>(hn::Lanes(df));
    const auto zero = hn::Zero(df), middle = hn::Set(df, centre);
    const auto add = [=](std::int64_t i, auto& sum, auto& squares) HWY_ATTR {
        const auto distance = hn::Sub(hn::LoadU(df, x + i), middle);
        sum = hn::Add(sum, distance);
        squares = hn::MulAdd(distance, distance, squares);
    };
    auto sums = hn::Zero(dd), squares = sums;
    std::int64_t i = 0;
    const std::int64_t whole = n - n % (4 * step);
    while (i < whole) {
        const std::int64_t stretch = 4 * step * kFloatsPerLane;
        const std::int64_t end = whole - i < stretch ? whole : i + stretch;
        auto sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
        auto squares0 = zero, squares1 = zero, squares2 = zero, squares3 = zero;
        for (; i < end; i += 4 * step) {
            add(i, sum0, squares0);
            add(i + step, sum1, squares1);
            add(i + 2 * step, sum2, squares2);
            add(i + 3 * step, sum3, squares3);
        }
        sums = add_lanes(dd, sums, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
        squares = add_lanes(dd, squares,
                            hn::Add(hn::Add(squares0, squares1), hn::Add(squares2, squares3)));
    }
    Moments moments{hn::GetLane(hn::SumOfLanes(dd, sums)),
                    hn::GetLane(hn::SumOfLanes(dd, squares))};
    for (; i < n; ++i) {
        const double distance = static_cast<double>(x[i]) - static_cast<double>(centre);
        moments.sum += distance;
        moments.squares += distance * distance;
    }
    return moments;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_ROW_SUMS_HPP
