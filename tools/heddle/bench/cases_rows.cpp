#include <algorithm>
#include <array>

#include "bench/cases.hpp"

/// Ops that read and write each number a few times: memory is what they wait for.
namespace heddle::tool::bench {
namespace {

/// A matrix of so many bytes of operands and results together.
struct Matrix {
    std::int64_t columns, rows;

    static Matrix of(std::size_t bytes, double bytes_per_element) {
        const std::int64_t columns = bytes >= (std::size_t{1} << 20) ? 4096 : 1024;
        const double rows = static_cast<double>(bytes) / bytes_per_element;
        return {columns, std::max<std::int64_t>(1, static_cast<std::int64_t>(rows) / columns)};
    }
    std::string text() const { return std::to_string(columns) + "x" + std::to_string(rows); }
};

constexpr double kF32 = 4;

struct RowOp {
    const char* op;
    double bytes_per_element;
    ggml_tensor* (*build)(Inputs&, const Matrix&);
    const char* remark = "";
};

ggml_tensor* matrix(Inputs& inputs, const Matrix& m) {
    return inputs.input(GGML_TYPE_F32, {m.columns, m.rows});
}

/// An op of the C API that takes a matrix and nothing else.
template <ggml_tensor* (*function)(ggml_context*, ggml_tensor*)>
ggml_tensor* one_operand(Inputs& inputs, const Matrix& m) {
    return function(inputs.context(), matrix(inputs, m));
}

/// The same with two matrices.
template <ggml_tensor* (*function)(ggml_context*, ggml_tensor*, ggml_tensor*)>
ggml_tensor* two_operands(Inputs& inputs, const Matrix& m) {
    ggml_tensor* a = matrix(inputs, m);
    return function(inputs.context(), a, matrix(inputs, m));
}

template <ggml_tensor* (*function)(ggml_context*, ggml_tensor*, float)>
ggml_tensor* with_number(Inputs& inputs, const Matrix& m) {
    return function(inputs.context(), matrix(inputs, m), 1e-5f);
}

ggml_tensor* rope(Inputs& inputs, const Matrix& m) {
    constexpr int width = 128;
    ggml_tensor* x = inputs.input(GGML_TYPE_F32, {width, m.columns / width, m.rows});
    ggml_tensor* positions =
        inputs.input(GGML_TYPE_I32, {m.rows}, {Content::Kind::numbers, 1 << 16});
    return ggml_rope(inputs.context(), x, positions, width, GGML_ROPE_TYPE_NORMAL);
}

ggml_tensor* long_row(Inputs& inputs, const Matrix& m) {
    return ggml_soft_max(inputs.context(), inputs.input(GGML_TYPE_F32, {m.columns * m.rows}));
}

ggml_tensor* transposed(Inputs& inputs, const Matrix& m) {
    ggml_context* c = inputs.context();
    return ggml_cont(c, ggml_transpose(c, matrix(inputs, m)));
}

ggml_tensor* largest(Inputs& inputs, const Matrix& m) {
    return ggml_top_k(inputs.context(), matrix(inputs, m), 40);
}

ggml_tensor* sorted(Inputs& inputs, const Matrix& m) {
    return ggml_argsort(inputs.context(), matrix(inputs, m), GGML_SORT_ORDER_DESC);
}

ggml_tensor* joined(Inputs& inputs, const Matrix& m) {
    ggml_tensor* a = matrix(inputs, m);
    return ggml_concat(inputs.context(), a, matrix(inputs, m), 1);
}

constexpr std::array kRowOps{
    RowOp{"ADD", 3 * kF32, two_operands<ggml_add>},
    RowOp{"MUL", 3 * kF32, two_operands<ggml_mul>},
    RowOp{"SCALE", 2 * kF32, with_number<ggml_scale>},
    RowOp{"SILU", 2 * kF32, one_operand<ggml_silu>},
    RowOp{"GELU", 2 * kF32, one_operand<ggml_gelu>},
    RowOp{"EXP", 2 * kF32, one_operand<ggml_exp>},
    RowOp{"TANH", 2 * kF32, one_operand<ggml_tanh>},
    RowOp{"SWIGLU", 3 * kF32, two_operands<ggml_swiglu_split>},
    RowOp{"RMS_NORM", 2 * kF32, with_number<ggml_rms_norm>},
    RowOp{"NORM", 2 * kF32, with_number<ggml_norm>},
    RowOp{"SOFT_MAX", 2 * kF32, one_operand<ggml_soft_max>},
    RowOp{"SOFT_MAX", 2 * kF32, long_row, " one row"},
    RowOp{"ROPE", 2 * kF32, rope},
    RowOp{"SUM_ROWS", kF32, one_operand<ggml_sum_rows>},
    RowOp{"CUMSUM", 2 * kF32, one_operand<ggml_cumsum>},
    RowOp{"ARGMAX", kF32, one_operand<ggml_argmax>},
    RowOp{"CONCAT", 4 * kF32, joined},
    RowOp{"CONT", 2 * kF32, transposed, " transposed"},
};

/// These compute too much for memory to matter, so one size is enough.
constexpr std::array kSorts{RowOp{"ARGSORT", 2 * kF32, sorted}, RowOp{"TOP_K", kF32, largest}};

Case case_of(const RowOp& op, std::size_t bytes, bool beside_copy) {
    const Matrix shape = Matrix::of(bytes, op.bytes_per_element);
    return {.op = op.op,
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = shape.text() + op.remark,
            .build = [build = op.build, shape](Inputs& inputs) { return build(inputs, shape); },
            .beside_copy = beside_copy};
}

/// A matrix of `from` as one of `to`.
Case conversion(ggml_type from, ggml_type to, std::size_t bytes) {
    const double each = static_cast<double>(ggml_row_size(from, 256) + ggml_row_size(to, 256));
    const Matrix m = Matrix::of(bytes, each / 256);
    return {.op = "CPY",
            .type = std::string(ggml_type_name(from)) + "->" + ggml_type_name(to),
            .main_type = from == GGML_TYPE_F32 ? to : from,
            .shape = m.text(),
            .build =
                [=](Inputs& inputs) {
                    ggml_tensor* x = inputs.input(from, {m.columns, m.rows});
                    return ggml_cpy(inputs.context(), x, inputs.input(to, {m.columns, m.rows}));
                },
            .beside_copy = true};
}

/// Rows picked from a table eight times as long.
Case picked_rows(ggml_type type, std::size_t bytes) {
    const double each = static_cast<double>(ggml_row_size(type, 256)) / 256 + kF32;
    const Matrix m = Matrix::of(bytes, each);
    const std::int64_t table = 8 * m.rows;
    return {.op = "GET_ROWS",
            .type = ggml_type_name(type),
            .main_type = type,
            .shape = m.text() + " of " + std::to_string(table),
            .build =
                [=](Inputs& inputs) {
                    ggml_tensor* rows = inputs.input(type, {m.columns, table});
                    return ggml_get_rows(
                        inputs.context(), rows,
                        inputs.input(GGML_TYPE_I32, {m.rows}, {Content::Kind::scattered, table}));
                },
            .beside_copy = true};
}

/// Rows written to a cache.
Case stored_rows(ggml_type type, std::size_t bytes) {
    const double each = static_cast<double>(ggml_row_size(type, 256)) / 256 + kF32;
    const Matrix m = Matrix::of(bytes, each);
    return {.op = "SET_ROWS",
            .type = ggml_type_name(type),
            .main_type = type,
            .shape = m.text(),
            .build =
                [=](Inputs& inputs) {
                    ggml_tensor* cache = inputs.input(type, {m.columns, m.rows});
                    ggml_tensor* rows = inputs.input(GGML_TYPE_F32, {m.columns, m.rows});
                    return ggml_set_rows(
                        inputs.context(), cache, rows,
                        inputs.input(GGML_TYPE_I64, {m.rows}, {Content::Kind::numbers, m.rows}));
                },
            .beside_copy = true};
}

std::vector<std::size_t> working_sets(const Wish& wish) {
    return {std::size_t{128} << 10, std::size_t{wish.quick ? 4u : 64u} << 20};
}

}  // namespace

std::vector<Case> row_cases(const Wish& wish) {
    std::vector<Case> cases;
    for (const RowOp& op : kRowOps) {
        for (const std::size_t bytes : working_sets(wish)) {
            cases.push_back(case_of(op, bytes, true));
        }
    }
    for (const RowOp& op : kSorts) {
        cases.push_back(case_of(op, wish.quick ? 64 << 10 : 4 << 20, false));
    }
    return cases;
}

std::vector<Case> copy_cases(const Wish& wish) {
    std::vector<ggml_type> types = wish.types;
    if (types.empty()) types = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0};
    std::vector<Case> cases;
    for (const std::size_t bytes : working_sets(wish)) {
        for (const ggml_type type : types) {
            cases.push_back(conversion(GGML_TYPE_F32, type, bytes));
            if (type != GGML_TYPE_F32) cases.push_back(conversion(type, GGML_TYPE_F32, bytes));
            cases.push_back(picked_rows(type, bytes));
            cases.push_back(stored_rows(type, bytes));
        }
    }
    return cases;
}

}  // namespace heddle::tool::bench
