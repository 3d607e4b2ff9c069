#include "ops/generate.hpp"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/elementwise/generate.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "core/half.hpp"
#include "ggml/op_list.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

template <class T>
void fill(T* y, std::int64_t n, T value) {
    const hn::ScalableTag<T> d;
    const std::int64_t step = lane_count(d);
    const auto values = hn::Set(d, value);
    std::int64_t i = 0;
    for (; i + step <= n; i += step) hn::StoreU(values, d, y + i);
    for (; i < n; ++i) y[i] = value;
}

void fill_floats(float* y, std::int64_t n, float value) { fill(y, n, value); }
void fill_halves(std::uint16_t* y, std::int64_t n, std::uint16_t value) { fill(y, n, value); }

/// y[i] = start + step i, for i from `begin` to `end`.
void count_in_steps(float* y, std::int64_t begin, std::int64_t end, float start, float step) {
    const Floats d;
    const hn::Rebind<std::int32_t, Floats> di;
    const std::int64_t lanes = lane_count(d);
    const std::int64_t limit = hwy::LimitsMax<std::int32_t>();  // of indices in lanes
    const std::int64_t whole = end < limit ? end : limit;
    const auto first = hn::Set(d, start), steps = hn::Set(d, step);
    const auto lane = hn::Iota(di, 0);
    std::int64_t i = begin;
    for (; i + lanes <= whole; i += lanes) {
        const auto index = hn::Add(lane, hn::Set(di, static_cast<std::int32_t>(i)));
        hn::StoreU(hn::Add(first, hn::Mul(steps, hn::ConvertTo(d, index))), d, y + i);
    }
    for (; i < end; ++i) y[i] = start + step * static_cast<float>(i);
}

/// Cosines of t times the frequencies in the first half of y, sines in the second.
void embed_timestep(float t, const float* frequencies, std::int64_t half, float* y) {
    const auto embed = [=](auto d, std::int64_t j) HWY_ATTR {
        auto sine = hn::Zero(d), cosine = sine;
        sin_cos_of(d, hn::Mul(hn::Set(d, t), hn::LoadU(d, frequencies + j)), sine, cosine);
        hn::StoreU(cosine, d, y + j);
        hn::StoreU(sine, d, y + half + j);
    };
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t j = 0;
    for (; j + step <= half; j += step) embed(d, j);
    for (; j < half; ++j) embed(hn::CappedTag<float, 1>(), j);
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(fill_floats);
HWY_EXPORT(fill_halves);
HWY_EXPORT(count_in_steps);
HWY_EXPORT(embed_timestep);
namespace {

// ---- FILL ----

std::string_view fill_objection(const Tensor& node) {
    if (node.type != GGML_TYPE_F32 && node.type != GGML_TYPE_F16) return "x is not f32 or f16";
    return has_packed_rows(node) ? "" : "rows are not dense";
}

void run_fill(const Tensor& node, const Task& task) {
    const float value = unpack<ops::Fill::Params>(node).value;
    const std::uint16_t half = f32_to_f16(value);
    for_spans(node, node, task, [&](const std::byte*, std::byte* y, std::int64_t n) {
        if (node.type == GGML_TYPE_F32) {
            HWY_DYNAMIC_DISPATCH(fill_floats)(reinterpret_cast<float*>(y), n, value);
        } else {
            HWY_DYNAMIC_DISPATCH(fill_halves)(reinterpret_cast<std::uint16_t*>(y), n, half);
        }
    });
}

Demand fill_demand(const Tensor& node, int threads) { return spans_demand(node, threads, 0); }

// ---- ARANGE ----

std::string_view arange_objection(const Tensor& node) {
    const auto [start, stop, step] = unpack<ops::Arange::Params>(node);
    if (node.type != GGML_TYPE_F32) return "the result is not f32";
    if (!is_packed(node)) return "the result is not contiguous";
    if (static_cast<float>(element_count(node)) != std::ceil((stop - start) / step)) {
        return "the number of elements is not that of the steps";
    }
    return {};
}

void run_arange(const Tensor& node, const Task& task) {
    const auto params = unpack<ops::Arange::Params>(node);
    const Range range = share_elements(task, count_elements(node));
    HWY_DYNAMIC_DISPATCH(count_in_steps)
    (static_cast<float*>(node.data), range.begin, range.end, params.start, params.step);
}

Demand arange_demand(const Tensor& node, int threads) { return spans_demand(node, threads, 2); }

// ---- TIMESTEP_EMBEDDING ----

std::string_view timestep_objection(const Tensor& node) {
    const Tensor& timesteps = *node.src[0];
    const auto [dim, max_period] = unpack<ops::TimestepEmbedding::Params>(node);
    if (timesteps.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "only f32";
    if (node.ne[0] != dim || node.ne[1] != timesteps.ne[0] || node.ne[2] * node.ne[3] != 1) {
        return "the result does not have a column of dim elements for each timestep";
    }
    return has_packed_rows(node) ? "" : "rows are not dense";
}

/// Frequencies are the same for all timesteps. Each task computes them for itself, in scratch of
/// whole cache lines.
std::int64_t frequency_bytes(const Tensor& node) {
    const std::int64_t bytes = node.ne[0] / 2 * static_cast<std::int64_t>(sizeof(float));
    return (bytes + 63) / 64 * 64;
}

/// An odd element at the end of a row is 0.
void run_timestep(const Tensor& node, const Task& task) {
    const auto params = unpack<ops::TimestepEmbedding::Params>(node);
    const std::int64_t half = params.dim / 2;
    const float decay = -std::log(static_cast<float>(params.max_period));
    auto* frequencies = reinterpret_cast<float*>(task.scratch + task.index * frequency_bytes(node));
    for (std::int64_t j = 0; j < half; ++j) {
        frequencies[j] = std::exp(decay * static_cast<float>(j) / static_cast<float>(half));
    }
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        float* y = row_at<float>(node, row);
        HWY_DYNAMIC_DISPATCH(embed_timestep)
        (*at<const float>(*node.src[0], row.i1), frequencies, half, y);
        if (params.dim % 2 != 0) y[2 * half] = 0;
    });
}

Demand timestep_demand(const Tensor& node, int threads) {
    const double flops = 20.0 * static_cast<double>(element_count(node));
    const int tasks = worthwhile_tasks(0, flops, row_count(node), threads);
    return {.tasks = tasks, .scratch = static_cast<std::size_t>(tasks * frequency_bytes(node))};
}

}  // namespace

extern const Kernel kFill{.name = "fill",
                          .op = GGML_OP_FILL,
                          .objection = fill_objection,
                          .run = run_fill,
                          .demand = fill_demand};
extern const Kernel kArange{.name = "arange",
                            .op = GGML_OP_ARANGE,
                            .objection = arange_objection,
                            .run = run_arange,
                            .demand = arange_demand};
extern const Kernel kTimestepEmbedding{.name = "timestep_embedding",
                                       .op = GGML_OP_TIMESTEP_EMBEDDING,
                                       .objection = timestep_objection,
                                       .run = run_timestep,
                                       .demand = timestep_demand};

}  // namespace heddle::cpu
#endif
