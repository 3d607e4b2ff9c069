#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/dot/gemv.hpp"
#include "backends/cpu/kernels/products/gemm_pieces.hpp"
#include "ggml/op_list.h"
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

    // Scratch memory: the prepared rows; then for each expert where its columns begin in the list
    // of columns, then the list; then the micro-panels of columns; then what each task needs for
    // its micro-panels of rows.
    std::size_t prepared_size() const {
        return whole_lines(pitch * static_cast<std::size_t>(row_count(b)));
    }
    std::size_t table_size() const {
        return whole_lines(static_cast<std::size_t>(experts + 1 + used * tokens) *
                           sizeof(std::int64_t));
    }
    std::int64_t* begins(const Task& task) const {
        return reinterpret_cast<std::int64_t*>(task.scratch + prepared_size());
    }
    std::int64_t* list(const Task& task) const { return begins(task) + experts + 1; }
    std::byte* gemv_columns(const Task& task) const {
        return task.scratch + prepared_size() + table_size();
    }
    std::byte* micro_panels(const Task& task) const {
        return gemv_columns(task) + all_gemv_columns_size();
    }

    std::size_t all_gemv_columns_size() const {
        if (!may_be_gemv(1, as.ne[0])) return 0;
        const std::int64_t columns = std::min(kMostGemvColumns * experts, used * tokens);
        return static_cast<std::size_t>(columns) * gemv_column_size(as.ne[0]);
    }

    /// Every expert may leave its last micro-panel all but empty, but none has micro-panels without
    /// columns.
    std::size_t all_micro_panels_size() const {
        const std::int64_t columns = used * tokens;
        if (!may_have_micro_panels(as.ne[1], columns, as.ne[0])) return 0;
        return micro_panels_size(columns + kMicroPanelColumns * std::min(experts, columns),
                                 as.ne[0]);
    }

    static std::size_t whole_lines(std::size_t size) { return (size + 63) / 64 * 64; }

    void prepare_row_of_b(std::int64_t number, std::byte* scratch) const {
        for_rows(b, {number, number + 1}, [&](const Row& row) {
            prepare_row(multiplier, b.type, row_at(b, row),
                        scratch + static_cast<std::size_t>(number) * pitch, b.ne[0]);
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

    /// The row of b that column number `column` of the list is, prepared.
    const std::byte* row_of(std::int64_t column, const std::byte* scratch) const {
        const std::int64_t i1 = column % used % b.ne[1], t = column / used;
        if (pitch == 0) return at(b, 0, i1, t);
        return scratch + static_cast<std::size_t>(t * b.ne[1] + i1) * pitch;
    }
    float* out_of(std::int64_t column, std::int64_t row) const {
        return at<float>(node, row, column % used, column / used);
    }

    ColumnSet column_set(const std::int64_t* columns, std::int64_t count, std::int64_t row,
                         const std::byte* scratch) const {
        ColumnSet set;
        for (std::int64_t c = 0; c < count; ++c) {
            set.add(row_of(columns[c], scratch), out_of(columns[c], row));
        }
        return set;
    }

    MatrixView view(std::int64_t expert, std::int64_t row, std::int64_t rows) const {
        return {as.type, at(as, 0, row, expert), as.nb[1],
                row + rows < as.ne[1] ? rows : as.ne[1] - row, as.ne[0]};
    }
};

Demand demand(const Tensor& node, int threads) {
    const Mixture mixture(node);
    const double flops =
        2.0 * static_cast<double>(element_count(node)) * static_cast<double>(mixture.as.ne[0]);
    const std::int64_t pieces =
        mixture.used * mixture.tokens * blocks_of(mixture.as.ne[1], kLeastRows);
    Demand demand{.tasks = worthwhile_tasks(0, flops, pieces, threads),
                  .scratch = mixture.prepared_size() + mixture.table_size() +
                             mixture.all_gemv_columns_size()};
    if (const std::size_t micro_panels = mixture.all_micro_panels_size(); micro_panels > 0) {
        demand.scratch += micro_panels + static_cast<std::size_t>(demand.tasks) * kPieceBytes;
    }
    return demand;
}

/// What a task does with the columns of one expert after the other.
class MixtureTask {
public:
    MixtureTask(const Mixture& mixture, const Task& task)
        : mixture_(mixture),
          task_(task),
          kernel_(gemm_kernel_of(mixture.as.type)),
          gemv_(gemv_kernel_of(mixture.as.type)),
          micro_panel_size_(kernel_.column_micro_panel_size(mixture.as.ne[0])),
          begin_(mixture.begins(task)),
          columns_(mixture.list(task)) {}

    /// Lays out the columns of all experts in the way that suits each, shared by number.
    void arrange() const {
        std::int64_t micro_panels = 0, columns = 0;  // of the experts passed so far
        for (std::int64_t expert = 0; expert < mixture_.experts; ++expert) {
            for (std::int64_t i = 0; i < micro_panels_of(expert); ++i, ++micro_panels) {
                if (micro_panels % task_.count == task_.index)
                    put_micro_panel_of(expert, i, micro_panel(micro_panels));
            }
            for (std::int64_t i = 0; i < gemv_columns_of(expert); ++i, ++columns) {
                if (gemv_.arrange == nullptr || columns % task_.count != task_.index) continue;
                gemv_.arrange(row_of(expert, i), mixture_.as.ne[0], gemv_column(columns));
            }
        }
    }

    void multiply() {
        std::int64_t before = 0, micro_panels_before = 0,
                     columns_before = 0;    // of the experts passed
        std::int64_t piece = task_.take();  // numbers taken only go up
        for (std::int64_t expert = 0; expert < mixture_.experts; ++expert) {
            const std::int64_t micro_panels = micro_panels_of(expert), first = before;
            std::int64_t rows = 0, step = kColumnBlock;
            if (micro_panels > 0) {
                const Pieces pieces(kernel_, mixture_.as.ne[1], micro_panels, mixture_.used,
                                    task_.count);
                rows = pieces.rows;
                step = pieces.micro_panels * kernel_.columns;
            } else {
                // Rows that are needed once need no room in a cache.
                const bool once = gemv_columns_of(expert) == 1;
                rows = rows_per_piece(mixture_.as.ne[1], mixture_.used, task_.count,
                                      once ? mixture_.as.ne[1] : kMostRows);
            }
            const std::int64_t row_blocks = blocks_of(mixture_.as.ne[1], rows);
            before += row_blocks * blocks_of(count_of(expert), step);
            for (; piece < before; piece = task_.take()) {
                const std::int64_t row = (piece - first) % row_blocks * rows;
                const std::int64_t column = (piece - first) / row_blocks * step;
                const Range range{column, std::min(column + step, count_of(expert))};
                const MatrixView view = mixture_.view(expert, row, rows);
                if (micro_panels > 0) {
                    multiply_over_micro_panels(expert, view, range, row,
                                               micro_panel(micro_panels_before));
                } else if (gemv_columns_of(expert) > 0) {
                    multiply_by_gemv(expert, view, columns_before, row);
                } else {
                    multiply_rows(expert, view, range, row);
                }
            }
            micro_panels_before += micro_panels;
            columns_before += gemv_columns_of(expert);
        }
    }

private:
    std::int64_t count_of(std::int64_t expert) const { return begin_[expert + 1] - begin_[expert]; }

    /// None if its columns are too few.
    std::int64_t micro_panels_of(std::int64_t expert) const {
        const bool has =
            has_micro_panels(kernel_, mixture_.as.ne[1], count_of(expert), mixture_.as.ne[0]);
        return has ? blocks_of(count_of(expert), kernel_.columns) : 0;
    }

    /// Columns that are multiplied one after the other: all or none.
    std::int64_t gemv_columns_of(std::int64_t expert) const {
        const std::int64_t count = count_of(expert);
        return is_gemv(gemv_, count, mixture_.as.ne[0]) ? count : 0;
    }

    /// A column of an expert, prepared.
    const std::byte* row_of(std::int64_t expert, std::int64_t column) const {
        return mixture_.row_of(columns_[begin_[expert] + column], task_.scratch);
    }
    float* out_of(std::int64_t expert, std::int64_t column, std::int64_t row) const {
        return mixture_.out_of(columns_[begin_[expert] + column], row);
    }

    std::byte* gemv_column(std::int64_t number) const {
        return mixture_.gemv_columns(task_) +
               static_cast<std::size_t>(number) * gemv_column_size(mixture_.as.ne[0]);
    }

    void put_micro_panel_of(std::int64_t expert, std::int64_t number, std::byte* to) const {
        // Preparing what is prepared changes nothing.
        const Type type = mixture_.pitch != 0 ? mixture_.multiplier.prepared : mixture_.b.type;
        put_micro_panel(
            kernel_, mixture_.multiplier, type, mixture_.as.ne[0], number * kernel_.columns,
            count_of(expert), [&](std::int64_t c) { return row_of(expert, c); }, to);
    }

    void multiply_by_gemv(std::int64_t expert, const MatrixView& view, std::int64_t first,
                          std::int64_t row) const {
        const std::byte* from[kMostGemvColumns];
        float* to[kMostGemvColumns];
        const std::int64_t count = count_of(expert);
        for (std::int64_t c = 0; c < count; ++c) {
            from[c] = gemv_.arrange != nullptr ? gemv_column(first + c) : row_of(expert, c);
            to[c] = out_of(expert, c, row);
        }
        gemv_.multiply(view, Turns::of(view.count), from, to, static_cast<int>(count));
    }

    std::byte* micro_panel(std::int64_t number) const {
        return mixture_.micro_panels(task_) + static_cast<std::size_t>(number) * micro_panel_size_;
    }

    void multiply_over_micro_panels(std::int64_t expert, const MatrixView& view, Range range,
                                    std::int64_t row, const std::byte* micro_panels) const {
        multiply_piece(
            kernel_, view, micro_panels, range,
            [&](std::int64_t c) { return out_of(expert, c, row); },
            mixture_.micro_panels(task_) + mixture_.all_micro_panels_size() +
                static_cast<std::size_t>(task_.index) * kPieceBytes);
    }

    void multiply_rows(std::int64_t expert, const MatrixView& view, Range range,
                       std::int64_t row) const {
        const ColumnSet set = mixture_.column_set(columns_ + begin_[expert] + range.begin,
                                                  range.end - range.begin, row, task_.scratch);
        mixture_.multiplier.multiply(view, set.b, set.out, set.count);
    }

    const Mixture& mixture_;
    const Task& task_;
    const GemmKernel kernel_;
    const GemvKernel gemv_;
    const std::size_t micro_panel_size_;
    const std::int64_t* begin_;
    const std::int64_t* columns_;
};

void run(const Tensor& node, const Task& task) {
    const Mixture mixture(node);
    if (is_empty(node)) return;
    const std::int64_t rows = mixture.pitch != 0 ? row_count(mixture.b) : 0;
    task.prepare(1 + rows, [&](std::int64_t piece) {
        if (piece == 0) return mixture.sort_columns(task);
        mixture.prepare_row_of_b(piece - 1, task.scratch);
    });
    MixtureTask part(mixture, task);
    if (mixture.all_micro_panels_size() + mixture.all_gemv_columns_size() > 0) {
        part.arrange();
        task.sync();
    }
    part.multiply();
}

}  // namespace

extern const Kernel kMulMatId{.name = "mul_mat_id",
                              .op = GGML_OP_MUL_MAT_ID,
                              .objection = objection,
                              .run = run,
                              .demand = demand};

}  // namespace heddle::cpu
