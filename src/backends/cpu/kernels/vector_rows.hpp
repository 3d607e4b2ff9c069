// Sums and products of rows of floats. Included once per instruction set, after
// hwy/foreach_target.h, which is what the odd include guard is about.

#if defined(HEDDLE_CPU_VECTOR_ROWS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_VECTOR_ROWS_HPP
#undef HEDDLE_CPU_VECTOR_ROWS_HPP
#else
#define HEDDLE_CPU_VECTOR_ROWS_HPP
#endif

#include "backends/cpu/kernels/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The element at `from`, whose type is that of `Rows`.
template <class Rows>
HWY_INLINE float load_one(const void* from) {
    return hn::GetLane(Rows::load(hn::CappedTag<float, 1>(), from));
}

/// y += weight * x
HWY_INLINE void add_scaled(float* y, const float* x, float weight, std::int64_t n) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto w = hn::Set(d, weight);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), w, hn::LoadU(d, y + i)), d, y + i);
    }
    for (; i < n; ++i) y[i] += weight * x[i];
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_VECTOR_ROWS_HPP
