#include "ops/rows.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/kernels/movement/row_converter.hpp"
#include "backends/cpu/repack/layout.hpp"
#include "backends/cpu/repack/repack_kernel.hpp"

namespace heddle::cpu {
namespace {

/// A row number, I32 or I64.
std::int64_t row_number(const Tensor& rows, std::int64_t i0, std::int64_t i1, std::int64_t i2) {
    if (rows.type == GGML_TYPE_I64) return *at<const std::int64_t>(rows, i0, i1, i2);
    return *at<const std::int32_t>(rows, i0, i1, i2);
}

/// Whether `number` is that of a row of `table`; if not, the node fails and says so.
bool has_row(const Tensor& table, std::int64_t number, std::int64_t i0, const Task& task) {
    if (number >= 0 && number < table.ne[1]) return true;
    task.fail([&] {
        return text("entry ", i0, " of the row numbers is ", number, ", but ", describe(table),
                    " has rows 0 to ", table.ne[1] - 1);
    });
    return false;
}

/// Elements of a row that are moved together: whole blocks of every type.
constexpr std::int64_t kSegment = 2048;

std::int64_t segments_of(const Tensor& t) { return (t.ne[0] + kSegment - 1) / kSegment; }

/// Calls `body(row, first, n)` for the task's share of the rows of `t`: elements `first` up to
/// `first + n` of a row. Long rows are cut, so that few of them are work for all tasks.
template <class Body>
void for_segments(const Tensor& t, const Task& task, Body&& body) {
    const std::int64_t segments = segments_of(t);
    if (segments <= 1) {
        for_rows(t, task.share(row_count(t)), [&](const Row& row) { body(row, 0, t.ne[0]); });
        return;
    }
    const Range share = task.share(row_count(t) * segments);
    for (std::int64_t piece = share.begin; piece < share.end;) {
        const std::int64_t number = piece / segments, first = piece % segments;
        const std::int64_t count = std::min(segments - first, share.end - piece);
        const std::int64_t end = std::min((first + count) * kSegment, t.ne[0]);
        for_rows(t, {number, number + 1},
                 [&](const Row& row) { body(row, first * kSegment, end - first * kSegment); });
        piece += count;
    }
}

/// Element `first` of a row, where a block begins.
std::byte* element_at(std::byte* row, Type type, std::int64_t first) {
    return row + row_size(type, first);
}

int tasks_for(const RowConverter& convert, const Tensor& moved, int threads) {
    const std::int64_t pieces = row_count(moved) * segments_of(moved);
    const auto n = static_cast<double>(element_count(moved));
    const auto bytes_of = [](Type type) {
        return static_cast<double>(size_of(type)) / static_cast<double>(block_size(type));
    };
    return worthwhile_tasks(n * (bytes_of(convert.from()) + bytes_of(convert.to())),
                            n * convert.flops_per_element(), pieces, threads);
}

// ---- get_rows ----------------------------------------------------------------------------------

std::string_view get_objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    if (rows.type != GGML_TYPE_I32) return "row numbers are not i32";
    const Type type = x.type == GGML_TYPE_I32 ? GGML_TYPE_I32 : GGML_TYPE_F32;
    if (node.type != type) return "the result is neither f32 nor, like x, i32";
    if (!RowConverter::between(x.type, type)) return "rows of x cannot be read as f32";
    if (x.ne[2] != rows.ne[1] || x.ne[3] != rows.ne[2] || rows.ne[3] != 1 ||
        extents_of(node) != Extents{x.ne[0], rows.ne[0], rows.ne[1], rows.ne[2]}) {
        return "the extents of x, the row numbers and the result do not match";
    }
    if (!has_dense_rows(x) || !has_dense_rows(node)) return "rows are not dense";
    return {};
}

void get(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    const RowConverter convert = *RowConverter::between(x.type, node.type);
    for_segments(node, task, [&](Row row, std::int64_t first, std::int64_t n) {
        const std::int64_t number = row_number(rows, row.i1, row.i2, row.i3);
        if (!has_row(x, number, row.i1, task)) return;
        convert(element_at(at(x, 0, number, row.i2, row.i3), x.type, first),
                element_at(row_at(node, row), node.type, first), n);
    });
}

Demand get_demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    return {.tasks =
                tasks_for(*RowConverter::between(node.src[0]->type, node.type), node, threads)};
}

// ---- get_rows of repacked weights --------------------------------------------------------------

// Embeddings that are also the output need be in memory only once, where products read them.

std::string_view get_repacked_objection(const Tensor& node) {
    const Tensor& x = *node.src[0];
    if (x.view_src != nullptr) return "views of repacked weights cannot be read";
    if (!repack_kernel_of(x.type))
        return "this CPU has no repacked layout for the type of the weights";
    if (x.ne[1] % kRepackRowStep != 0) return "rows of repacked weights come in eights";
    if (!is_contiguous(x) || x.ne[2] != 1 || x.ne[3] != 1) {
        return "repacked weights of which rows are read are one matrix";
    }
    return get_objection(node);
}

void get_repacked(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    const RowConverter convert = *RowConverter::between(x.type, node.type);
    const RepackLayout& layout = *repack_layout_of(x.type);
    alignas(64) std::byte blocks[2 * kSegment];  // no layout has two bytes for an element
    for_segments(node, task, [&](Row row, std::int64_t first, std::int64_t n) {
        const std::int64_t number = row_number(rows, row.i1, row.i2, row.i3);
        if (!has_row(x, number, row.i1, task)) return;
        const std::int64_t top = number - number % kRepackRows;
        const std::int64_t height = std::min(kRepackRows, x.ne[1] - top);
        for (std::int64_t done = 0; done < n; done += kSegment) {
            const std::int64_t some = std::min(kSegment, n - done);
            restore_blocks(layout, at(x, 0, top), height, number - top,
                           (first + done) / layout.block_elements, some / layout.block_elements,
                           blocks);
            convert(blocks, element_at(row_at(node, row), node.type, first + done), some);
        }
    });
}

// ---- set_rows ----------------------------------------------------------------------------------

/// The node is the table.
std::string_view set_objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) return "x is neither f32 nor f16";
    if (rows.type != GGML_TYPE_I32 && rows.type != GGML_TYPE_I64) {
        return "row numbers are neither i32 nor i64";
    }
    if (!RowConverter::between(x.type, node.type)) return "the table's type has no quick encoder";
    if (x.ne[0] != node.ne[0] || x.ne[2] != node.ne[2] || x.ne[3] != node.ne[3]) {
        return "the extents of x and the table do not match";
    }
    if (is_empty(x)) return {};
    if (x.ne[1] != rows.ne[0] || rows.ne[3] != 1 || is_empty(rows) || x.ne[2] % rows.ne[1] != 0 ||
        x.ne[3] % rows.ne[2] != 0) {
        return "the extents of x and the row numbers do not match";
    }
    if (!has_dense_rows(x) || !has_dense_rows(node)) return "rows are not dense";
    return {};
}

void set(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    const RowConverter convert = *RowConverter::between(x.type, node.type);
    for_segments(x, task, [&](Row row, std::int64_t first, std::int64_t n) {
        const std::int64_t number =
            row_number(rows, row.i1, row.i2 % rows.ne[1], row.i3 % rows.ne[2]);
        if (!has_row(node, number, row.i1, task)) return;
        convert(element_at(row_at(x, row), x.type, first),
                element_at(at(node, 0, number, row.i2, row.i3), node.type, first), n);
    });
}

Demand set_demand(const Tensor& node, int threads) {
    if (threads <= 1) return {};
    const Tensor& x = *node.src[0];
    return {.tasks = tasks_for(*RowConverter::between(x.type, node.type), x, threads)};
}

// ---- get_rows_back -----------------------------------------------------------------------------

std::string_view back_objection(const Tensor& node) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    if (x.type != GGML_TYPE_F32 && x.type != GGML_TYPE_F16) return "x is neither f32 nor f16";
    if (node.type != GGML_TYPE_F32) return "the result is not f32";
    if (rows.type != GGML_TYPE_I32) return "row numbers are not i32";
    if (!is_matrix(x) || !is_matrix(node) || !is_vector(rows) || x.ne[0] != node.ne[0] ||
        rows.ne[0] > x.ne[1]) {
        return "the extents of x, the row numbers and the result do not match";
    }
    if (!has_dense_rows(x) || !has_dense_rows(node)) return "rows are not dense";
    return {};
}

/// Columns that a task takes together: a cache line.
constexpr std::int64_t kColumns = 16;

/// Each task has columns of its own, so rows that are named twice are added up in the same order
/// however many tasks there are.
void get_back(const Tensor& node, const Task& task) {
    const Tensor &x = *node.src[0], &rows = *node.src[1];
    const Range lines = task.share((node.ne[0] + kColumns - 1) / kColumns);
    const std::int64_t begin = lines.begin * kColumns;
    const std::int64_t end = std::min(lines.end * kColumns, node.ne[0]);
    if (begin >= end) return;
    for (std::int64_t i = 0; i < node.ne[1]; ++i) {
        std::memset(at<float>(node, 0, i) + begin, 0,
                    static_cast<std::size_t>(end - begin) * sizeof(float));
    }
    constexpr std::int64_t chunk = 512;
    float buffer[chunk];
    for (std::int64_t i = 0; i < rows.ne[0]; ++i) {
        const std::int64_t number = row_number(rows, i, 0, 0);
        if (!has_row(node, number, i, task)) return;
        float* to = at<float>(node, 0, number);
        for (std::int64_t j = begin; j < end; j += chunk) {
            const std::int64_t n = std::min(chunk, end - j);
            const float* from = buffer;
            if (x.type == GGML_TYPE_F32) {
                from = at<const float>(x, 0, i) + j;
            } else {
                f16_to_f32_row(at<const std::uint16_t>(x, 0, i) + j, buffer, n);
            }
            for (std::int64_t k = 0; k < n; ++k) to[j + k] += from[k];
        }
    }
}

Demand back_demand(const Tensor& node, int threads) {
    const double bytes =
        static_cast<double>(byte_size(node)) + 3.0 * static_cast<double>(byte_size(*node.src[0]));
    return {.tasks = worthwhile_tasks(bytes, 0, node.ne[0] / kColumns, threads)};
}

}  // namespace

extern const Kernel kGetRows{.name = "get_rows",
                             .op = ops::GetRows::id,
                             .objection = get_objection,
                             .run = get,
                             .demand = get_demand};
extern const Kernel kGetRowsRepacked{.name = "get_rows_repacked",
                                     .op = ops::GetRows::id,
                                     .objection = get_repacked_objection,
                                     .run = get_repacked,
                                     .demand = get_demand,
                                     .reads_repacked = true};
extern const Kernel kSetRows{.name = "set_rows",
                             .op = ops::SetRows::id,
                             .objection = set_objection,
                             .run = set,
                             .demand = set_demand};
extern const Kernel kGetRowsBack{.name = "get_rows_back",
                                 .op = ops::GetRowsBack::id,
                                 .objection = back_objection,
                                 .run = get_back,
                                 .demand = back_demand};

}  // namespace heddle::cpu
