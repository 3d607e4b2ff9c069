#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/plain_stream.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/lanes.hpp"
#include "backends/cpu/dot/stream.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace {

/// The elements of four vectors.
template <class D, class T, class V>
HWY_INLINE void load_four(D d, const T* from, V& x0, V& x1, V& x2, V& x3) {
    const std::size_t step = hn::Lanes(d);
    x0 = load_f32(d, from), x1 = load_f32(d, from + step);
    x2 = load_f32(d, from + 2 * step), x3 = load_f32(d, from + 3 * step);
}

#if HEDDLE_HAS_F16_LANES && HWY_ARCH_X86
/// All four loads are on their way before the first conversion. As operands of the conversions, the
/// form that the compiler prefers, they are a fifth slower from memory.
template <class D, class V>
HWY_INLINE void load_four(D d, const F16* from, V& x0, V& x1, V& x2, V& x3) {
    const hn::Rebind<hwy::float16_t, D> halves;
    const auto* at = reinterpret_cast<const hwy::float16_t*>(from);
    const std::size_t step = hn::Lanes(d);
    auto h0 = hn::LoadU(halves, at), h1 = hn::LoadU(halves, at + step);
    auto h2 = hn::LoadU(halves, at + 2 * step), h3 = hn::LoadU(halves, at + 3 * step);
    asm volatile("" : "+v"(h0.raw), "+v"(h1.raw), "+v"(h2.raw), "+v"(h3.raw));
    x0 = hn::PromoteTo(d, h0), x1 = hn::PromoteTo(d, h1);
    x2 = hn::PromoteTo(d, h2), x3 = hn::PromoteTo(d, h3);
}
#endif

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
        auto sum0 = hn::Zero(lanes), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        std::int64_t i = 0;
        for (; i + 4 * step <= panel.depth; i += 4 * step) {
            auto x0 = hn::Zero(lanes), x1 = x0, x2 = x0, x3 = x0;
            load_four(lanes, a + i, x0, x1, x2, x3);
            sum0 = hn::MulAdd(x0, hn::LoadU(lanes, b + i), sum0);
            sum1 = hn::MulAdd(x1, hn::LoadU(lanes, b + i + step), sum1);
            sum2 = hn::MulAdd(x2, hn::LoadU(lanes, b + i + 2 * step), sum2);
            sum3 = hn::MulAdd(x3, hn::LoadU(lanes, b + i + 3 * step), sum3);
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
