// Recurrent states whose elements decay at every token. Included once per instruction set, after
// hwy/foreach_target.h, which is what the odd include guard is about.
//
// To multiply a state by its decays at every token takes as long as to add what the token brings.
// So a state is not multiplied during a run of tokens: it is kept divided by the product of the
// decays since the run began. What a token brings is divided by that product, what reads the state
// is multiplied by it, and these are vectors where the state is a matrix. The last token of the run
// multiplies the state by the whole product, and from then on it is what it should be. A run ends
// at the token whose product is too small, or too large, to be divided by.

#if defined(HEDDLE_CPU_DECAYED_STATES_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_DECAYED_STATES_HPP
#undef HEDDLE_CPU_DECAYED_STATES_HPP
#else
#define HEDDLE_CPU_DECAYED_STATES_HPP
#endif

#include <hwy/cache_control.h>

#include "backends/cpu/dot/block_lanes.hpp"
#include "backends/cpu/kernels/recurrent/runs.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors that arrays can hold.
#if HWY_TARGET == HWY_SCALAR
using StateLanes = hn::FixedTag<float, 1>;
#else
using StateLanes = BlockFloats;
#endif
using OneLane = hn::FixedTag<float, 1>;
inline constexpr std::int64_t kStateLanes = hn::MaxLanes(StateLanes());

/// Vectors of a state that registers hold, beside as many for other things.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
inline constexpr int kStateVectors = 8;
#else
inline constexpr int kStateVectors = 16;
#endif

/// Calls `f(d, i)` for vectors from element i on, and for the elements that are left.
template <class F>
HWY_INLINE void for_lanes(std::int64_t n, const F& f) {
    std::int64_t i = 0;
    for (; i + kStateLanes <= n; i += kStateLanes) f(StateLanes(), i);
    for (; i < n; ++i) f(OneLane(), i);
}

/// The sums of the lanes of vectors.
template <class D, int kCount>
HWY_INLINE void add_lanes(D d, const hn::Vec<D> (&v)[kCount], float (&to)[kCount]) {
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kCount == 4 && hn::MaxLanes(D()) > 1) {
        hn::StoreU(fold_four(d, v[0], v[1], v[2], v[3], AddOp()), FourFloats(), to);
        return;
    }
#endif
    for (int i = 0; i < kCount; ++i) to[i] = hn::GetLane(hn::SumOfLanes(d, v[i]));
}

/// Has `n` floats brought into the cache: those of tokens lie too far apart for the machine to
/// guess where the next ones are.
HWY_INLINE void fetch(const float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += 16) hwy::Prefetch(x + i);
}

/// Products that floats can be divided by with room to spare.
inline constexpr float kLeastProduct = 0x1p-40f, kMostProduct = 0x1p40f;

/// Takes the decays of a token into the product since the run began. Whether the run can go on.
HWY_INLINE bool extend_product(const float* decays, bool is_first, float* product, std::int64_t n) {
    bool can_go_on = true;
    for_lanes(n, [&](auto d, std::int64_t i) HWY_ATTR {
        auto value = hn::LoadU(d, decays + i);
        if (!is_first) value = hn::Mul(value, hn::LoadU(d, product + i));
        hn::StoreU(value, d, product + i);
        const auto size = hn::Abs(value);
        can_go_on &= hn::AllTrue(d, hn::And(hn::Ge(size, hn::Set(d, kLeastProduct)),
                                            hn::Le(size, hn::Set(d, kMostProduct))));
    });
    return can_go_on;
}

/// The sum of a b c.
HWY_INLINE float sum_of_products(const float* a, const float* b, const float* c, std::int64_t n) {
    const StateLanes d;
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i + kStateLanes <= n; i += kStateLanes) {
        sum =
            hn::MulAdd(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), hn::LoadU(d, c + i), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) total += a[i] * b[i] * c[i];
    return total;
}

/// y = x / product, or x where the run ends.
HWY_INLINE void divide_by_product(const float* x, const float* product, bool is_last, float* y,
                                  std::int64_t n) {
    for_lanes(n, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto value = hn::LoadU(d, x + i);
        hn::StoreU(is_last ? value : hn::Div(value, hn::LoadU(d, product + i)), d, y + i);
    });
}

/// y = x scale product, or x scale without a product.
HWY_INLINE void multiply_by_product(const float* x, float scale, const float* product, float* y,
                                    std::int64_t n) {
    for_lanes(n, [&](auto d, std::int64_t i) HWY_ATTR {
        const auto value = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
        hn::StoreU(product ? hn::Mul(value, hn::LoadU(d, product + i)) : value, d, y + i);
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_DECAYED_STATES_HPP
