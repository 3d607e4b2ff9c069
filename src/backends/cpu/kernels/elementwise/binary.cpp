#include "ops/binary.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/binary.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/broadcast.hpp"
#include "backends/cpu/kernels/elementwise/map_rows.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// Elements of b within a row of a: `n` of them, over and over.
struct RowOfB {
    Type type;
    const std::byte* data;
    std::int64_t n;
    std::size_t stride;

    bool is_dense() const { return stride == (type == GGML_TYPE_F32 ? 4u : 2u); }

    HWY_INLINE float value(std::int64_t i) const {
        float one;
        convert_one(data + static_cast<std::size_t>(i) * stride, &one);
        return one;
    }

    /// `count` values from the one that element `begin` of the row meets.
    void gather(std::int64_t begin, std::int64_t count, float* to) const {
        std::int64_t i = begin % n;
        for (std::int64_t k = 0; k < count; ++k) {
            to[k] = value(i);
            if (++i == n) i = 0;
        }
    }

private:
    HWY_INLINE void convert_one(const std::byte* from, float* to) const {
        if (type == GGML_TYPE_F32) {
            std::memcpy(to, from, sizeof *to);
        } else if (type == GGML_TYPE_F16) {
            convert_row<F16Rows, F32Rows>(from, to, 1);
        } else {
            convert_row<Bf16Rows, F32Rows>(from, to, 1);
        }
    }
};

/// y = a ∘ b for `n` elements that follow each other, of the types that go together.
template <class F>
void binary_span(Type type_y, std::byte* y, Type type_a, const std::byte* a, Type type_b,
                 const std::byte* b, std::int64_t n, F f) {
    const auto with_a = [&]<class A>(A) HWY_ATTR {
        if (type_b != GGML_TYPE_F32) return map_typed<A, A, A>(a, b, y, n, f);
        if (type_y != GGML_TYPE_F32) return map_typed<A, F32Rows, A>(a, b, y, n, f);
        map_typed<A, F32Rows, F32Rows>(a, b, y, n, f);
    };
    if (type_a == GGML_TYPE_F32) return map_typed<F32Rows, F32Rows, F32Rows>(a, b, y, n, f);
    if (type_a == GGML_TYPE_F16) return with_a(F16Rows());
    with_a(Bf16Rows());
}

/// Elements `range` of one row: values of b from where they are, or, where they have gaps or are
/// few, at most `kChunk` at a time from a buffer.
template <class F>
void binary_row(Type type_y, std::byte* y, Type type_a, const std::byte* a, const RowOfB& b,
                Range range, F f) {
    constexpr std::int64_t shortest_tile = 32;  // below it, copying several into one buffer pays
    const bool plain_b = b.n > 1 && b.is_dense() && (b.n >= shortest_tile || range.end <= b.n);
    const std::int64_t size_y = type_y == GGML_TYPE_F32 ? 4 : 2;
    const std::int64_t size_a = type_a == GGML_TYPE_F32 ? 4 : 2;
    const std::int64_t size_b = b.type == GGML_TYPE_F32 ? 4 : 2;
    if (plain_b) {
        for (std::int64_t i = range.begin; i < range.end;) {
            const std::int64_t first = i % b.n;
            const std::int64_t n = std::min(range.end - i, b.n - first);
            binary_span(type_y, y + i * size_y, type_a, a + i * size_a, b.type,
                        b.data + first * size_b, n, f);
            i += n;
        }
        return;
    }
    float values[kChunk];
    if (b.n == 1) std::fill_n(values, std::min(kChunk, range.end - range.begin), b.value(0));
    // Values of b that were rounded to the type of a count as floats: nothing is lost.
    for (std::int64_t i = range.begin; i < range.end; i += kChunk) {
        const std::int64_t n = std::min(kChunk, range.end - i);
        if (b.n > 1) b.gather(i, n, values);
        binary_span(type_y, y + i * size_y, type_a, a + i * size_a, GGML_TYPE_F32,
                    reinterpret_cast<const std::byte*>(values), n, f);
    }
}

template <class F>
void binary(const Tensor& node, const Task& task, F f) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (node.type == GGML_TYPE_F32 && is_packed(node, sizeof(float)) && has_same_layout(a, node) &&
        has_same_layout(b, node)) {
        const auto [begin, end] = share_elements(task, count_elements(node));
        map_floats(static_cast<const float*>(a.data) + begin,
                   static_cast<const float*>(b.data) + begin,
                   static_cast<float*>(node.data) + begin, end - begin, f);
        return;
    }
    const Broadcast walk(node, a, b);
    const bool single = walk.rows() == 1;
    const Range rows = single ? Range{0, 1} : task.share(walk.rows());
    const Range elements = single ? share_elements(task, walk.extent[0]) : Range{0, walk.extent[0]};
    walk.for_rows(rows, [&](std::size_t y_at, std::size_t a_at, std::size_t b_at) HWY_ATTR {
        const RowOfB row{b.type, static_cast<const std::byte*>(b.data) + b_at, walk.extent_b[0],
                         walk.b[0]};
        binary_row(node.type, static_cast<std::byte*>(node.data) + y_at, a.type,
                   static_cast<const std::byte*>(a.data) + a_at, row, elements, f);
    });
}

void add(const Tensor& node, const Task& task) {
    binary(node, task, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

void sub(const Tensor& node, const Task& task) {
    binary(node, task, [](auto, auto a, auto b) HWY_ATTR { return hn::Sub(a, b); });
}

void mul(const Tensor& node, const Task& task) {
    binary(node, task, [](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
}

void div(const Tensor& node, const Task& task) {
    binary(node, task, [](auto, auto a, auto b) HWY_ATTR { return hn::Div(a, b); });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(add);
HWY_EXPORT(sub);
HWY_EXPORT(mul);
HWY_EXPORT(div);
namespace {

bool can_compute(Type a, Type b, Type y) {
    if (!is_float(a) || !is_float(b)) return false;
    if (b != a && b != GGML_TYPE_F32) return false;
    return y == a || (y == GGML_TYPE_F32 && b == GGML_TYPE_F32);
}

/// Why a ∘ b of plain floats cannot be computed; empty if it can.
std::string_view objection_to_floats(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (node.type == GGML_TYPE_F32 && node.nb[0] == sizeof(float) && has_same_layout(a, node) &&
        has_same_layout(b, node)) {
        return {};  // by far the most common case
    }
    if (!can_compute(a.type, b.type, node.type)) {
        return "a, b and the result are not of types that go together";
    }
    if (!has_packed_rows(a) || !has_packed_rows(node))
        return "rows of a or the result are not dense";
    if (!same_shape(node, a)) return "the result does not have the extents of a";
    if (!can_repeat(b, a)) return "b cannot be repeated to the extents of a";
    return {};
}

/// b is a single value, which `can_repeat` to any extents.
std::string_view add1_objection(const Tensor& node) {
    if (!is_scalar(*node.src[1])) return "b is not a single value";
    if (node.type != node.src[0]->type) return "the result does not have the type of a";
    return objection_to_floats(node);
}

void run_add(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(add)(node, task); }
void run_sub(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(sub)(node, task); }
void run_mul(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(mul)(node, task); }
void run_div(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(div)(node, task); }

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    if (has_same_layout(*node.src[1], node)) return spans_demand(node, threads, 1);
    const Broadcast walk(node, *node.src[0], *node.src[1]);
    return walk.rows() == 1 ? spans_demand(node, threads, 1) : rows_demand(node, threads);
}

}  // namespace

extern const Kernel kAdd{.name = "add",
                         .op = GGML_OP_ADD,
                         .objection = objection_to_floats,
                         .run = run_add,
                         .demand = demand};
extern const Kernel kSub{.name = "sub",
                         .op = GGML_OP_SUB,
                         .objection = objection_to_floats,
                         .run = run_sub,
                         .demand = demand};
extern const Kernel kMul{.name = "mul",
                         .op = GGML_OP_MUL,
                         .objection = objection_to_floats,
                         .run = run_mul,
                         .demand = demand};
extern const Kernel kDiv{.name = "div",
                         .op = GGML_OP_DIV,
                         .objection = objection_to_floats,
                         .run = run_div,
                         .demand = demand};
extern const Kernel kAdd1{.name = "add1",
                          .op = GGML_OP_ADD1,
                          .objection = add1_objection,
                          .run = run_add,
                          .demand = demand};

}  // namespace heddle::cpu
#endif
