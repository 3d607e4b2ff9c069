#include "ops/norm.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rows/norm.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>
#include <math.h>

#include "backends/cpu/kernels/elementwise/spans.hpp"
#include "backends/cpu/kernels/lanes.hpp"
#include "backends/cpu/kernels/rows/row_pieces.hpp"
#include "backends/cpu/kernels/rows/sums.hpp"
#include "ggml/op_list.h"
#include "ops/backward.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {

/// y = (x - centre) * factor
void scale_row(const float* x, float* y, std::int64_t n, float centre, float factor) {
    map_floats(x, y, n, [centre, factor](auto d, auto v) HWY_ATTR {
        return hn::Mul(hn::Sub(v, hn::Set(d, centre)), hn::Set(d, factor));
    });
}

/// What a row is scaled by.
struct Scaling {
    float centre, factor;
};

struct Centred {
    /// Of a piece; squares are of the distances from its own mean.
    struct Part {
        double sum, squares;
    };

    static float mean_of(double sum, std::int64_t n) {
        return static_cast<float>(sum / static_cast<double>(n));
    }

    static Part measure(const float* x, std::int64_t n) { return {sum_of(x, n), 0}; }

    static void refine(const float* x, std::int64_t n, Part& part) {
        part.squares = sum_of_squares(x, n, mean_of(part.sum, n));
    }

    static Scaling combine(std::span<const Part> parts, std::int64_t n, float eps) {
        double sum = 0, squares = 0;
        for (const Part& part : parts) sum += part.sum;
        const float centre = mean_of(sum, n);
        std::int64_t index = 0;
        for (const Part& part : parts) {
            const auto [begin, end] = row_piece(index++, n);
            const auto count = static_cast<double>(end - begin);
            const double mean = static_cast<double>(mean_of(part.sum, end - begin));
            const double shift = mean - static_cast<double>(centre);
            squares += part.squares + shift * (2 * (part.sum - count * mean) + count * shift);
        }
        return {centre, 1 / ::sqrtf(mean_of(squares, n) + eps)};
    }
};

/// Norms that know only how long a row is.
struct SquaresOnly {
    struct Part {
        double squares;
    };

    static Part measure(const float* x, std::int64_t n) { return {sum_of_products(x, x, n)}; }
    static void refine(const float*, std::int64_t, Part&) {}

    static double total(std::span<const Part> parts) {
        double squares = 0;
        for (const Part& part : parts) squares += part.squares;
        return squares;
    }
};

struct RootMeanSquare : SquaresOnly {
    static Scaling combine(std::span<const Part> parts, std::int64_t n, float eps) {
        const auto mean = static_cast<float>(total(parts) / static_cast<double>(n));
        return {0, 1 / ::sqrtf(mean + eps)};
    }
};

/// eps is the least length that a row is taken to have.
struct Length : SquaresOnly {
    static Scaling combine(std::span<const Part> parts, std::int64_t, float eps) {
        const auto length = static_cast<float>(::sqrt(total(parts)));
        return {0, 1 / (length > eps ? length : eps)};
    }
};

/// Where elements of a row do not follow each other, they pass through this task's part of the
/// scratch memory.
template <class Norm>
void norm_strided_rows(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    const float eps = unpack<ops::RowNorm::Params>(node).eps;
    const std::int64_t n = node.ne[0];
    using Part = typename Norm::Part;
    const std::int64_t pieces = pieces_of_row(n);
    auto* parts = reinterpret_cast<Part*>(task.scratch + static_cast<std::size_t>(task.index) *
                                                             buffered_row_size(n));
    auto* buffer = reinterpret_cast<float*>(parts + pieces);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        for (std::int64_t i = 0; i < n; ++i) {
            buffer[i] = *at<const float>(x, i, row.i1, row.i2, row.i3);
        }
        for (std::int64_t i = 0; i < pieces; ++i) {
            const auto [begin, end] = row_piece(i, n);
            parts[i] = Norm::measure(buffer + begin, end - begin);
            Norm::refine(buffer + begin, end - begin, parts[i]);
        }
        const std::span<const Part> all(parts, static_cast<std::size_t>(pieces));
        const auto [centre, factor] = Norm::combine(all, n, eps);
        scale_row(buffer, buffer, n, centre, factor);
        for (std::int64_t i = 0; i < n; ++i) {
            *at<float>(node, i, row.i1, row.i2, row.i3) = buffer[i];
        }
    });
}

template <class Norm>
struct NormSteps {
    const Tensor& x;
    const Tensor& y;
    float eps;

    using Part = typename Norm::Part;
    using Value = Scaling;

    const float* from(const Row& row, Range range) const {
        return row_at<const float>(x, row) + range.begin;
    }
    Part measure(const Row& row, Range range) const {
        return Norm::measure(from(row, range), range.end - range.begin);
    }
    void refine(const Row& row, Range range, Part& part) const {
        Norm::refine(from(row, range), range.end - range.begin, part);
    }
    Scaling combine(const Row&, std::span<const Part> parts) const {
        return Norm::combine(parts, y.ne[0], eps);
    }
    void finish(const Row& row, Range range, const Part&, Scaling scaling) const {
        scale_row(from(row, range), row_at<float>(y, row) + range.begin, range.end - range.begin,
                  scaling.centre, scaling.factor);
    }
};

template <class Norm>
void norm_rows(const Tensor& node, const Task& task) {
    const Tensor& x = *node.src[0];
    if (!has_packed_rows(x) || !has_packed_rows(node)) return norm_strided_rows<Norm>(node, task);
    const NormSteps<Norm> steps{x, node, unpack<ops::RowNorm::Params>(node).eps};
    work_in_pieces<typename Norm::Part>(node, task, steps);
}

void norm(const Tensor& node, const Task& task) { norm_rows<Centred>(node, task); }
void rms_norm(const Tensor& node, const Task& task) { norm_rows<RootMeanSquare>(node, task); }
void l2_norm(const Tensor& node, const Task& task) { norm_rows<Length>(node, task); }

/// The channels `range` of one batch, as stretches that are dense in x and y: planes, or their
/// rows.
struct Group {
    const Tensor& x;
    const Tensor& y;
    Range channels;
    std::int64_t batch;
    bool whole_planes;

    std::int64_t stretch() const { return whole_planes ? x.ne[0] * x.ne[1] : x.ne[0]; }
    double count() const {
        return static_cast<double>(x.ne[0] * x.ne[1] * (channels.end - channels.begin));
    }

    template <class Body>
    HWY_INLINE void for_stretches(Body body) const {
        for (std::int64_t i2 = channels.begin; i2 < channels.end; ++i2) {
            for (std::int64_t i1 = 0; i1 < (whole_planes ? 1 : x.ne[1]); ++i1) {
                body(at<const float>(x, 0, i1, i2, batch), at<float>(y, 0, i1, i2, batch));
            }
        }
    }
};

struct Spread {
    double mean, variance;
};

/// The group is read once, with the mean of its start in place of its own; only if that is far off
/// is it read again.
HWY_INLINE Spread spread_of(const Group& group) {
    const std::int64_t n = group.stretch();
    const double count = group.count();
    const std::int64_t start = n < kRowPiece ? n : kRowPiece;
    const float* first = at<const float>(group.x, 0, 0, group.channels.begin, group.batch);
    const float guess = Centred::mean_of(sum_of(first, start), start);
    double sum = 0, squares = 0;
    group.for_stretches([&](const float* from, float*) HWY_ATTR {
        const Moments moments = moments_of(Floats(), from, n, guess);
        sum += moments.sum;
        squares += moments.squares;
    });
    const double shift = sum / count, variance = squares / count - shift * shift;
    if (shift * shift <= 16 * variance) return {static_cast<double>(guess) + shift, variance};
    sum = squares = 0;
    group.for_stretches([&](const float* from, float*) HWY_ATTR { sum += sum_of(from, n); });
    const double mean = sum / count;
    group.for_stretches([&](const float* from, float*) HWY_ATTR {
        squares += sum_of_squares(from, n, static_cast<float>(mean));
    });
    return {mean, squares / count};
}

void group_norm(const Tensor& node, const Task& task) {
    const auto [n_groups, eps] = unpack<ops::GroupNorm::Params>(node);
    const Tensor& x = *node.src[0];
    const std::int64_t groups = n_groups;
    const std::int64_t each = (x.ne[2] + groups - 1) / groups;
    const std::size_t pitch = static_cast<std::size_t>(x.ne[0]) * sizeof(float);
    const bool whole_planes = x.nb[1] == pitch && node.nb[1] == pitch;
    const auto [begin, end] = task.share(groups * x.ne[3]);
    for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i % groups * each;
        const std::int64_t last = first + each < x.ne[2] ? first + each : x.ne[2];
        if (first >= last) continue;  // groups at the end may be short or have nothing
        const Group group{x, node, {first, last}, i / groups, whole_planes};
        const std::int64_t n = group.stretch();
        const auto [mean, variance] = spread_of(group);
        const auto centre = static_cast<float>(mean);
        const float factor = 1 / ::sqrtf(static_cast<float>(variance) + eps);
        group.for_stretches([&](const float* from, float* to)
                                HWY_ATTR { scale_row(from, to, n, centre, factor); });
    }
}

/// dx = (dy - x * sum(x * dy) / (sum(x * x) + n * eps)) / sqrt(mean(x * x) + eps)
void rms_norm_back(const Tensor& node, const Task& task) {
    const float eps = unpack<ops::RmsNormBack::Params>(node).eps;
    const std::int64_t n = node.ne[0];
    const auto count = static_cast<float>(n);
    for_rows(node, task.share(row_count(node)), [&](const Row& row) HWY_ATTR {
        const float* dy = row_at<const float>(*node.src[0], row);
        const float* x = row_at<const float>(*node.src[1], row);
        const double squares = sum_of_products(x, x, n), products = sum_of_products(x, dy, n);
        const auto mean = static_cast<float>(squares / static_cast<double>(n)) + eps;
        const float weight =
            static_cast<float>(products / (squares + static_cast<double>(count * eps)));
        const float factor = 1 / ::sqrtf(mean);
        map_floats(dy, x, row_at<float>(node, row), n,
                   [weight, factor](auto d, auto gradient, auto v) HWY_ATTR {
                       const auto rest = hn::NegMulAdd(v, hn::Set(d, weight), gradient);
                       return hn::Mul(rest, hn::Set(d, factor));
                   });
    });
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heddle::cpu {
HWY_EXPORT(norm);
HWY_EXPORT(rms_norm);
HWY_EXPORT(l2_norm);
HWY_EXPORT(group_norm);
HWY_EXPORT(rms_norm_back);
namespace {

std::string_view same_f32(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.type != GGML_TYPE_F32 || node.type != GGML_TYPE_F32) return "x is not f32";
    return same_shape(x, node) ? "" : "the result does not have the extents of x";
}

std::string_view strided_objection(const Tensor& node) {
    if (!(unpack<ops::RowNorm::Params>(node).eps >= 0)) return "eps is negative";
    return same_f32(node);
}

std::string_view rms_norm_objection(const Tensor& node) {
    if (const std::string_view reason = strided_objection(node); !reason.empty()) return reason;
    return has_packed_rows(*node.src[0]) && has_packed_rows(node) ? "" : "rows are not dense";
}

std::string_view group_norm_objection(const Tensor& node) {
    if (const std::string_view reason = same_f32(node); !reason.empty()) return reason;
    if (unpack<ops::GroupNorm::Params>(node).n_groups < 1) return "there are no groups";
    return has_packed_rows(*node.src[0]) && has_packed_rows(node) ? "" : "rows are not dense";
}

std::string_view rms_norm_back_objection(const Tensor& node) {
    const Tensor& x = *node.src[1];
    if (const std::string_view reason = same_f32(node); !reason.empty()) return reason;
    if (x.type != GGML_TYPE_F32) return "x is not f32";
    if (!same_shape(x, node)) return "x does not have the extents of dy";
    const bool dense = has_packed_rows(*node.src[0]) && has_packed_rows(x) && has_packed_rows(node);
    return dense ? "" : "rows are not dense";
}

void run_norm(const Tensor& node, const Task& task) { HWY_DYNAMIC_DISPATCH(norm)(node, task); }
void run_rms_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(rms_norm)(node, task);
}
void run_l2_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(l2_norm)(node, task);
}
void run_group_norm(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(group_norm)(node, task);
}
void run_rms_norm_back(const Tensor& node, const Task& task) {
    HWY_DYNAMIC_DISPATCH(rms_norm_back)(node, task);
}

Demand norm_demand(const Tensor& node, int threads) {
    if (has_packed_rows(*node.src[0]) && has_packed_rows(node)) {
        return pieces_demand(node, 2.0 * static_cast<double>(byte_size(node)), 0, threads);
    }
    Demand demand = rows_demand(node, threads);
    demand.scratch = static_cast<std::size_t>(demand.tasks) * buffered_row_size(node.ne[0]);
    return demand;
}

Demand group_norm_demand(const Tensor& node, int threads) {
    const std::int64_t groups = unpack<ops::GroupNorm::Params>(node).n_groups * node.ne[3];
    const double bytes = 4.0 * static_cast<double>(byte_size(node));
    return {.tasks = worthwhile_tasks(bytes, 0, groups, threads)};
}

}  // namespace

extern const Kernel kNorm{.name = "norm",
                          .op = GGML_OP_NORM,
                          .objection = strided_objection,
                          .run = run_norm,
                          .demand = norm_demand};
extern const Kernel kRmsNorm{.name = "rms_norm",
                             .op = GGML_OP_RMS_NORM,
                             .objection = rms_norm_objection,
                             .run = run_rms_norm,
                             .demand = norm_demand};
extern const Kernel kL2Norm{.name = "l2_norm",
                            .op = GGML_OP_L2_NORM,
                            .objection = strided_objection,
                            .run = run_l2_norm,
                            .demand = norm_demand};
extern const Kernel kGroupNorm{.name = "group_norm",
                               .op = GGML_OP_GROUP_NORM,
                               .objection = group_norm_objection,
                               .run = run_group_norm,
                               .demand = group_norm_demand};
extern const Kernel kRmsNormBack{.name = "rms_norm_back",
                                 .op = GGML_OP_RMS_NORM_BACK,
                                 .objection = rms_norm_back_objection,
                                 .run = run_rms_norm_back};

}  // namespace heddle::cpu
#endif
