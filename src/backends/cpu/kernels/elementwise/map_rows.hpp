// Functions of elements over stretches of F32, F16 or BF16. Included once per instruction set.

#if defined(HEDDLE_CPU_MAP_ROWS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEDDLE_CPU_MAP_ROWS_HPP
#undef HEDDLE_CPU_MAP_ROWS_HPP
#else
#define HEDDLE_CPU_MAP_ROWS_HPP
#endif

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// y[i] = f(d, x[i]) for elements of the types of X and Y; the rest at the end as whole vector. Two
/// vectors at a time share the constants of f.
template <class X, class Y, class F>
void map_typed(const std::byte* x, std::byte* y, std::int64_t n, F f) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
        const auto y0 = f(d, X::load(d, x + i * X::kSize));
        const auto y1 = f(d, X::load(d, x + (i + step) * X::kSize));
        Y::store(d, y0, y + i * Y::kSize);
        Y::store(d, y1, y + (i + step) * Y::kSize);
    }
    for (; i + step <= n; i += step)
        Y::store(d, f(d, X::load(d, x + i * X::kSize)), y + i * Y::kSize);
    if (i >= n) return;
    float part[hn::MaxLanes(Floats())] = {};
    std::memcpy(part, x + i * X::kSize, static_cast<std::size_t>((n - i) * X::kSize));
    Y::store(d, f(d, X::load(d, part)), part);
    std::memcpy(y + i * Y::kSize, part, static_cast<std::size_t>((n - i) * Y::kSize));
}

/// y[i] = f(d, a[i], b[i]).
template <class A, class B, class Y, class F>
void map_typed(const std::byte* a, const std::byte* b, std::byte* y, std::int64_t n, F f) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto at = [=](std::int64_t i) HWY_ATTR {
        return f(d, A::load(d, a + i * A::kSize), B::load(d, b + i * B::kSize));
    };
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
        const auto y0 = at(i), y1 = at(i + step);
        Y::store(d, y0, y + i * Y::kSize);
        Y::store(d, y1, y + (i + step) * Y::kSize);
    }
    for (; i + step <= n; i += step) Y::store(d, at(i), y + i * Y::kSize);
    if (i >= n) return;
    float part_a[hn::MaxLanes(Floats())] = {};
    float part_b[hn::MaxLanes(Floats())] = {};
    std::memcpy(part_a, a + i * A::kSize, static_cast<std::size_t>((n - i) * A::kSize));
    std::memcpy(part_b, b + i * B::kSize, static_cast<std::size_t>((n - i) * B::kSize));
    Y::store(d, f(d, A::load(d, part_a), B::load(d, part_b)), part_a);
    std::memcpy(y + i * Y::kSize, part_a, static_cast<std::size_t>((n - i) * Y::kSize));
}

/// y[i] = f(d, x[i]) for `n` elements of one type. Half floats are computed with as floats and
/// rounded once.
template <class F>
void map_span(Type type, const std::byte* x, std::byte* y, std::int64_t n, F f) {
    if (type == GGML_TYPE_F32) {
        map_typed<F32Rows, F32Rows>(x, y, n, f);
    } else if (type == GGML_TYPE_F16) {
        map_typed<F16Rows, F16Rows>(x, y, n, f);
    } else {
        map_typed<Bf16Rows, Bf16Rows>(x, y, n, f);
    }
}

/// y[i] = f(d, a[i], b[i]), all of one type.
template <class F>
void map_span(Type type, const std::byte* a, const std::byte* b, std::byte* y, std::int64_t n,
              F f) {
    if (type == GGML_TYPE_F32) {
        map_typed<F32Rows, F32Rows, F32Rows>(a, b, y, n, f);
    } else if (type == GGML_TYPE_F16) {
        map_typed<F16Rows, F16Rows, F16Rows>(a, b, y, n, f);
    } else {
        map_typed<Bf16Rows, Bf16Rows, Bf16Rows>(a, b, y, n, f);
    }
}

/// y = f(x) for this task's share of a node.
template <class F>
void map_node(const Tensor& node, const Task& task, F f) {
    for_spans(*node.src[0], node, task,
              [&](const std::byte* x, std::byte* y, std::int64_t n)
                  HWY_ATTR { map_span(node.type, x, y, n, f); });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HEDDLE_CPU_MAP_ROWS_HPP
