#include <cstring>
#include <string>

#include "backends/cpu/kernels/products/blocking.hpp"
#include "ops/matmul.hpp"

namespace heddle::cpu {
namespace {

std::string_view objection(const Tensor& node) {
    const Tensor& ids = *node.src[2];
    if (ids.type != GGML_TYPE_I32 || ids.nb[0] != sizeof(std::int32_t)) {
        return "ids are not dense rows of i32";
    }
    return product_objection(*node.src[0], *node.src[1], node);
}

/// Products of a mixture of experts: the columns of each expert are found first, then multiplied
/// with its matrix like those of any other product. Experts without columns are not touched.
struct Mixture {
    const Tensor &node, &as, &b, &ids;
    Multiplier multiplier;
    std::int64_t used, tokens, experts;
    std::size_t pitch;  ///< of prepared rows; 0: rows are used as they are

    explicit Mixture(const Tensor& y)
        : node(y),
          as(*y.src[0]),
          b(*y.src[1]),
          ids(*y.src[2]),
          multiplier(multiplier_of(as.type)),
          used(ids.ne[0]),
          tokens(ids.ne[1]),
          experts(as.ne[2]),
          pitch(needs_preparing(multiplier, b.type) ? prepared_pitch(multiplier, b.ne[0]) : 0) {}

    // Scratch memory: the prepared rows, then for each expert where its columns begin in the list
    // of columns, then the list.
    std::size_t prepared_size() const { return pitch * static_cast<std::size_t>(row_count(b)); }
    std::size_t table_size() const {
        return static_cast<std::size_t>(experts + 1 + used * tokens) * sizeof(std::int64_t);
    }
    std::int64_t* begins(const Task& task) const {
        return reinterpret_cast<std::int64_t*>(task.scratch + prepared_size());
    }
    std::int64_t* list(const Task& task) const { return begins(task) + experts + 1; }

    void prepare(const Task& task) const {
        const Range range = task.share(row_count(b));
        std::int64_t number = range.begin;
        for_rows(b, range, [&](Row row) {
            prepare_row(multiplier, b.type, row_at(b, row),
                        task.scratch + static_cast<std::size_t>(number++) * pitch, b.ne[0]);
        });
    }

    /// Sorts the columns by expert; columns of one expert stay in order.
    void sort_columns(const Task& task) const {
        std::int64_t *begin = begins(task), *columns = list(task);
        std::memset(begin, 0, static_cast<std::size_t>(experts + 1) * sizeof *begin);
        bool is_good = true;
        for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t e = 0; e < used; ++e) {
                const std::int32_t expert = *at<const std::int32_t>(ids, e, t);
                if (expert >= 0 && expert < experts) {
                    ++begin[expert + 1];
                } else if (is_good) {
                    is_good = false;
                    task.fail([&] { return text("ids name expert ", expert, " of ", experts); });
                }
            }
        }
        for (std::int64_t e = 0; e < experts; ++e) begin[e + 1] += begin[e];
        // Each begin moves to the end of its columns, which is the begin of the next expert's:
        // moved up by one place they are begins again.
        for (std::int64_t t = 0; t < tokens; ++t) {
            for (std::int64_t e = 0; e < used; ++e) {
                const std::int32_t expert = *at<const std::int32_t>(ids, e, t);
                if (expert >= 0 && expert < experts) columns[begin[expert]++] = t * used + e;
            }
        }
        std::memmove(begin + 1, begin, static_cast<std::size_t>(experts) * sizeof *begin);
        begin[0] = 0;
    }

    ColumnSet column_set(const std::int64_t* columns, std::int64_t count, std::int64_t row,
                         const std::byte* scratch) const {
        ColumnSet set;
        for (std::int64_t c = 0; c < count; ++c) {
            const std::int64_t e = columns[c] % used, t = columns[c] / used;
            const std::int64_t i1 = e % b.ne[1];
            const auto number = static_cast<std::size_t>(t * b.ne[1] + i1);
            set.add(pitch != 0 ? scratch + number * pitch : at(b, 0, i1, t),
                    at<float>(node, row, e, t));
        }
        return set;
    }
};

Demand demand(const Tensor& node, int threads) {
    const Mixture mixture(node);
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(mixture.as.ne[0]);
    const std::int64_t pieces =
        mixture.used * mixture.tokens * blocks_of(mixture.as.ne[1], kLeastRows);
    return {.tasks = worthwhile_tasks(0, flops, pieces, threads),
            .scratch = mixture.prepared_size() + mixture.table_size()};
}

void run(const Tensor& node, const Task& task) {
    const Mixture mixture(node);
    if (is_empty(node)) return;
    if (mixture.pitch != 0) mixture.prepare(task);
    if (task.index == 0) mixture.sort_columns(task);
    task.sync();

    const Tensor& as = mixture.as;
    const std::int64_t m = as.ne[1];
    const std::int64_t rows = rows_per_piece(m, mixture.used, task.count);
    const std::int64_t row_blocks = blocks_of(m, rows);
    const std::int64_t *begin = mixture.begins(task), *columns = mixture.list(task);
    std::int64_t before = 0;  // pieces of the experts passed so far; numbers taken only go up
    std::int64_t piece = task.take();
    for (std::int64_t expert = 0; expert < mixture.experts; ++expert) {
        const std::int64_t count = begin[expert + 1] - begin[expert];
        const std::int64_t column_blocks = blocks_of(count, kColumnBlock);
        const std::int64_t pieces = column_blocks * row_blocks;
        for (; piece < before + pieces; piece = task.take()) {
            const std::int64_t column = (piece - before) % column_blocks * kColumnBlock;
            const std::int64_t row = (piece - before) / column_blocks * rows;
            const std::int64_t left = count - column;
            const ColumnSet set =
                mixture.column_set(columns + begin[expert] + column,
                                   left < kColumnBlock ? left : kColumnBlock, row, task.scratch);
            const Panel panel{as.type, at(as, 0, row, expert), as.nb[1],
                              row + rows < m ? rows : m - row, as.ne[0]};
            mixture.multiplier.multiply(panel, set.b, set.out, set.count);
        }
        before += pieces;
    }
}

}  // namespace

extern const Kernel kMulMatId{.name = "mul_mat_id",
                              .op = GGML_OP_MUL_MAT_ID,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
