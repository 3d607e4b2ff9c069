#include <algorithm>

#include "backends/cpu/dot/gemv.hpp"
#include "backends/cpu/kernels/products/gemm_pieces.hpp"
#include "ggml/op_list.h"
#include "ops/matmul.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    return product_objection(*node.src[0], *node.src[1], node);
}

/// A product with everything that its pieces need. All columns that a matrix of a serves are
/// multiplied together, whichever matrices of b they are in: with one query and several heads for
/// each head of keys there are otherwise no tiles.
struct Product {
    const Tensor &node, &a, &b;
    Multiplier multiplier;
    std::int64_t group2, group3;  ///< matrices of b that one of a serves, in dimensions 2 and 3
    std::int64_t columns;         ///< of each matrix of a
    std::int64_t matrices;        ///< of a
    std::size_t pitch;            ///< of prepared rows; 0: rows are used as they are

    explicit Product(const Tensor& y)
        : node(y),
          a(*y.src[0]),
          b(*y.src[1]),
          multiplier(multiplier_of(a.type)),
          group2(a.ne[2] > 0 ? b.ne[2] / a.ne[2] : 0),
          group3(a.ne[3] > 0 ? b.ne[3] / a.ne[3] : 0),
          columns(b.ne[1] * group2 * group3),
          matrices(a.ne[2] * a.ne[3]),
          pitch(needs_preparing(multiplier, b.type) ||
                        wants_copies(multiplier, b.nb[1], a.ne[1], columns)
                    ? prepared_pitch(multiplier, b.ne[0])
                    : 0) {}

    std::int64_t column_blocks() const { return blocks_of(columns, kColumnBlock); }

    /// Where a column of matrix (p2, p3) of a is.
    Row column_at(std::int64_t p2, std::int64_t p3, std::int64_t column) const {
        return {column % b.ne[1], p2 * group2 + column / b.ne[1] % group2,
                p3 * group3 + column / (b.ne[1] * group2)};
    }

    MatrixView view(std::int64_t matrix, std::int64_t row, std::int64_t rows) const {
        return {a.type, at(a, 0, row, matrix % a.ne[2], matrix / a.ne[2]), a.nb[1],
                row + rows < a.ne[1] ? rows : a.ne[1] - row, a.ne[0]};
    }
};

Demand demand(const Tensor& node, int threads) {
    const Product product(node);
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(product.a.ne[0]);
    const std::int64_t pieces =
        product.matrices * product.column_blocks() * blocks_of(product.a.ne[1], kLeastRows);
    const auto bytes = static_cast<double>(byte_size(product.a));
    Demand demand{.tasks = worthwhile_tasks(bytes, flops, pieces, threads),
                  .scratch = product.pitch * static_cast<std::size_t>(row_count(product.b))};
    if (may_be_gemv(product.columns, product.a.ne[0])) {
        demand.scratch += static_cast<std::size_t>(product.matrices * product.columns) *
                          gemv_column_size(product.a.ne[0]);
    }
    if (may_have_micro_panels(product.a.ne[1], product.columns, product.a.ne[0])) {
        // Enough for any instruction set: another may be chosen before the product runs.
        const std::size_t micro_panels = static_cast<std::size_t>(product.matrices) *
                                         micro_panels_size(product.columns, product.a.ne[0]);
        demand.scratch = std::max(
            demand.scratch, micro_panels + static_cast<std::size_t>(demand.tasks) * kPieceBytes);
    }
    return demand;
}

// ---- over micro-panels --------------------------------------------------------------------------

void run_micro_panels(const Product& product, const GemmKernel& kernel, const Task& task) {
    const std::int64_t depth = product.a.ne[0];
    const std::int64_t micro_panels = blocks_of(product.columns, kernel.columns);
    const std::size_t micro_panel_size = kernel.column_micro_panel_size(depth);
    const std::size_t matrix_size = static_cast<std::size_t>(micro_panels) * micro_panel_size;
    const auto place = [&](std::int64_t matrix, std::int64_t column) {
        return product.column_at(matrix % product.a.ne[2], matrix / product.a.ne[2], column);
    };
    task.prepare(product.matrices * micro_panels, [&](std::int64_t i) {
        put_micro_panel(
            kernel, product.multiplier, product.b.type, depth, i % micro_panels * kernel.columns,
            product.columns,
            [&](std::int64_t c) { return row_at(product.b, place(i / micro_panels, c)); },
            task.scratch + static_cast<std::size_t>(i) * micro_panel_size);
    });

    const std::size_t used = static_cast<std::size_t>(product.matrices) * matrix_size;
    std::byte* buffer =
        task.scratch + (used + 63) / 64 * 64 + static_cast<std::size_t>(task.index) * kPieceBytes;
    const Pieces pieces(kernel, product.a.ne[1], micro_panels, product.matrices, task.count);
    const std::int64_t all = product.matrices * pieces.count();
    for (std::int64_t piece = task.take(); piece < all; piece = task.take()) {
        const std::int64_t matrix = piece / pieces.count();
        const std::int64_t row = piece % pieces.row_pieces * pieces.rows;
        const std::int64_t column =
            piece / pieces.row_pieces % pieces.column_pieces * pieces.micro_panels * kernel.columns;
        const Range columns{
            column, std::min(column + pieces.micro_panels * kernel.columns, product.columns)};
        multiply_piece(
            kernel, product.view(matrix, row, pieces.rows),
            task.scratch + static_cast<std::size_t>(matrix) * matrix_size, columns,
            [&](std::int64_t c) { return row_at<float>(product.node, place(matrix, c)) + row; },
            buffer);
    }
}

// ---- over rows where they are ------------------------------------------------------------------

void prepare_rows(const Product& product, const Task& task) {
    const Tensor& b = product.b;
    task.prepare(row_count(b), [&](std::int64_t number) {
        for_rows(b, {number, number + 1}, [&](const Row& row) {
            prepare_row(product.multiplier, b.type, row_at(b, row),
                        task.scratch + static_cast<std::size_t>(number) * product.pitch, b.ne[0]);
        });
    });
}

/// Columns `range` of matrix (p2, p3) of a; results begin at row `row`.
ColumnSet column_set(const Product& product, std::int64_t matrix, Range range, std::int64_t row,
                     const std::byte* scratch) {
    const Tensor &a = product.a, &b = product.b;
    ColumnSet set;
    for (std::int64_t c = range.begin; c < range.end; ++c) {
        const Row at = product.column_at(matrix % a.ne[2], matrix / a.ne[2], c);
        const auto number = static_cast<std::size_t>((at.i3 * b.ne[2] + at.i2) * b.ne[1] + at.i1);
        set.add(product.pitch != 0 ? scratch + number * product.pitch : row_at(b, at),
                row_at<float>(product.node, at) + row);
    }
    return set;
}

void run_rows(const Product& product, const Task& task) {
    if (product.pitch != 0) prepare_rows(product, task);
    const std::int64_t m = product.a.ne[1], column_blocks = product.column_blocks();
    const std::int64_t rows = rows_per_piece(m, product.matrices * column_blocks, task.count);
    const std::int64_t row_blocks = blocks_of(m, rows);
    const std::int64_t pieces = product.matrices * row_blocks * column_blocks;
    for (std::int64_t piece = task.take(); piece < pieces; piece = task.take()) {
        const std::int64_t column = piece % column_blocks * kColumnBlock;
        const std::int64_t row = piece / column_blocks % row_blocks * rows;
        const std::int64_t matrix = piece / (column_blocks * row_blocks);
        const ColumnSet set =
            column_set(product, matrix, {column, std::min(column + kColumnBlock, product.columns)},
                       row, task.scratch);
        product.multiplier.multiply(product.view(matrix, row, rows), set.b, set.out, set.count);
    }
}

// ---- few columns -------------------------------------------------------------------------------

/// How the rows of all matrices are cut. A part is read as it lies in memory, in units: what takes
/// the CPU a microsecond or two.
struct GemvCut {
    std::int64_t parts;  ///< of each matrix
    std::int64_t rows;   ///< of each part, but for the last
    std::int64_t units;  ///< of each part
    std::int64_t turns;  ///< of each unit, but for the last

    GemvCut(const Product& product, int tasks) {
        constexpr std::size_t kUnitBytes = 32 * 1024;
        const std::size_t row = std::max<std::size_t>(1, row_size(product.a.type, product.a.ne[0]));
        // One matrix has a part for each task; of several, tasks have a few parts each.
        const std::int64_t wanted =
            product.matrices == 1 || tasks == 1 ? tasks : blocks_of(4 * tasks, product.matrices);
        rows = blocks_of(blocks_of(product.a.ne[1], wanted), kLeastRows) * kLeastRows;
        parts = blocks_of(product.a.ne[1], rows);
        turns = std::max(static_cast<std::int64_t>(kUnitBytes / (3 * row)), std::int64_t{1});
        units = blocks_of(Turns::of(rows).end, turns);
    }
};

void run_gemv(const Product& product, const GemvKernel& kernel, const Task& task) {
    const Tensor &a = product.a, &b = product.b;
    const std::int64_t columns = product.columns, all = product.matrices * columns;
    const std::size_t size = gemv_column_size(a.ne[0]);
    std::byte* arranged = task.scratch + product.pitch * static_cast<std::size_t>(all);
    const auto place = [&](std::int64_t number) {
        const std::int64_t matrix = number / columns;
        return product.column_at(matrix % a.ne[2], matrix / a.ne[2], number % columns);
    };
    const auto prepared = [&](std::int64_t number) -> std::byte* {
        if (product.pitch == 0) return row_at(b, place(number));
        return task.scratch + static_cast<std::size_t>(number) * product.pitch;
    };
    const auto column = [&](std::int64_t number) -> std::byte* {
        if (kernel.arrange == nullptr) return prepared(number);
        return arranged + static_cast<std::size_t>(number) * size;
    };
    if (product.pitch != 0 || kernel.arrange != nullptr) {
        task.prepare(all, [&](std::int64_t i) {
            if (product.pitch != 0) {
                prepare_row(product.multiplier, b.type, row_at(b, place(i)), prepared(i), a.ne[0]);
            }
            if (kernel.arrange != nullptr) kernel.arrange(prepared(i), a.ne[0], column(i));
        });
    }

    const GemvCut cut(product, task.count);
    task.share_out(product.matrices * cut.parts * cut.units, [&](std::int64_t unit) {
        const std::int64_t part = unit / cut.units % cut.parts, row = part * cut.rows;
        const std::int64_t matrix = unit / (cut.units * cut.parts);
        const MatrixView view = product.view(matrix, row, cut.rows);
        const std::int64_t begin = unit % cut.units * cut.turns;
        const Turns turns{begin, std::min(begin + cut.turns, Turns::of(view.count).end)};
        const std::byte* from[kMostGemvColumns];
        float* to[kMostGemvColumns];
        for (std::int64_t i = 0; i < columns; ++i) {
            from[i] = column(matrix * columns + i);
            to[i] = row_at<float>(product.node, place(matrix * columns + i)) + row;
        }
        kernel.multiply(view, turns, from, to, static_cast<int>(columns));
    });
}

void run(const Tensor& node, const Task& task) {
    if (is_empty(node)) return;
    const Product product(node);
    const Type type = product.a.type;
    const std::int64_t m = product.a.ne[1], depth = product.a.ne[0];
    if (const GemvKernel kernel = gemv_kernel_of(type); is_gemv(kernel, product.columns, depth)) {
        return run_gemv(product, kernel, task);
    }
    if (const GemmKernel kernel = gemm_kernel_of(type);
        has_micro_panels(kernel, m, product.columns, depth)) {
        return run_micro_panels(product, kernel, task);
    }
    run_rows(product, task);
}

}  // namespace

extern const Kernel kMulMat{
    .name = "mul_mat", .op = GGML_OP_MUL_MAT, .objection = objection, .run = run, .demand = demand};

}  // namespace heddle::cpu
