#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/vision/conv_transpose.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

#include "backends/cpu/kernels/vector_rows.hpp"
#include "backends/cpu/kernels/vision/transposed.hpp"

HWY_BEFORE_NAMESPACE();
namespace heddle::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Elements of a row of the result that are summed together: kPiece times as many as the stride.
struct Piece {
    std::int64_t y, channel, batch;
    Range groups;  ///< of `stride` elements each
    float* sums;   ///< all of the first elements of the groups, then all of the second, ...
};

/// Adds one row of the data, times the kernel's row for it.
///
/// Tap k of element w lands on element w * stride + k of the result: in group w + k / stride, at
/// place k % stride. For each tap this is a row added to a row.
template <class Weights>
void add_row(const Transposed& conv, const Piece& piece, const float* row,
             const std::byte* weights) {
    const Range groups = piece.groups;
    for (std::int64_t tap = 0; tap < conv.taps; ++tap) {
        const std::int64_t shift = tap / conv.stride, place = tap % conv.stride;
        const std::int64_t begin = groups.begin > shift ? groups.begin : shift;
        const std::int64_t all = conv.width + shift;
        const std::int64_t end = groups.end < all ? groups.end : all;
        if (begin >= end) continue;
        const float weight =
            load_one<Weights>(weights + static_cast<std::size_t>(tap) * conv.tap_pitch);
        add_scaled(piece.sums + place * Transposed::kPiece + begin - groups.begin,
                   row + begin - shift, weight, end - begin);
    }
}

template <class Weights>
void sum_piece(const Transposed& conv, const Piece& piece) {
    const std::int64_t places = conv.places();
    for (std::int64_t i = 0; i < places * Transposed::kPiece; ++i) piece.sums[i] = 0;
    for (std::int64_t tap_y = 0; tap_y < conv.taps_y; ++tap_y) {
        const std::int64_t way = piece.y - tap_y;
        if (way < 0 || way % conv.stride != 0 || way / conv.stride >= conv.height) continue;
        for (std::int64_t in = 0; in < conv.in_channels; ++in) {
            add_row<Weights>(conv, piece, conv.row(way / conv.stride, in, piece.batch),
                             conv.weights(tap_y, piece.channel, in));
        }
    }
    float* to = at<float>(conv.node, 0, piece.y, piece.channel, piece.batch);
    if (conv.is_signal) to = at<float>(conv.node, 0, piece.channel);
    for (std::int64_t group = piece.groups.begin; group < piece.groups.end; ++group) {
        const std::int64_t first = group * conv.stride, left = conv.out_width - first;
        const std::int64_t n = left < places ? left : places;
        const float* sums = piece.sums + (group - piece.groups.begin);
        for (std::int64_t i = 0; i < n; ++i) to[first + i] = sums[i * Transposed::kPiece];
    }
}

template <class Weights>
void sum_pieces(const Transposed& conv, float* sums, const Task& task) {
    const std::int64_t per_row = conv.pieces_per_row(), groups = conv.groups();
    const Range pieces = task.share(conv.pieces());
    for (std::int64_t number = pieces.begin; number < pieces.end; ++number) {
        const std::int64_t row = number / per_row;
        const std::int64_t first = number % per_row * Transposed::kPiece;
        const std::int64_t end = first + Transposed::kPiece;
        sum_piece<Weights>(conv, {.y = row % conv.out_height,
                                  .channel = row / conv.out_height % conv.out_channels,
                                  .batch = row / (conv.out_height * conv.out_channels),
                                  .groups = {first, end < groups ? end : groups},
                                  .sums = sums});
    }
}

}  // namespace

void convolve_transposed(const Transposed& conv, float* sums, const Task& task) {
    if (conv.kernel.type == GGML_TYPE_F32) {
        sum_pieces<F32Rows>(conv, sums, task);
    } else {
        sum_pieces<F16Rows>(conv, sums, task);
    }
}

}  // namespace heddle::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernels/node_flops.hpp"

namespace heddle::cpu {
HWY_EXPORT(convolve_transposed);
namespace {

/// Bytes of the sums of one task.
std::size_t sums_size(const Transposed& conv) {
    return static_cast<std::size_t>(conv.places() * Transposed::kPiece) * sizeof(float);
}

/// With a kernel of f16 the data count as if they were f16, too; they are rounded once.
void run(const Transposed& conv, const Task& task) {
    if (is_empty(conv.node)) return;
    Transposed rounded = conv;
    std::byte* sums = task.scratch + conv.rounded_size();
    if (conv.rounded_size() > 0) {
        rounded.use_rounded(reinterpret_cast<const float*>(task.scratch));
        for_rows(conv.x, task.share(row_count(conv.x)), [&](const Row& row) {
            const std::int64_t number = (row.i3 * conv.x.ne[2] + row.i2) * conv.x.ne[1] + row.i1;
            round_to_f16_row(row_at<const float>(conv.x, row),
                             reinterpret_cast<float*>(task.scratch) + number * conv.x.ne[0],
                             conv.x.ne[0]);
        });
        task.sync();
    }
    sums += static_cast<std::size_t>(task.index) * sums_size(conv);
    HWY_DYNAMIC_DISPATCH(convolve_transposed)(rounded, reinterpret_cast<float*>(sums), task);
}

std::string_view objection(const Transposed& conv) {
    if (conv.kernel.type != GGML_TYPE_F32 && conv.kernel.type != GGML_TYPE_F16) {
        return "the kernel is not f32 or f16";
    }
    if (conv.x.type != GGML_TYPE_F32) return "x is not f32";
    if (conv.x.nb[0] != sizeof(float)) return "rows of x are not dense";
    if (conv.node.nb[0] != sizeof(float)) return "rows of the result are not dense";
    return {};
}

Demand demand(const Transposed& conv, double flops, int threads) {
    const int tasks = worthwhile_tasks(0, flops, conv.pieces(), threads);
    return {.tasks = tasks,
            .scratch = conv.rounded_size() + static_cast<std::size_t>(tasks) * sums_size(conv)};
}

/// The functions of a kernel for the op of descriptor `D`.
template <class D, Transposed (*kOf)(const Tensor&)>
struct Entry {
    static std::string_view objection(const Tensor& node) { return cpu::objection(kOf(node)); }
    static void run(const Tensor& node, const Task& task) { cpu::run(kOf(node), task); }
    static Demand demand(const Tensor& node, int threads) {
        return cpu::demand(kOf(node), flops_of<D>(node), threads);
    }
    static constexpr Kernel kernel(std::string_view name) {
        return {.name = name, .op = D::id, .objection = objection, .run = run, .demand = demand};
    }
};

}  // namespace

extern const Kernel kConvTranspose1d =
    Entry<ops::ConvTranspose1d, transposed_1d>::kernel("conv_transpose_1d");
extern const Kernel kConvTranspose2d =
    Entry<ops::ConvTranspose2d, transposed_2d>::kernel("conv_transpose_2d");

}  // namespace heddle::cpu
#endif
