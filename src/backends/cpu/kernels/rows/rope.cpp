#include "ops/rope.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/rope.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/rows/rope_angles.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// The scratch memory of a task. `row` is where half floats are turned.
struct RopeScratch {
    float* per_position;
    std::int32_t* axis;
    float* cosine;
    float* sine;
    float* row;

    RopeScratch(const Task& task, std::int64_t n) {
        auto* memory = reinterpret_cast<float*>(task.scratch) + task.index * 5 * n;
        per_position = memory;
        axis = reinterpret_cast<std::int32_t*>(memory + n);
        cosine = memory + 2 * n;
        sine = memory + 3 * n;
        row = memory + 4 * n;
    }
};

/// Cosines and sines of the angles of token `i2`.
void turn_table(const RopeAngles& angles, const Tensor& positions, std::int64_t tokens,
                std::int64_t i2, const RopeScratch& scratch) {
    float position[4] = {};
    const int count = ops::Rotation::has_four_positions(angles.params.mode) ? 4 : 1;
    for (int k = 0; k < count; ++k) {
        position[k] = static_cast<float>(*at<const std::int32_t>(positions, i2 + k * tokens));
    }
    float* angle = scratch.row;
    for (std::int64_t p = 0; p < angles.pairs; ++p) {
        angle[p] = position[scratch.axis[p]] * scratch.per_position[p];
    }
    const float size = angles.magnitude, way = angles.magnitude * angles.direction;
    map_floats(angle, scratch.cosine, angles.pairs,
               [size](auto d, auto v) HWY_ATTR { return hn::Mul(cos_of(d, v), hn::Set(d, size)); });
    map_floats(angle, scratch.sine, angles.pairs,
               [way](auto d, auto v) HWY_ATTR { return hn::Mul(sin_of(d, v), hn::Set(d, way)); });
}

/// Pairs of elements side by side. y may be x.
void turn_neighbours(const float* x, float* y, std::int64_t pairs, const RopeScratch& table) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t p = 0;
    for (; p + step <= pairs; p += step) {
        auto x0 = hn::Zero(d), x1 = x0;
        hn::LoadInterleaved2(d, x + 2 * p, x0, x1);
        const auto c = hn::LoadU(d, table.cosine + p), s = hn::LoadU(d, table.sine + p);
        hn::StoreInterleaved2(hn::NegMulAdd(x1, s, hn::Mul(x0, c)),
                              hn::MulAdd(x0, s, hn::Mul(x1, c)), d, y + 2 * p);
    }
    for (; p < pairs; ++p) {
        const float x0 = x[2 * p], x1 = x[2 * p + 1];
        y[2 * p] = x0 * table.cosine[p] - x1 * table.sine[p];
        y[2 * p + 1] = x0 * table.sine[p] + x1 * table.cosine[p];
    }
}

/// Pairs whose second elements follow all the first ones. y may be x.
void turn_halves(const float* x, float* y, std::int64_t pairs, const RopeScratch& table) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t p = 0;
    for (; p + step <= pairs; p += step) {
        const auto x0 = hn::LoadU(d, x + p), x1 = hn::LoadU(d, x + pairs + p);
        const auto c = hn::LoadU(d, table.cosine + p), s = hn::LoadU(d, table.sine + p);
        hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, y + p);
        hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, y + pairs + p);
    }
    for (; p < pairs; ++p) {
        const float x0 = x[p], x1 = x[pairs + p];
        y[p] = x0 * table.cosine[p] - x1 * table.sine[p];
        y[pairs + p] = x0 * table.sine[p] + x1 * table.cosine[p];
    }
}

void turn_row(const RopeAngles& angles, const float* x, float* y, std::int64_t n,
              const RopeScratch& table) {
    const std::int64_t first = angles.first(), end = first + 2 * angles.pairs;
    if (x != y) {
        std::memcpy(y, x, static_cast<std::size_t>(first) * sizeof(float));
        std::memcpy(y + end, x + end, static_cast<std::size_t>(n - end) * sizeof(float));
    }
    if (angles.is_interleaved()) {
        turn_neighbours(x + first, y + first, angles.pairs, table);
    } else {
        turn_halves(x + first, y + first, angles.pairs, table);
    }
}

void rope(const Tensor& node, const Task& task) {
    const RopeAngles angles(node);
    const Tensor& x = *node.src[0];
    const std::int64_t n = node.ne[0];
    const RopeScratch scratch(task, n);
    const Range rows = task.share(row_count(node));
    if (rows.begin >= rows.end) return;
    angles.fill(node.src[2], scratch.per_position, scratch.axis);
    std::int64_t token = -1;
    for_rows(node, rows, [&](Row row) HWY_ATTR {
        if (row.i2 != token) {
            token = row.i2;
            turn_table(angles, *node.src[1], node.ne[2], token, scratch);
        }
        if (node.type == GGML_TYPE_F32) {
            turn_row(angles, row_at<const float>(x, row), row_at<float>(node, row), n, scratch);
            return;
        }
        convert_row<F16Rows, F32Rows>(row_at(x, row), scratch.row, n);
        turn_row(angles, scratch.row, scratch.row, n, scratch);
        convert_row<F32Rows, F16Rows>(scratch.row, row_at(node, row), n);
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(rope);
namespace {

std::string_view sections_objection(const ops::Rotation::Params& params, std::int64_t n) {
    std::int64_t sum = 0;
    for (const std::int32_t section : params.sections) {
        if (section < 0) return "a section is negative";
        sum += section;
    }
    if (params.sections[0] == 0 && params.sections[1] == 0 && params.sections[2] == 0) {
        return "the first three sections are 0";
    }
    return sum > n ? "sections are longer than rows" : "";
}

std::string_view dims_objection(const ops::Rotation::Params& params, std::int64_t n) {
    if (params.n_dims < 0 || params.n_dims % 2 != 0) return "n_dims is not even";
    if (params.n_offs < 0 || params.n_offs % 2 != 0) return "n_offs is not even";
    if (std::int64_t{params.n_offs} + params.n_dims > n) return "rows are shorter than n_dims";
    if (params.mode != GGML_ROPE_TYPE_VISION) return {};
    if (params.n_dims != n / 2) return "n_dims is not half a row, as vision wants it";
    return params.n_offs == 0 ? "" : "vision takes whole rows";
}

bool is_known(std::int32_t mode) {
    return mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX ||
           mode == GGML_ROPE_TYPE_MROPE || mode == GGML_ROPE_TYPE_VISION ||
           mode == GGML_ROPE_TYPE_IMROPE;
}

std::string_view operands_objection(const Tensor& node, const ops::Rotation::Params& params) {
    const Tensor &x = *node.src[0], &positions = *node.src[1];
    const Tensor* factors = node.src[2];
    const bool four = ops::Rotation::has_four_positions(params.mode);
    if (positions.type != GGML_TYPE_I32) return "positions are not i32";
    if (positions.ne[0] < x.ne[2] * (four ? 4 : 1)) return "there are too few positions";
    if (factors == nullptr) return {};
    if (factors->type != GGML_TYPE_F32) return "factors are not f32";
    const std::int64_t pairs =
        params.mode == GGML_ROPE_TYPE_VISION ? params.n_dims : params.n_dims / 2;
    return factors->ne[0] < pairs ? "there are fewer factors than pairs" : "";
}

std::string_view objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    const auto params = unpack<ops::Rotation::Params>(node);
    if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) return "x is not f32 or f16";
    if (node.type != x.type) return "the result does not have the type of x";
    if (!same_shape(x, node)) return "the result does not have the extents of x";
    if (!has_packed_rows(x) || !has_packed_rows(node)) return "rows are not dense";
    if (!is_known(params.mode)) return "there is no such mode";
    if (const auto reason = dims_objection(params, x.ne[0]); !reason.empty()) return reason;
    if (ops::Rotation::has_four_positions(params.mode)) {
        if (const auto reason = sections_objection(params, x.ne[0]); !reason.empty()) return reason;
    }
    return operands_objection(node, params);
}

void run(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(rope)(node, task); }

Demand demand(const Tensor& node, int threads) {
    Demand wanted = rows_demand(node, threads);
    wanted.scratch = static_cast<std::size_t>(wanted.tasks) * 5 *
                     static_cast<std::size_t>(node.ne[0]) * sizeof(float);
    return wanted;
}

}  // namespace

extern const Kernel kRope{
    .name = "rope", .op = GGML_OP_ROPE, .objection = objection, .run = run, .demand = demand};
extern const Kernel kRopeBack{.name = "rope_back",
                              .op = GGML_OP_ROPE_BACK,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
#endif
