#include "ops/rope.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/rope.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/lanes_math.hpp"
#include "backends/cpu/kernels/rows/rope_angles.hpp"
#include "backends/cpu/kernels/vector_rows.hpp"
#include "ggml/op_list.h"
#include "ggml/ops_nn.h"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// The scratch memory of a task. Cosines and sines are those of one token.
struct RopeScratch {
    float* per_position;
    std::int32_t* axis;
    float* cosine;  ///< where pairs are neighbours, one for each element and not one for each pair
    float* sine;    ///< the same, and the first of a pair is negative

    RopeScratch(const Task& task, std::int64_t n) {
        const std::int64_t pitch = rope_pitch(n);
        auto* memory = reinterpret_cast<float*>(task.scratch) + task.index * kRopeRows * pitch;
        per_position = memory;
        axis = reinterpret_cast<std::int32_t*>(memory + pitch);
        cosine = memory + 2 * pitch;
        sine = memory + 3 * pitch;
    }
};

/// How far the pairs of one token are turned.
struct TokenAngles {
    const RopeAngles& angles;
    const RopeScratch& scratch;
    float position[4] = {};

    TokenAngles(const RopeAngles& all, const RopeScratch& memory, const Tensor& positions,
                std::int64_t tokens, std::int64_t token)
        : angles(all), scratch(memory) {
        for (std::int64_t k = 0; k < (angles.has_axes() ? 4 : 1); ++k) {
            position[k] =
                static_cast<float>(*at<const std::int32_t>(positions, token + k * tokens));
        }
    }

    float farthest_position() const {
        float most = 0;
        for (const float p : position) most = std::max(most, p < 0 ? -p : p);
        return most;
    }

    /// Of the pairs from `p` on.
    template <class D>
    HWY_INLINE hn::Vec<D> at_pairs(D d, std::int64_t p) const {
        auto where = hn::Set(d, position[0]);
        if (angles.has_axes()) {
            const hn::Rebind<std::int32_t, D> di;
            const auto axis = hn::LoadU(di, scratch.axis + p);
            for (std::int32_t k = 1; k < 4; ++k) {
                const auto is_axis = hn::RebindMask(d, hn::Eq(axis, hn::Set(di, k)));
                where = hn::IfThenElse(is_axis, hn::Set(d, position[k]), where);
            }
        }
        return hn::Mul(where, hn::LoadU(d, scratch.per_position + p));
    }
};

/// Each lane of `v` twice in a row, the first time with the other sign if `kTurned`.
template <bool kTurned, class D>
HWY_INLINE void store_doubled(D d, hn::Vec<D> v, float* to) {
    const hn::Rebind<std::int32_t, D> di;
    const auto step = static_cast<std::int32_t>(lane_count(d));
    for (const std::int32_t start : {0, step}) {
        const auto lanes = hn::ShiftRight<1>(hn::Iota(di, start));
        auto doubled = hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes));
        if constexpr (kTurned) {
            const auto is_even = hn::ShiftLeft<31>(hn::Iota(di, start + 1));  // as sign bit
            doubled = hn::Xor(doubled, hn::BitCast(d, is_even));
        }
        hn::StoreU(doubled, d, to + start);
    }
}

/// Fills the table for a token. Whole vectors: the scratch memory is long enough.
template <class SinCos>
HWY_INLINE void fill_table(const TokenAngles& token, SinCos sin_cos) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    const RopeAngles& angles = token.angles;
    const auto size = hn::Set(d, angles.magnitude);
    const auto way = hn::Set(d, angles.magnitude * angles.direction);
    for (std::int64_t p = 0; p < angles.pairs; p += step) {
        const auto angle = token.at_pairs(d, p);
        auto sine = angle, cosine = angle;
        sin_cos(d, angle, sine, cosine);
        sine = hn::Mul(sine, way);
        cosine = hn::Mul(cosine, size);
        if (angles.is_interleaved()) {
            store_doubled<false>(d, cosine, token.scratch.cosine + 2 * p);
            store_doubled<true>(d, sine, token.scratch.sine + 2 * p);
        } else {
            hn::StoreU(cosine, d, token.scratch.cosine + p);
            hn::StoreU(sine, d, token.scratch.sine + p);
        }
    }
}

/// Of the first `n` floats at `x`, which are followed by zeros up to the end of a vector.
HWY_INLINE float largest_magnitude(const float* x, std::int64_t n) {
    const Floats d;
    auto most = hn::Zero(d);
    for (std::int64_t i = 0; i < n; i += lane_count(d)) {
        most = hn::Max(most, hn::Abs(hn::LoadU(d, x + i)));
    }
    return hn::GetLane(hn::MaxOfLanes(d, most));
}

/// On its own: calls in a loop keep constants out of registers.
HWY_NOINLINE void fill_table_far(const TokenAngles& token) {
    fill_table(token, [](auto d, auto angle, auto& sine, auto& cosine)
                          HWY_ATTR { sin_cos_of(d, angle, sine, cosine); });
}

/// `fastest` is the largest angle per unit of position.
void turn_table(const TokenAngles& token, float fastest) {
    if (!(token.farthest_position() * fastest <= kAngleLimit)) return fill_table_far(token);
    fill_table(token, [](auto d, auto angle, auto& sine, auto& cosine)
                          HWY_ATTR { moderate_sin_cos(d, angle, sine, cosine); });
}

/// More than this does not come from a near cache: then one head after the other is faster, as the
/// CPU sees where that leads.
inline constexpr std::size_t kNearBytes = 512 * 1024;

/// Heads of one token, `pitch` bytes apart.
template <class T>
struct Heads {
    T* first;
    std::size_t pitch;

    template <class Rows>
    HWY_INLINE T* at(std::int64_t head, std::int64_t i) const {
        return first + static_cast<std::size_t>(head) * pitch +
               static_cast<std::size_t>(i * Rows::kSize);
    }
};

/// A vector of pairs side by side.
template <class D>
HWY_INLINE hn::Vec<D> turn_pairs(D d, hn::Vec<D> x, hn::Vec<D> cosine, hn::Vec<D> sine) {
    return hn::MulAdd(hn::Reverse2(d, x), sine, hn::Mul(x, cosine));
}

/// Pairs of elements side by side, in `count` heads. y may be x.
template <class Rows>
void turn_neighbours(Heads<const std::byte> x, Heads<std::byte> y, std::int64_t count,
                     std::int64_t pairs, const RopeScratch& table) {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // whose vectors hold no pair
    const Floats d;
    const std::int64_t step = lane_count(d);
    // What a stretch of all heads needs of the table stays in registers.
    for (; i + 4 * step <= 2 * pairs; i += 4 * step) {
        const float *c = table.cosine + i, *s = table.sine + i;
        const auto c0 = hn::LoadU(d, c), c1 = hn::LoadU(d, c + step);
        const auto c2 = hn::LoadU(d, c + 2 * step), c3 = hn::LoadU(d, c + 3 * step);
        const auto s0 = hn::LoadU(d, s), s1 = hn::LoadU(d, s + step);
        const auto s2 = hn::LoadU(d, s + 2 * step), s3 = hn::LoadU(d, s + 3 * step);
        for (std::int64_t head = 0; head < count; ++head) {
            const auto load = [&](std::int64_t k) HWY_ATTR {
                return Rows::load(d, x.template at<Rows>(head, i + k * step));
            };
            const auto store = [&](std::int64_t k, auto turned) HWY_ATTR {
                Rows::store(d, turned, y.template at<Rows>(head, i + k * step));
            };
            const auto x0 = load(0), x1 = load(1), x2 = load(2), x3 = load(3);
            store(0, turn_pairs(d, x0, c0, s0));
            store(1, turn_pairs(d, x1, c1, s1));
            store(2, turn_pairs(d, x2, c2, s2));
            store(3, turn_pairs(d, x3, c3, s3));
        }
    }
    for (; i + step <= 2 * pairs; i += step) {
        const auto c = hn::LoadU(d, table.cosine + i), s = hn::LoadU(d, table.sine + i);
        for (std::int64_t head = 0; head < count; ++head) {
            const auto own = Rows::load(d, x.template at<Rows>(head, i));
            Rows::store(d, turn_pairs(d, own, c, s), y.template at<Rows>(head, i));
        }
    }
#endif
    const hn::CappedTag<float, 1> single;
    for (; i < 2 * pairs; i += 2) {
        for (std::int64_t head = 0; head < count; ++head) {
            const float x0 = load_one<Rows>(x.template at<Rows>(head, i));
            const float x1 = load_one<Rows>(x.template at<Rows>(head, i + 1));
            const float y0 = x1 * table.sine[i] + x0 * table.cosine[i];
            const float y1 = x0 * table.sine[i + 1] + x1 * table.cosine[i + 1];
            Rows::store(single, hn::Set(single, y0), y.template at<Rows>(head, i));
            Rows::store(single, hn::Set(single, y1), y.template at<Rows>(head, i + 1));
        }
    }
}

/// Pairs whose second elements follow all the first ones, in `count` heads. y may be x.
template <class Rows>
void turn_halves(Heads<const std::byte> x, Heads<std::byte> y, std::int64_t count,
                 std::int64_t pairs, const RopeScratch& table) {
    const auto load = [&](auto d, std::int64_t head, std::int64_t i)
                          HWY_ATTR { return Rows::load(d, x.template at<Rows>(head, i)); };
    const auto store = [&](auto d, std::int64_t head, std::int64_t p, auto x0, auto x1, auto c,
                           auto s) HWY_ATTR {
        Rows::store(d, hn::NegMulAdd(x1, s, hn::Mul(x0, c)), y.template at<Rows>(head, p));
        Rows::store(d, hn::MulAdd(x0, s, hn::Mul(x1, c)), y.template at<Rows>(head, pairs + p));
    };
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t p = 0;
    for (; p + 2 * step <= pairs; p += 2 * step) {
        const float *c = table.cosine + p, *s = table.sine + p;
        const auto c0 = hn::LoadU(d, c), c1 = hn::LoadU(d, c + step);
        const auto s0 = hn::LoadU(d, s), s1 = hn::LoadU(d, s + step);
        for (std::int64_t head = 0; head < count; ++head) {
            const auto x00 = load(d, head, p), x01 = load(d, head, p + step);
            const auto x10 = load(d, head, pairs + p), x11 = load(d, head, pairs + p + step);
            store(d, head, p, x00, x10, c0, s0);
            store(d, head, p + step, x01, x11, c1, s1);
        }
    }
    const auto turn = [&](auto tag, std::int64_t head, auto c, auto s) HWY_ATTR {
        store(tag, head, p, load(tag, head, p), load(tag, head, pairs + p), c, s);
    };
    for (; p + step <= pairs; p += step) {
        const auto c = hn::LoadU(d, table.cosine + p), s = hn::LoadU(d, table.sine + p);
        for (std::int64_t head = 0; head < count; ++head) turn(d, head, c, s);
    }
    const hn::CappedTag<float, 1> single;
    for (; p < pairs; ++p) {
        const auto c = hn::Set(single, table.cosine[p]), s = hn::Set(single, table.sine[p]);
        for (std::int64_t head = 0; head < count; ++head) turn(single, head, c, s);
    }
}

/// `count` heads of n elements; those elements that are not turned stay as they are.
template <class Rows>
void turn_heads(const RopeAngles& angles, Heads<const std::byte> x, Heads<std::byte> y,
                std::int64_t count, std::int64_t n, const RopeScratch& table) {
    const std::int64_t first = angles.first(), end = first + 2 * angles.pairs;
    if (x.first != y.first && 2 * angles.pairs < n) {
        const auto before = static_cast<std::size_t>(first * Rows::kSize);
        const auto behind = static_cast<std::size_t>((n - end) * Rows::kSize);
        for (std::int64_t head = 0; head < count; ++head) {
            std::memcpy(y.template at<Rows>(head, 0), x.template at<Rows>(head, 0), before);
            std::memcpy(y.template at<Rows>(head, end), x.template at<Rows>(head, end), behind);
        }
    }
    x.first = x.template at<Rows>(0, first);
    y.first = y.template at<Rows>(0, first);
    if (angles.is_interleaved()) {
        turn_neighbours<Rows>(x, y, count, angles.pairs, table);
    } else {
        turn_halves<Rows>(x, y, count, angles.pairs, table);
    }
}

/// Heads `heads` of one token, whose angles are in the table.
template <class Rows>
void turn_token(const RopeAngles& angles, const Tensor& x, const Tensor& y, Range heads,
                const Row& token, const RopeScratch& table) {
    const std::int64_t all = heads.end - heads.begin;
    const std::int64_t together = byte_size(y) <= kNearBytes ? all : 1;
    for (std::int64_t head = heads.begin; head < heads.end; head += together) {
        turn_heads<Rows>(angles, {at(x, 0, head, token.i2, token.i3), x.nb[1]},
                         {at(y, 0, head, token.i2, token.i3), y.nb[1]}, together, y.ne[0], table);
    }
}

void rope(const Tensor& node, const Task& task) {
    const RopeAngles angles(node);
    const std::int64_t n = node.ne[0], heads = node.ne[1], tokens = node.ne[2];
    const RopeScratch scratch(task, n);
    const Range rows = task.share(row_count(node));
    if (rows.begin >= rows.end) return;
    const auto turn = node.type == GGML_TYPE_F32 ? turn_token<F32Rows> : turn_token<F16Rows>;
    angles.fill(node.src[2], scratch.per_position, scratch.axis);
    for (std::int64_t p = angles.pairs; p < rope_pitch(n); ++p) {
        scratch.per_position[p] = 0;
        scratch.axis[p] = 0;
    }
    const float fastest = largest_magnitude(scratch.per_position, angles.pairs);
    for (std::int64_t row = rows.begin; row < rows.end;) {
        const Row token{row % heads, row / heads % tokens, row / (heads * tokens)};
        const std::int64_t count = std::min(heads - token.i1, rows.end - row);
        turn_table({angles, scratch, *node.src[1], tokens, token.i2}, fastest);
        turn(angles, *node.src[0], node, {token.i1, token.i1 + count}, token, scratch);
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
    wanted.scratch =
        static_cast<std::size_t>(wanted.tasks * kRopeRows * rope_pitch(node.ne[0])) * sizeof(float);
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
