#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/products/out_prod.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernel.hpp"
#include "ops/matmul.hpp"
#include "quant/codec.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] += x[i] * factor
void add_scaled_row(const float* HWY_RESTRICT x, float factor, float* HWY_RESTRICT y,
                    std::int64_t n) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const auto f = hn::Set(lanes, factor);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
        hn::StoreU(hn::MulAdd(hn::LoadU(lanes, x + i), f, hn::LoadU(lanes, y + i)), lanes, y + i);
    }
    for (; i < n; ++i) y[i] += x[i] * factor;
}

/// One row of the result from f32: a part of it at a time stays in registers over the whole sum.
void out_prod_row(const Tensor& a, const Tensor& b, Row to, Row from, float* y) {
    const hn::ScalableTag<float> lanes;
    const auto step = static_cast<std::int64_t>(hn::Lanes(lanes));
    const std::int64_t m = a.ne[0], depth = a.ne[1];
    std::int64_t i = 0;
    for (; i + 4 * step <= m; i += 4 * step) {
        auto sum0 = hn::Zero(lanes), sum1 = sum0, sum2 = sum0, sum3 = sum0;
        for (std::int64_t p = 0; p < depth; ++p) {
            const float* x = at<const float>(a, i, p, from.i2, from.i3);
            const auto f = hn::Set(lanes, *at<const float>(b, to.i1, p, to.i2, to.i3));
            sum0 = hn::MulAdd(hn::LoadU(lanes, x), f, sum0);
            sum1 = hn::MulAdd(hn::LoadU(lanes, x + step), f, sum1);
            sum2 = hn::MulAdd(hn::LoadU(lanes, x + 2 * step), f, sum2);
            sum3 = hn::MulAdd(hn::LoadU(lanes, x + 3 * step), f, sum3);
        }
        hn::StoreU(sum0, lanes, y + i);
        hn::StoreU(sum1, lanes, y + i + step);
        hn::StoreU(sum2, lanes, y + i + 2 * step);
        hn::StoreU(sum3, lanes, y + i + 3 * step);
    }
    for (std::int64_t j = i; j < m; ++j) y[j] = 0;
    if (i == m) return;
    for (std::int64_t p = 0; p < depth; ++p) {
        add_scaled_row(at<const float>(a, i, p, from.i2, from.i3),
                       *at<const float>(b, to.i1, p, to.i2, to.i3), y + i, m - i);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(add_scaled_row);
HWY_EXPORT(out_prod_row);
namespace {

std::string_view shape_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (b.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "b or the result is not f32";
    if (a.nb[0] != size_of(a.type)) return "rows of a are not dense";
    if (node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    return {};
}

std::string_view plain_objection(const Tensor& node) {
    if (node.src[0]->type != GGML_TYPE_F32) return "a is not f32";
    return shape_objection(node);
}

void run_plain(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (is_empty(node)) return;
    const std::int64_t group2 = b.ne[2] / a.ne[2], group3 = b.ne[3] / a.ne[3];
    const auto multiply = HWY_DYNAMIC_DISPATCH(out_prod_row);
    for_rows(node, task.share(row_count(node)), [&](Row row) {
        multiply(a, b, row, {0, row.i2 / group2, row.i3 / group3}, row_at<float>(node, row));
    });
}

std::string_view decoded_objection(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    if (a.type != GGML_TYPE_F16 && quant::codec_of(a.type) == nullptr) {
        return "a is neither f32, f16 nor a block format";
    }
    if (a.ne[2] != b.ne[2] || a.ne[3] != b.ne[3]) return "a is not f32 and would have to repeat";
    return shape_objection(node);
}

Demand plain_demand(const Tensor& node, int threads) {
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(node.src[0]->ne[1]);
    return {.tasks = worthwhile_tasks(static_cast<double>(byte_size(node)), flops, row_count(node),
                                      threads)};
}

std::size_t decoded_pitch(const Tensor& a) {
    return (static_cast<std::size_t>(a.ne[0]) * sizeof(float) + 63) / 64 * 64;
}

Demand decoded_demand(const Tensor& node, int threads) {
    Demand demand = plain_demand(node, threads);
    demand.scratch = static_cast<std::size_t>(demand.tasks) * decoded_pitch(*node.src[0]);
    return demand;
}

/// Each row of a is decoded once and added to all rows of the result that this task has in the same
/// matrix.
void run_decoded(const Tensor& node, const Task& task) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    const Range range = task.share(row_count(node));
    auto* decoded = reinterpret_cast<float*>(task.scratch + static_cast<std::size_t>(task.index) *
                                                                decoded_pitch(a));
    const quant::Codec* codec = quant::codec_of(a.type);
    const auto add = HWY_DYNAMIC_DISPATCH(add_scaled_row);
    for (std::int64_t row = range.begin; row < range.end;) {
        const std::int64_t matrix = row / node.ne[1], first = row % node.ne[1];
        const std::int64_t i2 = matrix % node.ne[2], i3 = matrix / node.ne[2];
        const std::int64_t left = range.end - row + first;
        const std::int64_t last = left < node.ne[1] ? left : node.ne[1];
        for (std::int64_t j = first; j < last; ++j) {
            std::memset(at(node, 0, j, i2, i3), 0,
                        static_cast<std::size_t>(a.ne[0]) * sizeof(float));
        }
        for (std::int64_t p = 0; p < a.ne[1]; ++p) {
            if (codec != nullptr) {
                codec->decode(at(a, 0, p, i2, i3), decoded, a.ne[0]);
            } else {
                f16_to_f32_row(at(a, 0, p, i2, i3), decoded, a.ne[0]);
            }
            for (std::int64_t j = first; j < last; ++j) {
                add(decoded, *at<const float>(b, j, p, i2, i3), at<float>(node, 0, j, i2, i3),
                    a.ne[0]);
            }
        }
        row += last - first;
    }
}

}  // namespace

extern const Kernel kOutProd{.name = "out_prod_f32",
                             .op = GGML_OP_OUT_PROD,
                             .objection = plain_objection,
                             .run = run_plain,
                             .demand = plain_demand};
extern const Kernel kOutProdDecoded{.name = "out_prod_decoded",
                                    .op = GGML_OP_OUT_PROD,
                                    .objection = decoded_objection,
                                    .run = run_decoded,
                                    .demand = decoded_demand};

}  // namespace heddle::cpu
#endif
