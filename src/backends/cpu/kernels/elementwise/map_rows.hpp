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

/// y[i] = f(d, x[i]) for `n` elements of one type. Half floats are computed with as floats and
/// rounded once.
template <class F>
void map_span(Type type, const std::byte* x, std::byte* y, std::int64_t n, F f) {
    if (type == GGML_TYPE_F32) {
        map_floats(reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), n, f);
        return;
    }
    float buffer[kChunk];
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t part = n - i < kChunk ? n - i : kChunk;
        read_floats(type, x + 2 * i, buffer, part);
        map_floats(buffer, buffer, part, f);
        write_floats(type, buffer, y + 2 * i, part);
    }
}

/// y[i] = f(d, a[i], b[i]), all of one type.
template <class F>
void map_span(Type type, const std::byte* a, const std::byte* b, std::byte* y, std::int64_t n,
              F f) {
    if (type == GGML_TYPE_F32) {
        map_floats(reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                   reinterpret_cast<float*>(y), n, f);
        return;
    }
    float part_a[kChunk], part_b[kChunk];
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t part = n - i < kChunk ? n - i : kChunk;
        read_floats(type, a + 2 * i, part_a, part);
        read_floats(type, b + 2 * i, part_b, part);
        map_floats(part_a, part_b, part_a, part, f);
        write_floats(type, part_a, y + 2 * i, part);
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
