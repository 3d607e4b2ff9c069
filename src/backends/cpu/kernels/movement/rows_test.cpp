#include "ops/rows.hpp"

#include "backends/cpu/kernels/movement/test_support.hpp"

namespace heddle::cpu {
namespace {

// ---- get_rows ----------------------------------------------------------------------------------

std::vector<double> taken_rows(const Tensor& x, const Tensor& rows) {
    std::vector<double> expected;
    for_elements(rows, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t) {
        const auto number = static_cast<std::int64_t>(value_at(rows, i0, i1, i2));
        for (std::int64_t i = 0; i < x.ne[0]; ++i)
            expected.push_back(value_at(x, i, number, i1, i2));
    });
    return expected;
}

TEST(GetRows, ReadsEveryTypeThatCanBeReadAsF32) {
    std::vector<Type> types{GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_F16, GGML_TYPE_BF16};
    for (const quant::Codec& codec : quant::all_codecs()) {
        if (!codec.is_operand) types.push_back(codec.type);
    }
    for (const Type type : types) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        Tensor* x = bench.random(type, {256, 5, 3, 2}, -9, 9);
        Tensor* rows = bench.random(GGML_TYPE_I32, {4, 3, 2, 1}, 0, 4.99);
        expect_exactly(bench, *bench.node<ops::GetRows>({}, {x, rows}), taken_rows(*x, *rows));
    }
}

TEST(GetRows, FollowsStridesOfTheTableAndOfTheNumbers) {
    Workbench bench;
    Tensor* whole = bench.random(GGML_TYPE_F16, {37, 3, 6, 2});
    Tensor* x = bench.permuted(bench.slice(whole, {2, 0, 0, 0}, {33, 3, 6, 2}), {0, 2, 1, 3});
    Tensor* numbers = bench.random(GGML_TYPE_I32, {8, 3, 2, 1}, 0, 5.99);
    Tensor* rows = bench.slice(numbers, {1, 0, 0, 0}, {3, 3, 2, 1}, {2, 1, 1, 1});
    expect_exactly(bench, *bench.node<ops::GetRows>({}, {x, rows}), taken_rows(*x, *rows));
}

TEST(GetRows, CutsFewLongRows) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K}) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        Tensor* x = bench.random(type, {65536 + 256, 3, 1, 1});
        Tensor* y =
            bench.node<ops::GetRows>({}, {x, bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {2, 0})});
        EXPECT_GT(demand_of(*choose_kernel(*y), *y, 4).tasks, 2);
        const std::vector<double> table = values_of(*x);
        std::vector<double> expected(table.end() - x->ne[0], table.end());
        expected.insert(expected.end(), table.begin(), table.begin() + x->ne[0]);
        for (const int tasks : {1, 2, 5}) {
            std::memset(y->data, 0, byte_size(*y));
            ASSERT_TRUE(run_node(*y, tasks));
            expect_close(*y, expected, 0, 0);
        }
        bench.expect_intact();
    }
}

TEST(GetRows, SaysWhichNumberIsOutOfRange) {
    for (const std::int32_t wrong : {-1, 5}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {4, 5, 1, 1});
        set_name(*x, "table");
        Tensor* rows = bench.numbers(GGML_TYPE_I32, {3, 1, 1, 1}, {0, 4, double(wrong)});
        Tensor* y = bench.node<ops::GetRows>({}, {x, rows});
        for_each_way([&](int tasks) {
            const Result<> done = run_node(*y, tasks);
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().message, text("entry 2 of the row numbers is ", wrong, ", but ",
                                                 describe(*x), " has rows 0 to 4"));
            bench.expect_intact();
        });
    }
}

TEST(GetRows, DeclinesRowsThatCannotBeRead) {
    Workbench bench;
    Tensor* rows = bench.tensor(GGML_TYPE_I32, {2, 1, 1, 1});
    Tensor* sparse = bench.permuted(bench.tensor(GGML_TYPE_F32, {5, 4, 1, 1}), {1, 0, 2, 3});
    EXPECT_EQ(objection_to(*bench.node<ops::GetRows>({}, {sparse, rows})), "rows are not dense");
    Tensor* numbers = bench.tensor(GGML_TYPE_I64, {4, 5, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::GetRows>({}, {numbers, rows})),
              "rows of x cannot be read as f32");
}

// ---- set_rows ----------------------------------------------------------------------------------

/// A different row for each entry of `rows` within a plane.
Tensor* distinct_rows(Workbench& bench, Type type, const Extents& extent, std::int64_t limit) {
    std::vector<double> numbers;
    const std::int64_t planes = extent[1] * extent[2];
    for (std::int64_t plane = 0; plane < planes; ++plane) {
        for (std::int64_t i = 0; i < extent[0]; ++i) {
            numbers.push_back(static_cast<double>((plane * 2 + i * 3 + 1) % limit));
        }
    }
    return bench.numbers(type, extent, numbers);
}

/// The table after the rows were written, by the definition, where nothing is rounded.
std::vector<double> written_table(const Tensor& table, const Tensor& x, const Tensor& rows) {
    std::vector<double> expected = values_of(table);
    for_elements(x, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const auto number =
            static_cast<std::int64_t>(value_at(rows, i1, i2 % rows.ne[1], i3 % rows.ne[2]));
        const std::int64_t place =
            i0 + table.ne[0] * (number + table.ne[1] * (i2 + table.ne[2] * i3));
        expected[static_cast<std::size_t>(place)] = value_at(x, i0, i1, i2, i3);
    });
    return expected;
}

void expect_set_rows(Workbench& bench, Tensor* x, Tensor* rows, Tensor* table, double error) {
    const std::vector<double> expected = written_table(*table, *x, *rows);
    const std::vector<double> before = values_of(*table);
    Tensor* node = bench.node<ops::SetRows>({}, {x, rows, table});
    for_each_way([&](int tasks) {
        set_values(*table, before);
        const Result<> done = run_node(*node, tasks);
        ASSERT_TRUE(done) << done.error().message;
        expect_close(*table, expected, error, error);
        bench.expect_intact();
    });
}

TEST(SetRows, CutsFewLongRows) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {6000, 1, 1, 1});
    Tensor* rows = bench.numbers(GGML_TYPE_I64, {1, 1, 1, 1}, {1});
    expect_set_rows(bench, x, rows, bench.random(GGML_TYPE_F32, {6000, 3, 1, 1}), 0);
    expect_set_rows(bench, x, rows, bench.random(GGML_TYPE_F16, {6000, 3, 1, 1}), 0x1p-11);
}

TEST(SetRows, ConvertsToTheTypeOfTheTable) {
    // 2^-4: half a step of 16 levels between -1 and 1.
    for (const auto& [type, error] : {std::pair{GGML_TYPE_F32, 0.0},
                                      {GGML_TYPE_F16, 0x1p-11},
                                      {GGML_TYPE_BF16, 0x1p-8},
                                      {GGML_TYPE_Q8_0, 0.005},
                                      {GGML_TYPE_Q5_1, 0.04},
                                      {GGML_TYPE_Q4_0, 0.13},
                                      {GGML_TYPE_Q6_K, 0.04},
                                      {GGML_TYPE_IQ4_NL, 0.2}}) {
        for (const Type from : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            for (const Type numbers : {GGML_TYPE_I32, GGML_TYPE_I64}) {
                SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(type));
                Workbench bench;
                Tensor* x = bench.random(from, {256, 3, 4, 2});
                Tensor* rows = distinct_rows(bench, numbers, {3, 2, 1, 1}, 7);
                Tensor* table = bench.tensor(type, {256, 7, 4, 2});
                std::memset(table->data, 0, byte_size(*table));
                expect_set_rows(bench, x, rows, table, error);
            }
        }
    }
}

TEST(SetRows, FollowsStridesOfAllOperands) {
    Workbench bench;
    Tensor* x =
        bench.slice(bench.random(GGML_TYPE_F32, {35, 6, 2, 3}), {1, 1, 0, 0}, {31, 4, 2, 3});
    Tensor* numbers = distinct_rows(bench, GGML_TYPE_I64, {8, 2, 3, 1}, 11);
    Tensor* rows = bench.slice(numbers, {0, 0, 0, 0}, {4, 2, 3, 1}, {2, 1, 1, 1});
    Tensor* table = bench.permuted(bench.random(GGML_TYPE_F32, {31, 2, 11, 3}), {0, 2, 1, 3});
    expect_set_rows(bench, x, rows, table, 0);
}

TEST(SetRows, WritesNothingForANumberOutOfRange) {
    for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 40}) {
        Workbench bench;
        Tensor* x = bench.random(GGML_TYPE_F32, {8, 2, 1, 1});
        Tensor* rows = bench.numbers(GGML_TYPE_I64, {2, 1, 1, 1}, {1, double(wrong)});
        Tensor* table = bench.random(GGML_TYPE_F32, {8, 4, 1, 1});
        std::vector<double> expected = values_of(*table);
        const std::vector<double> written = values_of(*x);
        std::copy_n(written.begin(), 8, expected.begin() + 8);
        Tensor* node = bench.node<ops::SetRows>({}, {x, rows, table});
        for_each_way([&](int tasks) {
            const Result<> done = run_node(*node, tasks);
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().message, text("entry 1 of the row numbers is ", wrong, ", but ",
                                                 describe(*node), " has rows 0 to 3"));
            expect_close(*table, expected, 0, 0);
            bench.expect_intact();
        });
    }
}

TEST(SetRows, DeclinesTablesThatHaveNoQuickEncoder) {
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F32, {256, 1, 1, 1});
    Tensor* rows = bench.tensor(GGML_TYPE_I64, {1, 1, 1, 1});
    for (const Type type : {GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
                            GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S}) {
        Tensor* table = bench.tensor(type, {256, 2, 1, 1});
        EXPECT_EQ(objection_to(*bench.node<ops::SetRows>({}, {x, rows, table})),
                  "the table's type has no quick encoder");
    }
}

// ---- get_rows_back -----------------------------------------------------------------------------

TEST(GetRowsBack, AddsUpRowsThatAreNamedTwice) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        for (const std::int64_t columns : {1, 16, 33, 1100}) {
            SCOPED_TRACE(testing::Message() << name_of(type) << ' ' << columns);
            Workbench bench;
            Tensor* x = bench.random(type, {columns, 9, 1, 1});
            Tensor* numbers = bench.random(GGML_TYPE_I32, {9, 1, 1, 1}, 0, 3.99);
            Tensor* rows = bench.slice(numbers, {}, {5, 1, 1, 1});  // fewer than x has rows
            std::vector<double> expected(static_cast<std::size_t>(columns * 6));
            for (std::int64_t i = 0; i < 5; ++i) {
                const auto number = static_cast<std::int64_t>(value_at(*rows, i));
                for (std::int64_t j = 0; j < columns; ++j) {
                    expected[static_cast<std::size_t>(number * columns + j)] += value_at(*x, j, i);
                }
            }
            Tensor* y = bench.node<ops::GetRowsBack>({{}, {columns, 6, 1, 1}}, {x, rows});
            // Five additions, each of which rounds.
            run_afresh(bench, *y, [&] { expect_close(*y, expected, 1e-6, 1e-6); });
        }
    }
}

TEST(GetRowsBack, SaysWhichNumberIsOutOfRange) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F32, {64, 2, 1, 1});
    Tensor* rows = bench.numbers(GGML_TYPE_I32, {2, 1, 1, 1}, {2, 3});
    Tensor* y = bench.node<ops::GetRowsBack>({{}, {64, 3, 1, 1}}, {x, rows});
    for_each_way([&](int tasks) {
        const Result<> done = run_node(*y, tasks);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().message,
                  text("entry 1 of the row numbers is 3, but ", describe(*y), " has rows 0 to 2"));
        bench.expect_intact();
    });
}

}  // namespace
}  // namespace heddle::cpu
