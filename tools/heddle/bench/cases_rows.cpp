#include <algorithm>

#include "bench/cases.hpp"
#include "ggml/ops.h"

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
    bool usual = false;
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

// ---- what models need now and then -------------------------------------------------------------

ggml_tensor* scalar_added(Inputs& inputs, const Matrix& m) {
    ggml_tensor* x = matrix(inputs, m);
    return ggml_add1(inputs.context(), x, inputs.input(GGML_TYPE_F32, {1}));
}

/// The first half of the rows replaced, or added to.
template <ggml_tensor* (*function)(ggml_context*, ggml_tensor*, ggml_tensor*, std::size_t,
                                   std::size_t, std::size_t, std::size_t)>
ggml_tensor* on_region(Inputs& inputs, const Matrix& m) {
    ggml_tensor* x = matrix(inputs, m);
    ggml_tensor* part = inputs.input(GGML_TYPE_F32, {m.columns, m.rows / 2});
    return function(inputs.context(), x, part, x->nb[1], x->nb[2], x->nb[3], 0);
}

ggml_tensor* clamped(Inputs& inputs, const Matrix& m) {
    return ggml_clamp(inputs.context(), matrix(inputs, m), -0.5f, 0.5f);
}

ggml_tensor* leaky(Inputs& inputs, const Matrix& m) {
    return ggml_leaky_relu(inputs.context(), matrix(inputs, m), 0.1f, false);
}

ggml_tensor* equal_counted(Inputs& inputs, const Matrix& m) {
    const Content numbers{Content::Kind::numbers, 1 << 16};
    ggml_tensor* a = inputs.input(GGML_TYPE_I32, {m.columns, m.rows}, numbers);
    return ggml_count_equal(inputs.context(), a,
                            inputs.input(GGML_TYPE_I32, {m.columns, m.rows}, numbers));
}

template <ggml_tensor* (*function)(ggml_context*, ggml_tensor*, int)>
ggml_tensor* masked(Inputs& inputs, const Matrix& m) {
    return function(inputs.context(), matrix(inputs, m), static_cast<int>(m.columns / 2));
}

ggml_tensor* repeated(Inputs& inputs, const Matrix& m) {
    ggml_tensor* row = inputs.input(GGML_TYPE_F32, {m.columns, 1});
    return ggml_repeat_4d(inputs.context(), row, m.columns, m.rows, 1, 1);
}

ggml_tensor* filled(Inputs& inputs, const Matrix& m) {
    return ggml_fill(inputs.context(), matrix(inputs, m), 1);
}

/// Chunks of 64 tokens, as linear attention has them.
constexpr std::int64_t kChunk = 64;

ggml_tensor* lower_part(Inputs& inputs, const Matrix& m) {
    const std::int64_t chunks = m.columns * m.rows / (kChunk * kChunk);
    ggml_tensor* x = inputs.input(GGML_TYPE_F32, {kChunk, kChunk, chunks});
    return ggml_tri(inputs.context(), x, GGML_TRI_TYPE_LOWER_DIAG);
}

ggml_tensor* diagonals(Inputs& inputs, const Matrix& m) {
    const std::int64_t chunks = m.columns * m.rows / (kChunk * kChunk);
    return ggml_diag(inputs.context(), inputs.input(GGML_TYPE_F32, {kChunk, 1, chunks}));
}

// clang-format off
constexpr RowOp kRowOps[] = {
    // op        bytes/element  how                       remark          usual
    {"ADD",           3 * kF32, two_operands<ggml_add>,       "",             true},
    {"MUL",           3 * kF32, two_operands<ggml_mul>,       "",             true},
    {"SUB",           3 * kF32, two_operands<ggml_sub>},
    {"DIV",           3 * kF32, two_operands<ggml_div>},
    {"ADD1",          2 * kF32, scalar_added},
    {"ACC",           3 * kF32, on_region<ggml_acc>},
    {"SET",           3 * kF32, on_region<ggml_set>},
    {"SCALE",         2 * kF32, with_number<ggml_scale>,      "",             true},
    {"CLAMP",         2 * kF32, clamped},
    {"SQR",           2 * kF32, one_operand<ggml_sqr>},
    {"SQRT",          2 * kF32, one_operand<ggml_sqrt>},
    {"LOG",           2 * kF32, one_operand<ggml_log>},
    {"SIN",           2 * kF32, one_operand<ggml_sin>},
    {"COS",           2 * kF32, one_operand<ggml_cos>},
    {"LEAKY_RELU",    2 * kF32, leaky},
    {"RMS_NORM",      2 * kF32, with_number<ggml_rms_norm>,   "",             true},
    {"NORM",          2 * kF32, with_number<ggml_norm>,       "",             true},
    {"L2_NORM",       2 * kF32, with_number<ggml_l2_norm>},
    {"SOFT_MAX",      2 * kF32, one_operand<ggml_soft_max>,   "",             true},
    {"SOFT_MAX",      2 * kF32, long_row,                     " one row",     true},
    {"DIAG_MASK_INF", 2 * kF32, masked<ggml_diag_mask_inf>},
    {"DIAG_MASK_ZERO", 2 * kF32, masked<ggml_diag_mask_zero>},
    {"ROPE",          2 * kF32, rope,                         "",             true},
    {"SUM",               kF32, one_operand<ggml_sum>},
    {"SUM_ROWS",          kF32, one_operand<ggml_sum_rows>,   "",             true},
    {"MEAN",              kF32, one_operand<ggml_mean>},
    {"CUMSUM",        2 * kF32, one_operand<ggml_cumsum>,     "",             true},
    {"ARGMAX",            kF32, one_operand<ggml_argmax>,     "",             true},
    {"COUNT_EQUAL",   2 * kF32, equal_counted},
    {"DUP",           2 * kF32, one_operand<ggml_dup>},
    {"CONT",          2 * kF32, transposed,                   " transposed",  true},
    {"CONCAT",        4 * kF32, joined,                       "",             true},
    {"REPEAT",            kF32, repeated,                     " of a row"},
    {"FILL",              kF32, filled},
    {"TRI",           2 * kF32, lower_part,                   " by 64x64"},
    {"DIAG",              kF32, diagonals,                    " by 64x64"},
};
// clang-format on

/// These compute too much for memory to matter, so one size is enough.
constexpr RowOp kSorts[] = {{"ARGSORT", 2 * kF32, sorted, "", true},
                            {"TOP_K", kF32, largest, "", true}};

Case case_of(const RowOp& op, std::size_t bytes, bool beside_copy) {
    const Matrix shape = Matrix::of(bytes, op.bytes_per_element);
    return {.op = op.op,
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = shape.text() + op.remark,
            .build = [build = op.build, shape](Inputs& inputs) { return build(inputs, shape); },
            .beside_copy = beside_copy,
            .usual = op.usual};
}

/// The functions that `ggml_unary` and `ggml_glu_split` choose from, and those with parameters.
Case function_case(ggml_unary_op op, std::size_t bytes) {
    const Matrix shape = Matrix::of(bytes, 2 * kF32);
    const auto build = [=](Inputs& inputs) {
        ggml_tensor* x = matrix(inputs, shape);
        return op == GGML_UNARY_OP_XIELU ? ggml_xielu(inputs.context(), x, 0.8f, 0.8f, 0.5f, -1e-6f)
                                         : ggml_unary(inputs.context(), x, op);
    };
    const bool usual = op == GGML_UNARY_OP_SILU || op == GGML_UNARY_OP_GELU ||
                       op == GGML_UNARY_OP_EXP || op == GGML_UNARY_OP_TANH;
    return {.op = ggml_unary_op_name(op),
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = shape.text(),
            .build = build,
            .beside_copy = true,
            .usual = usual};
}

Case gated_case(ggml_glu_op op, std::size_t bytes) {
    const Matrix shape = Matrix::of(bytes, 3 * kF32);
    const auto build = [=](Inputs& inputs) {
        ggml_tensor* x = matrix(inputs, shape);
        ggml_tensor* gate = matrix(inputs, shape);
        return op == GGML_GLU_OP_SWIGLU_OAI ? ggml_swiglu_oai(inputs.context(), x, gate, 1.702f, 7)
                                            : ggml_glu_split(inputs.context(), x, gate, op);
    };
    return {.op = ggml_glu_op_name(op),
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = shape.text(),
            .build = build,
            .beside_copy = true,
            .usual = op == GGML_GLU_OP_SWIGLU};
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
    for (int op = 0; op < GGML_UNARY_OP_COUNT; ++op) {
        for (const std::size_t bytes : working_sets(wish)) {
            cases.push_back(function_case(static_cast<ggml_unary_op>(op), bytes));
        }
    }
    for (int op = 0; op < GGML_GLU_OP_COUNT; ++op) {
        for (const std::size_t bytes : working_sets(wish)) {
            cases.push_back(gated_case(static_cast<ggml_glu_op>(op), bytes));
        }
    }
    for (const RowOp& op : kSorts) {
        cases.push_back(case_of(op, wish.quick ? 64 << 10 : 4 << 20, false));
    }
    return cases;
}

std::vector<Case> copy_cases(const Wish& wish) {
    std::vector<Case> cases;
    for (const std::size_t bytes : working_sets(wish)) {
        for (const ggml_type type :
             wish.types_or({GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0})) {
            cases.push_back(conversion(GGML_TYPE_F32, type, bytes));
            if (type != GGML_TYPE_F32) cases.push_back(conversion(type, GGML_TYPE_F32, bytes));
            cases.push_back(picked_rows(type, bytes));
            cases.push_back(stored_rows(type, bytes));
        }
    }
    return cases;
}

}  // namespace heddle::tool::bench
