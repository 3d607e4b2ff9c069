#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/dot/gemv_plain.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/dot/gemv.hpp"
#include "backends/cpu/dot/lanes.hpp"
#include "simd/opaque.hpp"

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
    opaque(h0, h1, h2, h3);
    x0 = hn::PromoteTo(d, h0), x1 = hn::PromoteTo(d, h1);
    x2 = hn::PromoteTo(d, h2), x3 = hn::PromoteTo(d, h3);
}
#endif

/// Three rows, each times the column.
template <class T, class B>
HWY_INLINE void gemv_three(const MatrixView& view, const RowsInThirds& rows, const B* b,
                           float* out) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto* a0 = reinterpret_cast<const T*>(rows.row[0]);
    const auto* a1 = reinterpret_cast<const T*>(rows.row[1]);
    const auto* a2 = reinterpret_cast<const T*>(rows.row[2]);
    // Names of their own because vectors of some machines cannot stand in arrays.
    auto even0 = hn::Zero(lanes), even1 = even0, even2 = even0;
    auto odd0 = even0, odd1 = even0, odd2 = even0;
    auto y0 = even0, y1 = y0, y2 = y0, y3 = y0, x0 = y0, x1 = y0, x2 = y0, x3 = y0;
    const auto multiply = [&](const T* from, auto& even, auto& odd) HWY_ATTR {
        load_four(lanes, from, x0, x1, x2, x3);
        even = hn::MulAdd(x0, y0, even), odd = hn::MulAdd(x1, y1, odd);
        even = hn::MulAdd(x2, y2, even), odd = hn::MulAdd(x3, y3, odd);
    };
    std::int64_t i = 0;
    for (; i + 4 * step <= view.depth; i += 4 * step) {
        y0 = load_f32(lanes, b + i), y1 = load_f32(lanes, b + i + step);
        y2 = load_f32(lanes, b + i + 2 * step), y3 = load_f32(lanes, b + i + 3 * step);
        multiply(a0 + i, even0, odd0);
        multiply(a1 + i, even1, odd1);
        multiply(a2 + i, even2, odd2);
    }
    const auto finish = [&](const T* a, auto even, auto odd, float& to) HWY_ATTR {
        float total = hn::GetLane(hn::SumOfLanes(lanes, hn::Add(even, odd)));
        for (std::int64_t k = i; k < view.depth; ++k) total += to_float(a[k]) * to_float(b[k]);
        to = total;
    };
    finish(a0, even0, odd0, out[rows.at[0]]);
    finish(a1, even1, odd1, out[rows.at[1]]);
    finish(a2, even2, odd2, out[rows.at[2]]);
}

template <class T, class B>
void multiply_plain(const MatrixView& view, Turns turns, const std::byte* const* columns,
                    float* const* out, int count) {
    for (int c = 0; c < count; ++c) {
        const auto* b = reinterpret_cast<const B*>(columns[c]);
        for_rows_in_thirds(view, turns, [&](const RowsInThirds& rows) HWY_ATTR {
            gemv_three<T>(view, rows, b, out[c]);
        });
    }
}

// Prepared columns are f32 that halves can hold. As halves they take half the room in a cache.
void put_f16(const void* from, std::int64_t depth, std::byte* to) {
    f32_to_f16_row(static_cast<const float*>(from), to, depth);
}
void put_bf16(const void* from, std::int64_t depth, std::byte* to) {
    f32_to_bf16_row(static_cast<const float*>(from), to, depth);
}

}  // namespace

GemvKernel gemv_plain(Type type) {
    if (type == GGML_TYPE_F32) return {.multiply = multiply_plain<float, float>};
    if (type == GGML_TYPE_F16) return {.arrange = put_f16, .multiply = multiply_plain<F16, F16>};
    if (type == GGML_TYPE_BF16)
        return {.arrange = put_bf16, .multiply = multiply_plain<Bf16, Bf16>};
    return {};
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(gemv_plain);

GemvKernel gemv_plain_of(Type type) { return HWY_DYNAMIC_DISPATCH(gemv_plain)(type); }

GemvKernel gemv_kernel_of(Type type) {
    for (const auto family : {gemv_plain_of, gemv_simple_of, gemv_k_of, gemv_grid_of}) {
        if (const GemvKernel kernel = family(type)) return kernel;
    }
    return {};
}

}  // namespace heddle::cpu
#endif
