#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/scale.cpp"
#include "ops/scale.hpp"

#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernel.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y = s * x + b, row by row. x and y may be the same memory.
void scale(const Tensor& node, const Task& task) {
    const auto [factor, bias] = unpack<ops::Scale::Params>(node);
    const Tensor& x = *node.src[0];
    const hn::ScalableTag<float> lanes;
    const auto s = hn::Set(lanes, factor), b = hn::Set(lanes, bias);
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const std::int64_t n = node.ne[0];
    for_rows(node, task.share(row_count(node)), [&, factor = factor, bias = bias](Row row) {
        const float* from = row_at<const float>(x, row);
        float* to = row_at<float>(node, row);
        std::int64_t i = 0;
        for (; i + step <= n; i += step) {
            hn::StoreU(hn::MulAdd(hn::LoadU(lanes, from + i), s, b), lanes, to + i);
        }
        for (; i < n; ++i) to[i] = from[i] * factor + bias;
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(scale);
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    if (x.nb[0] != sizeof(float) || node.nb[0] != sizeof(float)) return "rows are not dense";
    return {};
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(scale)(node, task); }

}  // namespace

extern const Kernel kScale{
    .name = "scale_f32", .op = GGML_OP_SCALE, .objection = objection, .run = run};

}  // namespace heddle::cpu
#endif
