#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/plain_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/stream.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

/// One row after the other, as they lie in memory: the processor sees where this leads and fetches
/// ahead by itself.
template <class T>
void stream_plain(const Panel& panel, const std::byte* column, float* out) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto* b = reinterpret_cast<const float*>(column);
    const std::byte* row = panel.rows;
    for (std::int64_t r = 0; r < panel.count; ++r, row += panel.pitch) {
        const T* a = reinterpret_cast<const T*>(row);
        const auto add = [&](std::int64_t at, auto sum) HWY_ATTR {
            return hn::MulAdd(load_f32(lanes, a + at), hn::LoadU(lanes, b + at), sum);
        };
        auto sum0 = hn::Zero(lanes), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        std::int64_t i = 0;
        for (; i + 4 * step <= panel.depth; i += 4 * step) {
            sum0 = add(i, sum0);
            sum1 = add(i + step, sum1);
            sum2 = add(i + 2 * step, sum2);
            sum3 = add(i + 3 * step, sum3);
        }
        const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
        float total = hn::GetLane(hn::SumOfLanes(lanes, sum));
        for (; i < panel.depth; ++i) total += to_float(a[i]) * b[i];
        out[r] = total;
    }
}

}  // namespace

StreamKernel plain_stream(Type type) {
    if (type == GGML_TYPE_F32) return {.multiply = stream_plain<float>};
    if (type == GGML_TYPE_F16) return {.multiply = stream_plain<F16>};
    if (type == GGML_TYPE_BF16) return {.multiply = stream_plain<Bf16>};
    return {};
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(plain_stream);

StreamKernel plain_stream_of(Type type) { return HWY_DYNAMIC_DISPATCH(plain_stream)(type); }

StreamKernel stream_kernel_of(Type type) {
    for (const auto family : {plain_stream_of, simple_stream_of, k_stream_of}) {
        if (const StreamKernel kernel = family(type)) return kernel;
    }
    return {};
}

}  // namespace heddle::cpu
#endif
