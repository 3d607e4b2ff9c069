#include "ops/soft_max.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/soft_max.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/rows/alibi.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// y = scale * x + slope * mask. y may be x or mask.
void make_logits(const float* x, Type mask_type, const std::byte* mask, float* y, std::int64_t n,
                 float scale, float slope) {
    if (mask == nullptr) {
        map_floats(x, y, n,
                   [scale](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, scale)); });
        return;
    }
    const auto weigh = [scale, slope](auto d, auto v, auto m) HWY_ATTR {
        return hn::MulAdd(hn::Set(d, slope), m, hn::Mul(v, hn::Set(d, scale)));
    };
    if (mask_type == GGML_TYPE_F32) {
        map_floats(x, reinterpret_cast<const float*>(mask), y, n, weigh);
        return;
    }
    float part[kChunk];
    for (std::int64_t i = 0; i < n; i += kChunk) {
        const std::int64_t count = n - i < kChunk ? n - i : kChunk;
        map_floats(x + i, read_floats(mask_type, mask + 2 * i, part, count), y + i, count, weigh);
    }
}

float largest_of(const float* x, std::int64_t n) {
    const Floats d;
    const hn::Rebind<std::uint32_t, Floats> du;
    const std::int64_t step = lane_count(d);
    auto best0 = hn::BitCast(d, hn::Set(du, 0xff800000u)), best1 = best0;  // minus infinity
    std::int64_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
        best0 = hn::Max(best0, hn::LoadU(d, x + i));
        best1 = hn::Max(best1, hn::LoadU(d, x + i + step));
    }
    float largest = hn::GetLane(hn::MaxOfLanes(d, hn::Max(best0, best1)));
    for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/// y = e^(y - largest); returns the sum.
double exponentials(float* y, std::int64_t n, float largest) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; i += kChunk) {  // the part is still in the cache for its sum
        const std::int64_t count = n - i < kChunk ? n - i : kChunk;
        map_floats(y + i, y + i, count, [largest](auto d, auto v) HWY_ATTR {
            return exp_of(d, hn::Sub(v, hn::Set(d, largest)));
        });
        sum += sum_of(y + i, count);
    }
    return sum;
}

/// A row that is masked entirely comes out as NaN, unless there is a sink.
void soft_max(const Tensor& node, const Task& task) {
    const auto [scale, max_bias] = unpack<ops::SoftMax::Params>(node);
    const Tensor& x = *node.src[0];
    const Tensor *mask = node.src[1], *sinks = node.src[2];
    const std::int64_t n = node.ne[0];
    float slope = 1;
    std::int64_t head = -1;
    for_rows(node, task.share(row_count(node)),
             [&, scale = scale, max_bias = max_bias](Row row) HWY_ATTR {
                 if (row.i2 != head) {
                     head = row.i2;
                     slope = alibi_slope(max_bias, node.ne[2], head);
                 }
                 float* y = row_at<float>(node, row);
                 const std::byte* row_of_mask =
                     mask == nullptr ? nullptr
                                     : at<const std::byte>(*mask, 0, row.i1, row.i2 % mask->ne[2],
                                                           row.i3 % mask->ne[3]);
                 make_logits(row_at<const float>(x, row),
                             mask == nullptr ? GGML_TYPE_F32 : mask->type, row_of_mask, y, n, scale,
                             slope);
                 float largest = largest_of(y, n);
                 const float sink = sinks == nullptr ? 0 : *at<const float>(*sinks, head);
                 if (sinks != nullptr && sink > largest) largest = sink;
                 double sum = exponentials(y, n, largest);
                 if (sinks != nullptr) sum += static_cast<double>(::expf(sink - largest));
                 const auto factor = static_cast<float>(1 / sum);
                 map_floats(y, y, n, [factor](auto d, auto v) HWY_ATTR {
                     return hn::Mul(v, hn::Set(d, factor));
                 });
             });
}

/// dx = scale * y * (dy - sum(y * dy))
void soft_max_back(const Tensor& node, const Task& task) {
    const float scale = unpack<ops::SoftMaxBack::Params>(node).scale;
    const std::int64_t n = node.ne[0];
    for_rows(node, task.share(row_count(node)), [&](Row row) HWY_ATTR {
        const float* dy = row_at<const float>(*node.src[0], row);
        const float* y = row_at<const float>(*node.src[1], row);
        const auto sum = static_cast<float>(sum_of_products(dy, y, n));
        map_floats(dy, y, row_at<float>(node, row), n,
                   [sum, scale](auto d, auto gradient, auto v) HWY_ATTR {
                       const auto rest = hn::Sub(gradient, hn::Set(d, sum));
                       return hn::Mul(hn::Mul(rest, v), hn::Set(d, scale));
                   });
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(soft_max);
HWY_EXPORT(soft_max_back);
namespace {

std::string_view mask_objection(const Tensor& x, const Tensor& mask) {
    if (mask.type != GGML_TYPE_F32 && mask.type != GGML_TYPE_F16)
        return "the mask is not f32 or f16";
    if (!has_packed_rows(mask)) return "rows of the mask are not dense";
    if (mask.ne[0] != x.ne[0] || mask.ne[1] < x.ne[1])
        return "the mask does not cover the rows of x";
    if (mask.ne[2] < 1 || mask.ne[3] < 1 || x.ne[2] % mask.ne[2] != 0 ||
        x.ne[3] % mask.ne[3] != 0) {
        return "the planes of the mask do not divide those of x";
    }
    return {};
}

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    const Tensor *mask = node.src[1], *sinks = node.src[2];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    if (mask != nullptr) {
        if (const std::string_view reason = mask_objection(x, *mask); !reason.empty())
            return reason;
    }
    if (sinks != nullptr && (sinks->type != GGML_TYPE_F32 || sinks->ne[0] != x.ne[2])) {
        return "sinks are not one f32 for each head";
    }
    return {};
}

std::string_view back_objection(const Tensor& node) {
    const Tensor &dy = *node.src[0], &y = *node.src[1];
    if (dy.type != GGML_TYPE_F32 || y.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) {
        return "dy and y are not f32";
    }
    if (unpack<ops::SoftMaxBack::Params>(node).max_bias != 0) return "max_bias is not 0";
    if (!same_shape(dy, y) || !same_shape(node, y)) return "extents differ";
    if (!has_packed_rows(dy) || !has_packed_rows(y) || !has_packed_rows(node)) {
        return "rows are not dense";
    }
    return {};
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(soft_max)(node, task); }
void run_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(soft_max_back)(node, task);
}

Demand demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const double flops = 8 * static_cast<double>(element_count(node));
    const double bytes = 2 * static_cast<double>(byte_size(node));
    return {.tasks = worthwhile_tasks(bytes, flops, row_count(node), threads)};
}

}  // namespace

extern const Kernel kSoftMax{.name = "soft_max",
                             .op = GGML_OP_SOFT_MAX,
                             .objection = objection,
                             .run = run,
                             .demand = demand};
extern const Kernel kSoftMaxBack{.name = "soft_max_back",
                                 .op = GGML_OP_SOFT_MAX_BACK,
                                 .objection = back_objection,
                                 .run = run_back};

}  // namespace heddle::cpu
#endif
