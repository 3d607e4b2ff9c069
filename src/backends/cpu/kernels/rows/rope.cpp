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
    float* cosine;  ///< where pairs are neighbours, one for each element and not one for each pair
    float* sine;    ///< the same, and the first of a pair is negative
    float* row;

    RopeScratch(const Task& task, std::int64_t n) {
        const std::int64_t pitch = rope_pitch(n);
        auto* memory = reinterpret_cast<float*>(task.scratch) + task.index * 5 * pitch;
        per_position = memory;
        axis = reinterpret_cast<std::int32_t*>(memory + pitch);
        cosine = memory + 2 * pitch;
        sine = memory + 3 * pitch;
        row = memory + 4 * pitch;
    }
};

/// Cosines and sines of the angles of token `i2`. Whole vectors: the scratch memory is long enough.
void turn_table(const RopeAngles& angles, const Tensor& positions, std::int64_t tokens,
                std::int64_t i2, const RopeScratch& scratch) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const auto position_at = [&](std::int64_t k) {
        return static_cast<float>(*at<const std::int32_t>(positions, i2 + k * tokens));
    };
    const float first = position_at(0);
    const bool has_axes = ops::Rotation::has_four_positions(angles.params.mode);
    if (has_axes) {
        const float position[] = {first, position_at(1), position_at(2), position_at(3)};
        for (std::int64_t p = 0; p < angles.pairs; ++p) {
            scratch.row[p] = position[scratch.axis[p]] * scratch.per_position[p];
        }
        for (std::int64_t p = angles.pairs; p % step != 0; ++p) scratch.row[p] = 0;
    }
    const auto size = hn::Set(d, angles.magnitude);
    const auto way = hn::Set(d, angles.magnitude * angles.direction);
    for (std::int64_t p = 0; p < angles.pairs; p += step) {
        const auto angle = has_axes
                               ? hn::LoadU(d, scratch.row + p)
                               : hn::Mul(hn::Set(d, first), hn::LoadU(d, scratch.per_position + p));
        auto sine = angle, cosine = angle;
        sin_cos_of(d, angle, sine, cosine);
        sine = hn::Mul(sine, way);
        cosine = hn::Mul(cosine, size);
        if (angles.is_interleaved()) {
            hn::StoreInterleaved2(cosine, cosine, d, scratch.cosine + 2 * p);
            hn::StoreInterleaved2(hn::Neg(sine), sine, d, scratch.sine + 2 * p);
        } else {
            hn::StoreU(cosine, d, scratch.cosine + p);
            hn::StoreU(sine, d, scratch.sine + p);
        }
    }
}

/// Pairs of elements side by side. y may be x.
void turn_neighbours(const float* x, float* y, std::int64_t pairs, const RopeScratch& table) {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // whose vectors hold no pair
    const Floats d;
    const std::int64_t step = lane_count(d);
    for (; i + step <= 2 * pairs; i += step) {
        const auto own = hn::LoadU(d, x + i), other = hn::Reverse2(d, own);
        const auto kept = hn::Mul(own, hn::LoadU(d, table.cosine + i));
        hn::StoreU(hn::MulAdd(other, hn::LoadU(d, table.sine + i), kept), d, y + i);
    }
#endif
    for (; i < 2 * pairs; i += 2) {
        const float x0 = x[i], x1 = x[i + 1];
        y[i] = x1 * table.sine[i] + x0 * table.cosine[i];
        y[i + 1] = x0 * table.sine[i + 1] + x1 * table.cosine[i + 1];
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
    if (x != y && 2 * angles.pairs < n) {
        std::memcpy(y, x, static_cast<std::size_t>(first) * sizeof(float));
        std::memcpy(y + end, x + end, static_cast<std::size_t>(n - end) * sizeof(float));
    }
    if (angles.is_interleaved()) {
        turn_neighbours(x + first, y + first, angles.pairs, table);
    } else {
        turn_halves(x + first, y + first, angles.pairs, table);
    }
}

/// Heads `heads` of one token, whose angles are in the table.
void turn_heads(const RopeAngles& angles, const Tensor& x, const Tensor& y, Range heads, Row token,
                const RopeScratch& table) {
    const std::int64_t n = y.ne[0];
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
        const Row row{head, token.i2, token.i3};
        if (y.type == GGML_TYPE_F32) {
            turn_row(angles, row_at<const float>(x, row), row_at<float>(y, row), n, table);
            continue;
        }
        convert_row<F16Rows, F32Rows>(row_at(x, row), table.row, n);
        turn_row(angles, table.row, table.row, n, table);
        convert_row<F32Rows, F16Rows>(table.row, row_at(y, row), n);
    }
}

void rope(const Tensor& node, const Task& task) {
    const RopeAngles angles(node);
    const std::int64_t n = node.ne[0], heads = node.ne[1], tokens = node.ne[2];
    const RopeScratch scratch(task, n);
    const Range rows = task.share(row_count(node));
    if (rows.begin >= rows.end) return;
    angles.fill(node.src[2], scratch.per_position, scratch.axis);
    for (std::int64_t p = angles.pairs; p < rope_pitch(n); ++p) scratch.per_position[p] = 0;
    for (std::int64_t row = rows.begin; row < rows.end;) {
        const Row token{row % heads, row / heads % tokens, row / (heads * tokens)};
        const std::int64_t count = std::min(heads - token.i1, rows.end - row);
        turn_table(angles, *node.src[1], tokens, token.i2, scratch);
        turn_heads(angles, *node.src[0], node, {token.i1, token.i1 + count}, token, scratch);
        row += count;
    }
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
                     static_cast<std::size_t>(rope_pitch(node.ne[0])) * sizeof(float);
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
