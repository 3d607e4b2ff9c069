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
/// For each tap this is a row added to a row.
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
    float* to = conv.out_row(piece.y, piece.channel, piece.batch);
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
#include <algorithm>
#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernels/node_flops.hpp"
#include "backends/cpu/kernels/products/gemm_pieces.hpp"
#include "core/half.hpp"

namespace heddle::cpu {
HWY_EXPORT(convolve_transposed);
namespace {

/// Bytes of the sums of one task.
std::size_t sums_size(const Transposed& conv) {
    return static_cast<std::size_t>(conv.places() * Transposed::kPiece) * sizeof(float);
}

// ---- row by row --------------------------------------------------------------------------------

/// With a kernel of f16 the data count as if they were f16, too; they are rounded once.
void run_rows(const Transposed& conv, const Task& task) {
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

// ---- over micro-panels --------------------------------------------------------------------------

/// A transposed convolution as matrix products, one for each place of a group: its rows are the
/// groups of the result, its columns the output channels, and what is summed over are the taps that
/// land on the place, and the input channels.
///
/// Column micro-panels follow each other for all output channels of a place, then for all places.
/// Those of one place: input channels vary fastest, then taps across, then taps down.
struct TransposedProduct {
    static constexpr std::int64_t kGroups = 64;  ///< of a piece; whole micro-panels of every kernel
    static constexpr std::int64_t kDepth = 1024;   ///< elements that are packed at once, at most
    static constexpr std::int64_t kSums = 768;     ///< columns of a piece, at most
    static constexpr std::int64_t kChannels = 16;  ///< whose weights are packed in one go

    const Transposed& conv;
    GemmKernel kernel;

    std::int64_t places() const { return conv.hit_places(conv.taps); }
    std::int64_t places_y() const { return conv.hit_places(conv.taps_y); }
    std::int64_t line_depth() const { return conv.taps_at(0, conv.taps) * conv.in_channels; }
    std::int64_t depth() const { return conv.taps_at(0, conv.taps_y) * line_depth(); }
    std::int64_t groups() const { return conv.groups() * conv.groups_y(); }

    /// Multiplying pays unless most of the groups lie at the ends, where there is little to sum: so
    /// it is with long kernels over a few elements.
    bool pays() const {
        return conv.out_channels >= 3 && conv.in_channels >= 2 &&
               groups() <= 4 * conv.width * conv.height;
    }

    std::size_t weights_size() const {
        const std::int64_t channels =
            blocks_of(conv.out_channels, kMicroPanelColumns) * kMicroPanelColumns;
        const std::int64_t floats = places() * places_y() * channels * depth();
        return static_cast<std::size_t>(blocks_of(floats, 16) * 16) * sizeof(float);
    }
    std::size_t line_size() const {
        const std::int64_t floats = conv.out_channels * conv.taps * conv.taps_y;
        return static_cast<std::size_t>(blocks_of(floats, 16) * 16) * sizeof(float);
    }
    std::size_t task_size() const {
        constexpr auto per_group = static_cast<std::size_t>(kDepth + kSums) * sizeof(float);
        return kGroups * per_group + line_size();
    }

    // For the kernel in use.
    std::int64_t micro_panels() const { return blocks_of(conv.out_channels, kernel.columns); }
    std::int64_t micro_panel_floats() const { return depth() * kernel.columns; }

    const float* weights_of(std::int64_t in, float* line) const;
    void pack_weights(Range in_channels, float* line, float* to) const;
    void pack_groups(Range groups, std::int64_t batch, std::int64_t tap_y, Range depth,
                     float* to) const;
    void multiply(Range groups, Range columns, std::int64_t batch, const float* weights,
                  float* scratch) const;
    void put(Range groups, std::int64_t batch, std::int64_t place, std::int64_t place_y,
             std::int64_t channel, const float* sums) const;

    /// Calls `piece(y, x, count)` for the rows of groups that make up `range`.
    template <class Piece>
    void for_rows_of(Range range, Piece piece) const {
        for (std::int64_t i = range.begin; i < range.end;) {
            const std::int64_t y = i / conv.groups(), x = i % conv.groups();
            const std::int64_t count = std::min(conv.groups() - x, range.end - i);
            piece(y, x, count);
            i += count;
        }
    }
};

/// All weights of an input channel as floats, one output channel after another.
const float* TransposedProduct::weights_of(std::int64_t in, float* line) const {
    const bool is_f32 = conv.kernel.type == GGML_TYPE_F32;
    const std::size_t size = size_of(conv.kernel.type);
    const std::size_t row = size * static_cast<std::size_t>(conv.taps);
    const std::size_t plane = row * static_cast<std::size_t>(conv.taps_y);
    const bool is_dense = conv.tap_pitch == size && conv.out_pitch == plane &&
                          (conv.taps_y == 1 || conv.tap_y_pitch == row);
    const std::byte* from = conv.weights(0, 0, in);
    if (is_dense && is_f32) return reinterpret_cast<const float*>(from);
    if (is_dense) {
        f16_to_f32_row(from, line, conv.out_channels * conv.taps_y * conv.taps);
        return line;
    }
    float* to = line;
    for (std::int64_t out = 0; out < conv.out_channels; ++out) {
        for (std::int64_t y = 0; y < conv.taps_y; ++y) {
            from = conv.weights(y, out, in);
            for (std::int64_t k = 0; k < conv.taps; ++k, from += conv.tap_pitch) {
                *to++ = is_f32 ? *reinterpret_cast<const float*>(from)
                               : f16_to_f32(*reinterpret_cast<const std::uint16_t*>(from));
            }
        }
    }
    return line;
}

void TransposedProduct::pack_weights(Range in_channels, float* line, float* to) const {
    const std::int64_t taps = conv.taps * conv.taps_y, columns = kernel.columns;
    for (std::int64_t in = in_channels.begin; in < in_channels.end; ++in) {
        const float* weights = weights_of(in, line);
        for (std::int64_t tap = 0; tap < taps; ++tap) {
            const std::int64_t x = tap % conv.taps, y = tap / conv.taps;
            const std::int64_t place = y % conv.stride * places() + x % conv.stride;
            float* micro_panel =
                to + place * micro_panels() * micro_panel_floats() +
                (y / conv.stride * line_depth() + x / conv.stride * conv.in_channels + in) *
                    columns;
            const float* from = weights + tap;
            for (std::int64_t first = 0; first < conv.out_channels; first += columns) {
                const std::int64_t there = std::min(columns, conv.out_channels - first);
                for (std::int64_t c = 0; c < there; ++c, from += taps) micro_panel[c] = *from;
                for (std::int64_t c = there; c < columns; ++c) micro_panel[c] = 0;
                micro_panel += micro_panel_floats();
            }
        }
    }
}

/// What groups see through taps `tap_y` and those of elements `depth` of a line, in micro-panels.
void TransposedProduct::pack_groups(Range range, std::int64_t batch, std::int64_t tap_y,
                                    Range depth, float* to) const {
    const std::int64_t rows = kernel.rows, count = depth.end - depth.begin;
    const bool rounds = conv.kernel.type != GGML_TYPE_F32;
    for (std::int64_t first = range.begin; first < range.end; first += rows, to += rows * count) {
        const Range micro_panel{first, std::min(first + rows, range.end)};
        if (micro_panel.end - first < rows) std::fill_n(to, rows * count, 0.0f);
        float* at_row = to;
        for_rows_of(micro_panel, [&](std::int64_t group_y, std::int64_t group, std::int64_t n) {
            const std::int64_t y = group_y - tap_y;
            const bool is_inside = 0 <= y && y < conv.height;
            for (std::int64_t i = depth.begin; i < depth.end; ++i) {
                const std::int64_t tap = i / conv.in_channels, x = group - tap;
                float* into = at_row + (i - depth.begin) * rows;
                const std::int64_t begin = std::clamp<std::int64_t>(-x, 0, n);
                const std::int64_t end = is_inside ? std::clamp(conv.width - x, begin, n) : begin;
                std::fill_n(into, begin, 0.0f);
                std::fill_n(into + end, n - end, 0.0f);
                if (begin == end) continue;
                const float* from = conv.row(y, i % conv.in_channels, batch) + x + begin;
                if (rounds) {
                    round_to_f16_row(from, into + begin, end - begin);
                } else {
                    std::memcpy(into + begin, from,
                                static_cast<std::size_t>(end - begin) * sizeof(float));
                }
            }
            at_row += n;
        });
    }
}

/// The sums of an output channel go to their places.
void TransposedProduct::put(Range range, std::int64_t batch, std::int64_t place,
                            std::int64_t place_y, std::int64_t channel, const float* sums) const {
    for_rows_of(range, [&](std::int64_t group_y, std::int64_t group, std::int64_t n) {
        const std::int64_t y = group_y * conv.stride + place_y;
        const std::int64_t x = group * conv.stride + place;
        if (y < conv.out_height && x < conv.out_width) {
            float* to = conv.out_row(y, channel, batch) + x;
            const std::int64_t there =
                std::min(n, (conv.out_width - x + conv.stride - 1) / conv.stride);
            for (std::int64_t i = 0; i < there; ++i) to[i * conv.stride] = sums[i];
        }
        sums += n;
    });
}

/// Micro-panels `columns` of columns, all for the same place down, times up to `kGroups` groups.
void TransposedProduct::multiply(Range range, Range columns, std::int64_t batch,
                                 const float* weights, float* scratch) const {
    float* sums = scratch + kGroups * kDepth;
    const std::int64_t place_y = columns.begin / (places() * micro_panels());
    const std::int64_t at_once = std::min(kernel.depth, kDepth);
    const std::int64_t taps_y = conv.taps_at(place_y, conv.taps_y);
    for (std::int64_t tap_y = 0; tap_y < taps_y; ++tap_y) {
        for (std::int64_t begin = 0; begin < line_depth(); begin += at_once) {
            const Range part{begin, std::min(begin + at_once, line_depth())};
            pack_groups(range, batch, tap_y, part, scratch);
            for (std::int64_t micro_panel = columns.begin; micro_panel < columns.end;
                 ++micro_panel) {
                const std::int64_t place = micro_panel / micro_panels() % places();
                const std::int64_t there = conv.taps_at(place, conv.taps) * conv.in_channels;
                const std::int64_t count = std::min(part.end, there) - begin;
                if (count <= 0) continue;
                const int width = kernel.width_of(conv.out_channels -
                                                  micro_panel % micro_panels() * kernel.columns);
                const float* from = weights + micro_panel * micro_panel_floats() +
                                    (tap_y * line_depth() + begin) * kernel.columns;
                for (std::int64_t r = 0; r < range.end - range.begin; r += kernel.rows) {
                    float* out[kMicroPanelColumns];
                    for (int c = 0; c < kernel.columns; ++c) {
                        const std::int64_t column =
                            (micro_panel - columns.begin) * kernel.columns + c;
                        out[c] = sums + column * kGroups + r;
                    }
                    kernel.multiply(
                        reinterpret_cast<const std::byte*>(scratch + r * (part.end - begin)),
                        reinterpret_cast<const std::byte*>(from), count, width, out,
                        tap_y > 0 || begin > 0);
                }
            }
        }
    }
    for (std::int64_t micro_panel = columns.begin; micro_panel < columns.end; ++micro_panel) {
        const std::int64_t first = micro_panel % micro_panels() * kernel.columns;
        const int width = kernel.width_of(conv.out_channels - first);
        for (int c = 0; c < width; ++c, sums += kGroups) {
            put(range, batch, micro_panel / micro_panels() % places(), place_y, first + c, sums);
        }
        sums += (kernel.columns - width) * kGroups;
    }
}

void run_micro_panels(const TransposedProduct& product, const Task& task) {
    const Transposed& conv = product.conv;
    auto* weights = reinterpret_cast<float*>(task.scratch);
    auto* scratch =
        reinterpret_cast<float*>(task.scratch + product.weights_size() +
                                 static_cast<std::size_t>(task.index) * product.task_size());
    float* line = scratch + TransposedProduct::kGroups *
                                (TransposedProduct::kDepth + TransposedProduct::kSums);
    const bool has_gaps = product.places() < std::min(conv.stride, conv.out_width) ||
                          product.places_y() < std::min(conv.stride, conv.out_height);
    if (has_gaps) {
        for_rows(conv.node, task.share(row_count(conv.node)), [&](const Row& row) {
            std::fill_n(row_at<float>(conv.node, row), conv.out_width, 0.0f);
        });
        task.sync();
    }
    constexpr std::int64_t kChannels = TransposedProduct::kChannels;
    task.prepare(blocks_of(conv.in_channels, kChannels), [&](std::int64_t block) {
        const std::int64_t first = block * kChannels;
        product.pack_weights({first, std::min(first + kChannels, conv.in_channels)}, line, weights);
    });

    // Pieces of columns have one place down each, and no more sums than there is room for.
    const std::int64_t blocks = blocks_of(product.groups(), TransposedProduct::kGroups);
    const std::int64_t micro_panels = product.places() * product.micro_panels();
    const std::int64_t wanted =
        blocks_of(4 * task.count, blocks * conv.batches * product.places_y());
    const std::int64_t least =
        blocks_of(micro_panels * product.kernel.columns, TransposedProduct::kSums);
    const std::int64_t parts =
        std::min(micro_panels, task.count > 1 ? std::max(wanted, least) : least);
    const std::int64_t cuts = parts * product.places_y();
    task.share_out(conv.batches * blocks * cuts, [&](std::int64_t piece) {
        const std::int64_t cut = piece % cuts, block = piece / cuts % blocks;
        const std::int64_t part = cut % parts, begin = cut / parts * micro_panels;
        const std::int64_t first = block * TransposedProduct::kGroups;
        product.multiply(
            {first, std::min(first + TransposedProduct::kGroups, product.groups())},
            {begin + micro_panels * part / parts, begin + micro_panels * (part + 1) / parts},
            piece / (cuts * blocks), weights, scratch);
    });
}

void run(const Transposed& conv, const Task& task) {
    if (is_empty(conv.node)) return;
    const TransposedProduct product{conv, gemm_float_of(GGML_TYPE_F32)};
    if (product.kernel && product.pays()) return run_micro_panels(product, task);
    run_rows(conv, task);
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
    if (is_empty(conv.node)) return {};
    const int tasks = worthwhile_tasks(0, flops, conv.pieces(), threads);
    const auto count = static_cast<std::size_t>(tasks);
    const std::size_t for_rows = conv.rounded_size() + count * sums_size(conv);
    const TransposedProduct product{conv, {}};
    if (!product.pays()) return {.tasks = tasks, .scratch = for_rows};
    // Enough for any instruction set: another may be chosen before this runs.
    const std::size_t for_micro_panels = product.weights_size() + count * product.task_size();
    return {.tasks = tasks, .scratch = std::max(for_rows, for_micro_panels)};
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
