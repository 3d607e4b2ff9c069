// Windows of poolings. Included once per instruction set, after hwy/foreach_target.h, which is what
// the odd include guard is about.

#ifndef HEDDLE_CPU_POOL_WINDOWS_ONCE
#define HEDDLE_CPU_POOL_WINDOWS_ONCE

#include <algorithm>
#include <string_view>

#include "backends/cpu/kernel.hpp"
#include "ggml/ops_nn.h"
#include "ops/pool.hpp"

namespace heddle::cpu {

/// Windows along one axis.
struct PoolAxis {
    std::int64_t extent = 1;  ///< of the data
    std::int64_t taps = 1, stride = 1, padding = 0;

    std::int64_t first(std::int64_t position) const { return position * stride - padding; }

    std::int64_t clamp(std::int64_t i) const { return i < 0 ? 0 : i < extent ? i : extent; }

    /// Elements that are loaded for a window: whole strides.
    std::int64_t reach() const { return (taps + stride - 1) / stride * stride; }

    /// The elements of a window that lie inside of the data.
    Range window(std::int64_t position) const {
        const std::int64_t begin = clamp(first(position)), end = clamp(first(position) + taps);
        return {begin, end < begin ? begin : end};
    }

    /// Those of `positions` positions whose windows lie inside, if these had `reach` elements.
    Range inside(std::int64_t reach, std::int64_t positions) const {
        const auto limited = [&](std::int64_t i) { return i < positions ? i : positions; };
        const std::int64_t begin = padding > 0 ? limited((padding + stride - 1) / stride) : 0;
        const std::int64_t last = extent + padding - reach;
        const std::int64_t end = last < 0 ? 0 : limited(last / stride + 1);
        return {begin, end < begin ? begin : end};
    }
};

inline PoolAxis axis_of(const ops::Pool2dRule::Params& params, std::size_t d, const Tensor& data) {
    return {.extent = data.ne[d],
            .taps = params.taps[d],
            .stride = params.stride[d],
            .padding = params.padding[d]};
}

inline std::int32_t least_stride(const ops::Pool1d::Params& params) { return params.stride; }
inline std::int32_t least_stride(const ops::Pool2dRule::Params& params) {
    return std::min(params.stride[0], params.stride[1]);
}

/// Why there are no such windows; empty if there are.
template <class Params>
std::string_view window_objection(const Params& params) {
    if (params.op != GGML_OP_POOL_MAX && params.op != GGML_OP_POOL_AVG) {
        return "the kind of pooling is not max or avg";
    }
    return least_stride(params) < 1 ? "windows do not move on" : "";
}

}  // namespace heddle::cpu
#endif

#if defined(HEDDLE_CPU_POOL_WINDOWS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_POOL_WINDOWS_HPP
#undef HEDDLE_CPU_POOL_WINDOWS_HPP
#else
#define HEDDLE_CPU_POOL_WINDOWS_HPP
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Strides for which elements of windows next to each other are loaded as vectors.
#if HWY_TARGET == HWY_SCALAR
constexpr std::int64_t kMostStride = 1;
#else
constexpr std::int64_t kMostStride = 2;

/// Every other element from `x` on and, in `odd`, those between.
template <class D>
HWY_INLINE hn::Vec<D> load_even(D d, const float* x, hn::Vec<D>& odd) {
    const auto low = hn::LoadU(d, x), high = hn::LoadU(d, x + hn::Lanes(d));
    odd = hn::ConcatOdd(d, high, low);
    return hn::ConcatEven(d, high, low);
}
#endif

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_POOL_WINDOWS_HPP
