#include "backends/cpu/kernels/products/blocking.hpp"
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
          pitch(needs_preparing(multiplier, b.type) ? prepared_pitch(multiplier, b.ne[0]) : 0) {}

    std::int64_t column_blocks() const { return blocks_of(columns, kColumnBlock); }

    void prepare(const Task& task) const {
        std::byte* to = task.scratch;
        const Range range = task.share(row_count(b));
        std::int64_t number = range.begin;
        for_rows(b, range, [&](Row row) {
            prepare_row(multiplier, b.type, row_at(b, row),
                        to + static_cast<std::size_t>(number++) * pitch, b.ne[0]);
        });
    }

    /// Columns `range` of matrix (p2, p3) of a; results begin at row `row`.
    ColumnSet column_set(std::int64_t p2, std::int64_t p3, Range range, std::int64_t row,
                         const std::byte* scratch) const {
        ColumnSet set;
        for (std::int64_t c = range.begin; c < range.end; ++c) {
            const std::int64_t i1 = c % b.ne[1];
            const std::int64_t i2 = p2 * group2 + c / b.ne[1] % group2;
            const std::int64_t i3 = p3 * group3 + c / (b.ne[1] * group2);
            const auto number = static_cast<std::size_t>((i3 * b.ne[2] + i2) * b.ne[1] + i1);
            set.add(pitch != 0 ? scratch + number * pitch : at(b, 0, i1, i2, i3),
                    at<float>(node, row, i1, i2, i3));
        }
        return set;
    }
};

Demand demand(const Tensor& node, int threads) {
    const Product product(node);
    const std::size_t scratch = product.pitch * static_cast<std::size_t>(row_count(product.b));
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(product.a.ne[0]);
    const std::int64_t pieces =
        product.matrices * product.column_blocks() * blocks_of(product.a.ne[1], kLeastRows);
    const auto bytes = static_cast<double>(byte_size(product.a));
    return {.tasks = worthwhile_tasks(bytes, flops, pieces, threads), .scratch = scratch};
}

void run(const Tensor& node, const Task& task) {
    const Product product(node);
    if (is_empty(node)) return;
    if (product.pitch != 0) {
        product.prepare(task);
        task.sync();
    }
    const Tensor& a = product.a;
    const std::int64_t m = a.ne[1], column_blocks = product.column_blocks();
    const std::int64_t rows = rows_per_piece(m, product.matrices * column_blocks, task.count);
    const std::int64_t row_blocks = blocks_of(m, rows);
    const std::int64_t pieces = product.matrices * row_blocks * column_blocks;
    for (std::int64_t piece = task.take(); piece < pieces; piece = task.take()) {
        const std::int64_t column = piece % column_blocks * kColumnBlock;
        const std::int64_t row = piece / column_blocks % row_blocks * rows;
        const std::int64_t matrix = piece / (column_blocks * row_blocks);
        const std::int64_t p2 = matrix % a.ne[2], p3 = matrix / a.ne[2];
        const std::int64_t end = column + kColumnBlock;
        const ColumnSet set = product.column_set(
            p2, p3, {column, end < product.columns ? end : product.columns}, row, task.scratch);
        const Panel panel{a.type, at(a, 0, row, p2, p3), a.nb[1], row + rows < m ? rows : m - row,
                          a.ne[0]};
        product.multiplier.multiply(panel, set.b, set.out, set.count);
    }
}

}  // namespace

extern const Kernel kMulMat{
    .name = "mul_mat", .op = GGML_OP_MUL_MAT, .objection = objection, .run = run, .demand = demand};

}  // namespace heddle::cpu
