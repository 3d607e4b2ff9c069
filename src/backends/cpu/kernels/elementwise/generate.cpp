#include "ops/generate.hpp"

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "core/half.hpp"

namespace heddle::cpu {
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
            std::fill_n(reinterpret_cast<float*>(y), n, value);
        } else {
            std::fill_n(reinterpret_cast<std::uint16_t*>(y), n, half);
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
    auto* y = static_cast<float*>(node.data);
    const Range range = share_elements(task, count_elements(node));
    for (std::int64_t i = range.begin; i < range.end; ++i) {
        y[i] = params.start + params.step * static_cast<float>(i);
    }
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

/// Cosines in the first half of a row, sines in the second; an odd element at the end is 0.
void run_timestep(const Tensor& node, const Task& task) {
    const auto params = unpack<ops::TimestepEmbedding::Params>(node);
    const std::int64_t half = params.dim / 2;
    const float decay = -std::log(static_cast<float>(params.max_period));
    for_rows(node, task.share(row_count(node)), [&](const Row& row) {
        const float t = *at<const float>(*node.src[0], row.i1);
        float* y = row_at<float>(node, row);
        for (std::int64_t j = 0; j < half; ++j) {
            const float frequency =
                std::exp(decay * static_cast<float>(j) / static_cast<float>(half));
            y[j] = std::cos(t * frequency);
            y[j + half] = std::sin(t * frequency);
        }
        if (params.dim % 2 != 0) y[2 * half] = 0;
    });
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
                                       .run = run_timestep};

}  // namespace heddle::cpu
