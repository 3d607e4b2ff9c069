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

/// The scratch memory of a task. Cosines and sines are those of one token; `row` is where half
/// floats are turned.
struct RopeScratch {
    float* per_position;
    std::int32_t* axis;
    float* cosine;  ///< where pairs are neighbours, one for each element and not one for each pair
    float* sine;    ///< the same, and the first of a pair is negative
    float* row;

    RopeScratch(const Task& task, std::int64_t n) {
        const std::int64_t pitch = rope_pitch(n);
        auto* memory = reinterpret_cast<float*>(task.scratch) + task.index * kRopeRows * pitch;
        per_position = memory;
        axis = reinterpret_cast<std::int32_t*>(memory + pitch);
        cosine = memory + 2 * pitch;
        sine = memory + 3 * pitch;
        row = memory + 4 * pitch;
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

/// Heads of one token that are turned together: they share what is loaded from the table.
inline constexpr std::int64_t kHeadsTogether = 4;

/// More than this does not come from a near cache: then one head after the other is faster, as the
/// processor sees where that leads.
inline constexpr std::size_t kNearBytes = 512 * 1024;

/// Rows of floats `pitch` bytes apart.
template <class T>
struct Heads {
    T* first;
    std::size_t pitch;

    HWY_INLINE T* row(std::int64_t k) const {
        auto* bytes = reinterpret_cast<std::byte*>(const_cast<float*>(first));
        return reinterpret_cast<T*>(bytes + static_cast<std::size_t>(k) * pitch);
    }
};

/// Pairs of elements side by side. y may be x.
template <std::int64_t kCount>
void turn_neighbours(Heads<const float> x, Heads<float> y, std::int64_t pairs,
                     const RopeScratch& table) {
    std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // whose vectors hold no pair
    const Floats d;
    const std::int64_t step = lane_count(d);
    for (; i + step <= 2 * pairs; i += step) {
        const auto c = hn::LoadU(d, table.cosine + i), s = hn::LoadU(d, table.sine + i);
        for (std::int64_t k = 0; k < kCount; ++k) {
            const auto own = hn::LoadU(d, x.row(k) + i), other = hn::Reverse2(d, own);
            hn::StoreU(hn::MulAdd(other, s, hn::Mul(own, c)), d, y.row(k) + i);
        }
    }
#endif
    for (; i < 2 * pairs; i += 2) {
        for (std::int64_t k = 0; k < kCount; ++k) {
            const float x0 = x.row(k)[i], x1 = x.row(k)[i + 1];
            y.row(k)[i] = x1 * table.sine[i] + x0 * table.cosine[i];
            y.row(k)[i + 1] = x0 * table.sine[i + 1] + x1 * table.cosine[i + 1];
        }
    }
}

/// Pairs whose second elements follow all the first ones. y may be x.
template <std::int64_t kCount>
void turn_halves(Heads<const float> x, Heads<float> y, std::int64_t pairs,
                 const RopeScratch& table) {
    const Floats d;
    const std::int64_t step = lane_count(d);
    std::int64_t p = 0;
    for (; p + step <= pairs; p += step) {
        const auto c = hn::LoadU(d, table.cosine + p), s = hn::LoadU(d, table.sine + p);
        for (std::int64_t k = 0; k < kCount; ++k) {
            const auto x0 = hn::LoadU(d, x.row(k) + p), x1 = hn::LoadU(d, x.row(k) + pairs + p);
            hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, y.row(k) + p);
            hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, y.row(k) + pairs + p);
        }
    }
    for (; p < pairs; ++p) {
        for (std::int64_t k = 0; k < kCount; ++k) {
            const float x0 = x.row(k)[p], x1 = x.row(k)[pairs + p];
            y.row(k)[p] = x0 * table.cosine[p] - x1 * table.sine[p];
            y.row(k)[pairs + p] = x0 * table.sine[p] + x1 * table.cosine[p];
        }
    }
}

/// `kCount` rows of n elements; those that are not turned stay as they are.
template <std::int64_t kCount>
HWY_INLINE void turn_rows(const RopeAngles& angles, Heads<const float> x, Heads<float> y,
                          std::int64_t n, const RopeScratch& table) {
    const std::int64_t first = angles.first(), end = first + 2 * angles.pairs;
    if (x.first != y.first && 2 * angles.pairs < n) {
        for (std::int64_t k = 0; k < kCount; ++k) {
            const float* from = x.row(k);
            std::memcpy(y.row(k), from, static_cast<std::size_t>(first) * sizeof(float));
            std::memcpy(y.row(k) + end, from + end,
                        static_cast<std::size_t>(n - end) * sizeof(float));
        }
    }
    x.first += first;
    y.first += first;
    if (angles.is_interleaved()) {
        turn_neighbours<kCount>(x, y, angles.pairs, table);
    } else {
        turn_halves<kCount>(x, y, angles.pairs, table);
    }
}

/// Heads `heads` of one token, whose angles are in the table.
void turn_heads(const RopeAngles& angles, const Tensor& x, const Tensor& y, Range heads,
                const Row& token, const RopeScratch& table) {
    const std::int64_t n = y.ne[0];
    std::int64_t head = heads.begin;
    if (y.type == GGML_TYPE_F32) {
        const auto rows_of = [&](std::int64_t i) HWY_ATTR {
            return std::pair(Heads<const float>{at<float>(x, 0, i, token.i2, token.i3), x.nb[1]},
                             Heads<float>{at<float>(y, 0, i, token.i2, token.i3), y.nb[1]});
        };
        const bool is_near = byte_size(y) <= kNearBytes;
        for (; is_near && head + kHeadsTogether <= heads.end; head += kHeadsTogether) {
            const auto [from, to] = rows_of(head);
            turn_rows<kHeadsTogether>(angles, from, to, n, table);
        }
        for (; head < heads.end; ++head) {
            const auto [from, to] = rows_of(head);
            turn_rows<1>(angles, from, to, n, table);
        }
        return;
    }
    for (; head < heads.end; ++head) {
        convert_row<F16Rows, F32Rows>(at(x, 0, head, token.i2, token.i3), table.row, n);
        turn_rows<1>(angles, {table.row, 0}, {table.row, 0}, n, table);
        convert_row<F32Rows, F16Rows>(table.row, at(y, 0, head, token.i2, token.i3), n);
    }
}

void rope(const Tensor& node, const Task& task) {
    const RopeAngles angles(node);
    const std::int64_t n = node.ne[0], heads = node.ne[1], tokens = node.ne[2];
    const RopeScratch scratch(task, n);
    const Range rows = task.share(row_count(node));
    if (rows.begin >= rows.end) return;
    angles.fill(node.src[2], scratch.per_position, scratch.axis);
    for (std::int64_t p = angles.pairs; p < rope_pitch(n); ++p) {
        scratch.per_position[p] = 0;
        scratch.axis[p] = 0;
    }
    float fastest = 0;
    for (std::int64_t p = 0; p < angles.pairs; ++p) {
        const float speed = scratch.per_position[p];
        fastest = std::max(fastest, speed < 0 ? -speed : speed);
    }
    for (std::int64_t row = rows.begin; row < rows.end;) {
        const Row token{row % heads, row / heads % tokens, row / (heads * tokens)};
        const std::int64_t count = std::min(heads - token.i1, rows.end - row);
        turn_table({angles, scratch, *node.src[1], tokens, token.i2}, fastest);
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
