#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/dot_plain.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/dot.hpp"
#include "backends/cpu/dot/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Products and sums in f32. Four sums at a time: each addition has to wait for the one before.
template <class T>
float dot_plain(std::int64_t n, const T* x, const T* y) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    auto sum0 = hn::Zero(lanes), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    std::int64_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
        const T *a = x + i, *b = y + i;
        sum0 = hn::MulAdd(load_f32(lanes, a), load_f32(lanes, b), sum0);
        sum1 = hn::MulAdd(load_f32(lanes, a + step), load_f32(lanes, b + step), sum1);
        sum2 = hn::MulAdd(load_f32(lanes, a + 2 * step), load_f32(lanes, b + 2 * step), sum2);
        sum3 = hn::MulAdd(load_f32(lanes, a + 3 * step), load_f32(lanes, b + 3 * step), sum3);
    }
    for (; i + step <= n; i += step) {
        sum0 = hn::MulAdd(load_f32(lanes, x + i), load_f32(lanes, y + i), sum0);
    }
    const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    float total = hn::GetLane(hn::SumOfLanes(lanes, sum));
    for (; i < n; ++i) total += to_float(x[i]) * to_float(y[i]);
    return total;
}

template <class T>
void dot_plain_columns(std::int64_t n, const void* x, const void* const* y, float* out,
                       int columns) {
    for (int c = 0; c < columns; ++c) {
        out[c] = dot_plain(n, static_cast<const T*>(x), static_cast<const T*>(y[c]));
    }
}

}  // namespace

DotColumns dot_plain(Type type) {
    if (type == GGML_TYPE_F32) return dot_plain_columns<float>;
    if (type == GGML_TYPE_F16) return dot_plain_columns<F16>;
    if (type == GGML_TYPE_BF16) return dot_plain_columns<Bf16>;
    return nullptr;
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(dot_plain);

DotColumns dot_plain_of(Type type) { return HWY_DYNAMIC_DISPATCH(dot_plain)(type); }

}  // namespace heddle::cpu
#endif
