// What SOFT_MAX computes of pieces of rows, wherever logits come from. Included once per
// instruction set.

#if defined(HEDDLE_CPU_LOGITS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_LOGITS_HPP
#undef HEDDLE_CPU_LOGITS_HPP
#else
#define HEDDLE_CPU_LOGITS_HPP
#endif

#include <limits>

#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// Of a piece of a row: the largest logit, and the sum of all e^(logit - largest).
struct SoftPart {
    double sum;
    float largest;
};

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

// Where logits come from. `at` gives them in units of `unit`.

/// unit * x, of which the largest x makes the largest.
struct PlainLogits {
    static constexpr bool kIsMasked = false;
    const float* x;
    float unit;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        return hn::LoadU(d, x + i);
    }
};

/// scale * x, with any scale.
struct ScaledLogits {
    static constexpr bool kIsMasked = false;
    const float* x;
    float scale;
    static constexpr float unit = 1;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        return hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
    }
};

/// scale * x + slope * mask
template <class MaskRows>
struct MaskedLogits {
    static constexpr bool kIsMasked = true;
    const float* x;
    float scale;
    const std::byte* mask;
    float slope;
    static constexpr float unit = 1;

    template <class D>
    HWY_INLINE hn::Vec<D> at(D d, std::int64_t i) const {
        const auto weight = hn::Set(d, slope);
        return hn::MulAdd(weight, MaskRows::load(d, mask + i * MaskRows::kSize),
                          hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale)));
    }
};

template <class L>
HWY_INLINE float largest_of(const L& logits, std::int64_t n) {
    const Floats d;
    const hn::CappedTag<float, 1> single;
    const std::int64_t step = lane_count(d);
    const auto never = hn::Set(d, kNever);
    auto most0 = never, most1 = never, most2 = never, most3 = never;
    std::int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
        most0 = hn::Max(most0, logits.at(d, i));
        most1 = hn::Max(most1, logits.at(d, i + step));
        most2 = hn::Max(most2, logits.at(d, i + 2 * step));
        most3 = hn::Max(most3, logits.at(d, i + 3 * step));
    }
    for (; i + step <= n; i += step) most0 = hn::Max(most0, logits.at(d, i));
    auto most =
        hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(most0, most1), hn::Max(most2, most3))));
    for (; i < n; ++i) {
        const float last = hn::GetLane(logits.at(single, i));
        most = last > most ? last : most;
    }
    return most;
}

/// y = e^(logit - base) and the sum of them; the base is in units of the logits. `beside(i)` is
/// called for each whole vector, for work that memory has time for meanwhile.
template <class L, class Beside>
HWY_INLINE double exponentials(const L& logits, float* y, std::int64_t n, float base,
                               Beside beside) {
    const Floats d;
    const hn::CappedTag<float, 1> single;
    const std::int64_t step = lane_count(d);
    const PowerConstants c = PowerConstants::held();
    const float unit = logits.unit * c.log2e;
    const auto term = [base, unit, c](auto tag, auto logit) HWY_ATTR {
        return exp2_of(tag, hn::Mul(hn::Sub(logit, hn::Set(tag, base)), hn::Set(tag, unit)), c);
    };
    const hn::ScalableTag<double> dd;
    auto total = hn::Zero(dd);
    std::int64_t i = 0;
    while (i + step <= n) {
        const std::int64_t stretch = 2 * step * kFloatsPerLane;
        const std::int64_t end = n - i < stretch ? n : i + stretch;
        auto sum0 = hn::Zero(d), sum1 = sum0;
        for (; i + 2 * step <= end; i += 2 * step) {
            const auto e0 = term(d, logits.at(d, i)), e1 = term(d, logits.at(d, i + step));
            // Before the results are stored: rows are often a multiple of 4 KiB apart, and then
            // loads from one wait for stores to the same place in another.
            beside(i);
            beside(i + step);
            hn::StoreU(e0, d, y + i);
            hn::StoreU(e1, d, y + i + step);
            sum0 = hn::Add(sum0, e0);
            sum1 = hn::Add(sum1, e1);
        }
        for (; i + step <= end; i += step) {
            const auto e = term(d, logits.at(d, i));
            hn::StoreU(e, d, y + i);
            sum0 = hn::Add(sum0, e);
            beside(i);
        }
        total = add_lanes(dd, total, hn::Add(sum0, sum1));
    }
    double sum = hn::GetLane(hn::SumOfLanes(dd, total));
    for (; i < n; ++i) {
        y[i] = hn::GetLane(term(single, logits.at(single, i)));
        sum += static_cast<double>(y[i]);
    }
    return sum;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_LOGITS_HPP
