#include "ops/glu.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/glu.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/map_rows.hpp"
#include "backends/cpu/kernels/lanes_erf.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/lanes_sigmoid.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

struct Reglu {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Mul(x, g));
    }
};

struct Geglu {
    GrowthConstants c = GrowthConstants::held(1);

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        return hn::Mul(gelu_of(d, x, c), g);
    }
};

struct Swiglu {
    GrowthConstants c = swish_constants(1);

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        return hn::Mul(swish_of(d, x, c), g);
    }
};

struct GegluErf {
    GeluErfConstants c = GeluErfConstants::held();

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        return hn::Mul(gelu_erf_of(d, x, c), g);
    }
};

struct GegluQuick {
    GrowthConstants c = swish_constants(kGeluQuick);

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        return hn::Mul(swish_of(d, x, c), g);
    }
};

/// x is bounded from above, the factor on both sides, and the factor is one more.
struct SwigluOai {
    float alpha, limit;
    GrowthConstants c = swish_constants(alpha);

    template <class D, class V>
    HWY_INLINE V operator()(D d, V x, V g) const {
        const V high = hn::Set(d, limit);
        x = hn::Min(x, high);
        g = hn::Max(hn::Min(g, high), hn::Neg(high));
        return hn::Mul(swish_of(d, x, c), hn::Add(g, hn::Set(d, 1.0f)));
    }
};

/// y = f(a, b), where a and b have the extents of y: in one stretch if all are packed, else by
/// rows.
template <class F>
void map_two(const Tensor& a, const Tensor& b, const Tensor& y, const Task& task, F f) {
    if (!is_packed(a) || !is_packed(b) || !is_packed(y)) {
        for_rows(y, task.share(row_count(y)), [&](const Row& row) HWY_ATTR {
            map_span(y.type, row_at<const std::byte>(a, row), row_at<const std::byte>(b, row),
                     row_at(y, row), y.ne[0], f);
        });
        return;
    }
    const auto [begin, end] = share_elements(task, count_elements(y));
    const std::size_t offset = static_cast<std::size_t>(begin) * size_of(y.type);
    map_span(y.type, at(a, 0) + offset, at(b, 0) + offset, at(y, 0) + offset, end - begin, f);
}

/// Without b, the rows of a hold both operands, one after the other.
template <class F>
void glu_rows(const Tensor& node, const Task& task, const ops::Glu::Params& params, F f) {
    const Tensor& a = *node.src[0];
    if (node.src[1] != nullptr) return map_two(a, *node.src[1], node, task, f);
    const std::size_t half = static_cast<std::size_t>(node.ne[0]) * size_of(a.type);
    const bool swapped = params.swapped != 0;
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        const auto* first = row_at<const std::byte>(a, row);
        map_span(node.type, first + (swapped ? half : 0), first + (swapped ? 0 : half),
                 row_at(node, row), node.ne[0], f);
    });
}

void glu(const Tensor& node, const Task& task) {
    const auto params = unpack<ops::Glu::Params>(node);
    switch (params.function) {
        case GGML_GLU_OP_REGLU:
            return glu_rows(node, task, params, Reglu());
        case GGML_GLU_OP_GEGLU:
            return glu_rows(node, task, params, Geglu());
        case GGML_GLU_OP_SWIGLU:
            return glu_rows(node, task, params, Swiglu());
        case GGML_GLU_OP_SWIGLU_OAI:
            return glu_rows(node, task, params, SwigluOai{params.alpha, params.limit});
        case GGML_GLU_OP_GEGLU_ERF:
            return glu_rows(node, task, params, GegluErf());
        case GGML_GLU_OP_GEGLU_QUICK:
            return glu_rows(node, task, params, GegluQuick());
        default:
            return;
    }
}

/// dx = dy * s * (1 + x * (1 - s)), s the sigmoid of x.
void silu_back(const Tensor& node, const Task& task) {
    const Tensor &dy = *node.src[0], &x = *node.src[1];
    const GrowthConstants c = swish_constants(1);
    map_two(dy, x, node, task, [c](auto d, auto gradient, auto v) HWY_ATTR {
        const auto one = hn::Set(d, 1.0f);
        const auto s = sigmoid_of(d, v, c);
        return hn::Mul(hn::Mul(gradient, s), hn::MulAdd(v, hn::Sub(one, s), one));
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(glu);
HWY_EXPORT(silu_back);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor& a = *node.src[0];
    const Tensor* b = node.src[1];
    const std::int32_t function = unpack<ops::Glu::Params>(node).function;
    if (function < 0 || function >= GGML_GLU_OP_COUNT) return "there is no such function";
    if (a.type != GGML_TYPE_F32 && a.type != GGML_TYPE_F16) return "a is not f32 or f16";
    if (node.type != a.type) return "the result does not have the type of a";
    if (b != nullptr && b->type != a.type) return "b does not have the type of a";
    if (b != nullptr && !same_shape(*b, a)) return "b does not have the extents of a";
    if (node.ne[0] != (b != nullptr ? a.ne[0] : a.ne[0] / 2) || node.ne[1] != a.ne[1] ||
        node.ne[2] != a.ne[2] || node.ne[3] != a.ne[3]) {
        return "the extents of the result do not follow from those of a";
    }
    const bool packed = has_packed_rows(a) && has_packed_rows(node);
    if (!packed || (b != nullptr && !has_packed_rows(*b))) return "rows are not dense";
    return {};
}

std::string_view silu_back_objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &x = *node.src[1];
    if (dy.type != GGML_TYPE_F32 && dy.type != GGML_TYPE_F16) return "dy is not f32 or f16";
    if (x.type != dy.type || node.type != dy.type) return "types differ";
    if (!same_shape(x, dy) || !same_shape(node, dy)) return "extents differ";
    if (!has_packed_rows(dy) || !has_packed_rows(x) || !has_packed_rows(node)) {
        return "rows are not dense";
    }
    return {};
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(glu)(node, task); }
void run_silu_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(silu_back)(node, task);
}

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const double n = static_cast<double>(element_count(node));
    const double bytes = 3 * n * static_cast<double>(size_of(node.type));
    return {.tasks = worthwhile_tasks(bytes, 8 * n, row_count(node), threads)};
}

}  // namespace

extern const Kernel kGlu{
    .name = "glu", .op = GGML_OP_GLU, .objection = objection, .run = run, .demand = demand};
extern const Kernel kSiluBack{.name = "silu_back",
                              .op = GGML_OP_SILU_BACK,
                              .objection = silu_back_objection,
                              .run = run_silu_back,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
