#include "ops/binary.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/kernels/test_support.hpp"
#include "ops/add1.hpp"
#include "ops/add_id.hpp"

namespace heddle::cpu {
namespace {

/// The definition: b is tiled to the extents of a.
template <class F>
std::vector<double> tiled(const Tensor& a, const Tensor& b, F f) {
    std::vector<double> values;
    for_elements(a, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        values.push_back(f(value_at(a, i0, i1, i2, i3),
                           value_at(b, i0 % b.ne[0], i1 % b.ne[1], i2 % b.ne[2], i3 % b.ne[3])));
    });
    return values;
}

const auto plus = [](double a, double b) { return a + b; };

void expect_all_four(Workbench& bench, Tensor* a, Tensor* b, double relative) {
    expect_result(bench, *bench.node<ops::Add>({}, {a, b}), tiled(*a, *b, plus), relative);
    expect_result(bench, *bench.node<ops::Sub>({}, {a, b}),
                  tiled(*a, *b, [](double x, double y) { return x - y; }), relative);
    expect_result(bench, *bench.node<ops::Mul>({}, {a, b}),
                  tiled(*a, *b, [](double x, double y) { return x * y; }), relative);
    expect_result(bench, *bench.node<ops::Div>({}, {a, b}),
                  tiled(*a, *b, [](double x, double y) { return x / y; }), relative);
}

TEST(CpuBinary, TilesBInEveryDimension) {
    const Extents shapes[] = {{10, 5, 4, 3}, {10, 5, 4, 1}, {10, 5, 1, 3}, {10, 1, 4, 3},
                              {5, 5, 2, 3},  {1, 5, 4, 3},  {10, 1, 1, 1}, {1, 1, 1, 1},
                              {2, 1, 2, 1},  {1, 1, 4, 1},  {1, 1, 1, 3}};
    for (const Extents& shape : shapes) {
        SCOPED_TRACE(describe(shape));
        Workbench bench;
        Tensor* a = bench.random(GGML_TYPE_F32, {10, 5, 4, 3});
        Tensor* b = bench.random(GGML_TYPE_F32, shape, 0.5, 2);
        expect_all_four(bench, a, b, 2e-6);
    }
}

TEST(CpuBinary, TilesInsideLongRowsAndJoinsDimensionsOfOne) {
    const std::pair<Extents, Extents> shapes[] = {
        {{1400, 3, 1, 1}, {700, 1, 1, 1}}, {{1400, 2, 1, 1}, {1, 2, 1, 1}},
        {{1, 1, 700, 3}, {1, 1, 700, 1}},  {{1, 1, 1, 33}, {1, 1, 1, 1}},
        {{96, 7, 1, 1}, {48, 7, 1, 1}},    {{1400, 1, 1, 1}, {7, 1, 1, 1}}};
    for (const auto& [big, small] : shapes) {
        SCOPED_TRACE(describe(big) + " " + describe(small));
        Workbench bench;
        expect_all_four(bench, bench.random(GGML_TYPE_F32, big),
                        bench.random(GGML_TYPE_F32, small, 0.5, 2), 2e-6);
    }
}

TEST(CpuBinary, RoundsOnceToTheTypeOfTheResult) {
    const std::pair<Type, Type> types[] = {{GGML_TYPE_F16, GGML_TYPE_F16},
                                           {GGML_TYPE_BF16, GGML_TYPE_BF16},
                                           {GGML_TYPE_BF16, GGML_TYPE_F32},
                                           {GGML_TYPE_F16, GGML_TYPE_F32}};
    for (const auto& [type_a, type_b] : types) {
        for (const Extents& shape :
             {Extents{70, 3, 2, 1}, Extents{1, 3, 1, 1}, Extents{7, 1, 2, 1}}) {
            SCOPED_TRACE(testing::Message()
                         << name_of(type_a) << " " << name_of(type_b) << " " << describe(shape));
            Workbench bench;
            Tensor* a = bench.random(type_a, {70, 3, 2, 1});
            Tensor* b = bench.random(type_b, shape, 0.5, 2);
            expect_all_four(bench, a, b, rounding_of(type_a));
        }
    }
}

TEST(CpuBinary, CastsSumsOfHalfFloats) {
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
        Workbench bench;
        Tensor* a = bench.random(type, {19, 3, 1, 1});
        Tensor* b = bench.random(GGML_TYPE_F32, {19, 1, 1, 1});
        Tensor* y = bench.node<ops::Add>({.type = GGML_TYPE_F32}, {a, b});
        expect_result(bench, *y, tiled(*a, *b, plus), 2e-7);
    }
}

/// Adding to zero shows the conversions alone: their bits must be those of core/half.hpp.
TEST(CpuBinary, ConvertsHalfFloatsToTheSameBitsOnEveryInstructionSet) {
    constexpr std::int64_t count = 65536;
    const Extents extent{count, 1, 1, 1};
    const std::vector<double> nothing(count, -0.0);
    Workbench bench;
    Tensor* values = bench.tensor(GGML_TYPE_F32, extent);
    Tensor* halves = bench.tensor(GGML_TYPE_F16, extent);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t bits = i << 16 | (i * 2654435761u) >> 17;  // every sign and exponent
        std::memcpy(at(*values, i), &bits, sizeof bits);
        const auto half = static_cast<std::uint16_t>(i);
        std::memcpy(at(*halves, i), &half, sizeof half);
    }
    Tensor* to_f16 =
        bench.node<ops::Add>({}, {bench.numbers(GGML_TYPE_F16, extent, nothing), values});
    Tensor* to_bf16 =
        bench.node<ops::Add>({}, {bench.numbers(GGML_TYPE_BF16, extent, nothing), values});
    Tensor* from_f16 = bench.node<ops::Add>(
        {.type = GGML_TYPE_F32}, {halves, bench.numbers(GGML_TYPE_F32, extent, nothing)});
    for_each_target([&] {
        ASSERT_TRUE(run_node(*to_f16, 1) && run_node(*to_bf16, 1) && run_node(*from_f16, 1));
        for (std::int64_t i = 0; i < count; ++i) {
            const float value = *at<const float>(*values, i);
            ASSERT_EQ(*at<std::uint16_t>(*to_f16, i), f32_to_f16(value)) << value;
            ASSERT_EQ(*at<std::uint16_t>(*to_bf16, i), f32_to_bf16(value)) << value;
            const float widened = f16_to_f32(static_cast<std::uint16_t>(i));
            ASSERT_TRUE(*at<float>(*from_f16, i) == widened || widened != widened) << i;
        }
    });
}

TEST(CpuBinary, ReadsStridedOperands) {
    Workbench bench;
    Tensor* base_a = bench.random(GGML_TYPE_F32, {20, 9, 5, 4});
    Tensor* a = bench.slice(base_a, {3, 1, 1, 0}, {12, 4, 2, 3}, {1, 2, 2, 1});
    Tensor* permuted =
        bench.permuted(bench.random(GGML_TYPE_F32, {4, 2, 12, 3}, 0.5, 2), {1, 2, 0, 3});
    ASSERT_EQ(permuted->ne[0], 12);
    ASSERT_NE(permuted->nb[0], sizeof(float));
    expect_all_four(bench, a, permuted, 2e-6);
    Tensor* halves =
        bench.permuted(bench.random(GGML_TYPE_F16, {4, 6, 1, 1}, 0.5, 2), {1, 0, 2, 3});
    expect_all_four(bench, bench.random(GGML_TYPE_F16, {12, 4, 2, 1}), halves, 0x1p-11);
}

TEST(CpuBinary, ReadsOperandsThatOverlap) {
    Workbench bench;
    Tensor* base = bench.random(GGML_TYPE_F32, {100, 1, 1, 1}, 0.5, 2);
    expect_all_four(bench, bench.slice(base, {0, 0, 0, 0}, {64, 1, 1, 1}),
                    bench.slice(base, {13, 0, 0, 0}, {64, 1, 1, 1}), 2e-6);
}

TEST(CpuBinary, WritesIntoEitherOperand) {
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        for (const bool second : {false, true}) {
            for_each_way([&](int tasks) {
                Workbench bench;
                Tensor* a = bench.random(type, {1030, 3, 1, 1});
                Tensor* b = bench.random(type, {1030, 3, 1, 1});
                const auto expected = tiled(*a, *b, [](double x, double y) { return x - y; });
                Tensor* y = bench.node_in_place<ops::Sub>({}, {a, b});
                if (second) y->data = b->data;
                ASSERT_TRUE(run_node(*y, tasks));
                expect_close(*y, expected, rounding_of(type));
            });
        }
    }
}

TEST(CpuBinary, DividesByZeroAsIeeeSays) {
    Workbench bench;
    Tensor* a = bench.numbers(GGML_TYPE_F32, {3, 1, 1, 1}, {1, -1, 0});
    Tensor* b = bench.numbers(GGML_TYPE_F32, {1, 1, 1, 1}, {0});
    expect_result(bench, *bench.node<ops::Div>({}, {a, b}), {INFINITY, -INFINITY, NAN}, 0);
}

TEST(CpuBinary, AddsToBlocks) {
    for (const Type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K, GGML_TYPE_Q4_K}) {
        SCOPED_TRACE(name_of(type));
        Workbench bench;
        Tensor* a = bench.random(type, {2304, 3, 2, 1});
        Tensor* b = bench.random(GGML_TYPE_F32, {2304, 3, 2, 1});
        const auto expected = tiled(*a, *b, plus);
        // Errors are those of the encoder: a step of the format, of values up to 2.
        const double step = type == GGML_TYPE_Q8_0 ? 0.01 : type == GGML_TYPE_Q6_K ? 0.07 : 0.3;
        expect_result(bench, *bench.node<ops::Add>({}, {a, b}), expected, 0, step);
        expect_result(bench, *bench.node<ops::Add>({.type = GGML_TYPE_F32}, {a, b}), expected,
                      2e-7);
        expect_result(bench, *bench.node<ops::Add>({.type = GGML_TYPE_F16}, {a, b}), expected,
                      0x1p-11);
        Tensor* one = bench.numbers(GGML_TYPE_F32, {1, 1, 1, 1}, {0.25});
        expect_result(bench, *bench.node<ops::Add1>({}, {a, one}), tiled(*a, *one, plus), 0, step);
    }
}

TEST(CpuAdd1, AddsASingleValueOfEitherType) {
    const std::pair<Type, Type> types[] = {{GGML_TYPE_F32, GGML_TYPE_F32},
                                           {GGML_TYPE_F16, GGML_TYPE_F32},
                                           {GGML_TYPE_F16, GGML_TYPE_F16},
                                           {GGML_TYPE_BF16, GGML_TYPE_F32},
                                           {GGML_TYPE_BF16, GGML_TYPE_BF16}};
    for (const auto& [type_a, type_b] : types) {
        Workbench bench;
        Tensor* a = bench.random(type_a, {37, 5, 2, 1});
        Tensor* b = bench.random(type_b, {1, 1, 1, 1});
        expect_result(bench, *bench.node<ops::Add1>({}, {a, b}), tiled(*a, *b, plus),
                      rounding_of(type_a));
    }
}

TEST(CpuAddId, AddsTheRowThatAnIdNames) {
    Workbench bench;
    Tensor* a = bench.random(GGML_TYPE_F32, {33, 2, 5, 1});
    Tensor* b = bench.random(GGML_TYPE_F32, {33, 4, 1, 1});
    Tensor* wide = bench.random(GGML_TYPE_I32, {4, 5, 1, 1}, 0, 4);
    Tensor* ids = bench.slice(wide, {0, 0, 0, 0}, {2, 5, 1, 1});
    std::vector<double> expected;
    for_elements(*a, [&](std::int64_t i0, std::int64_t i1, std::int64_t i2, std::int64_t i3) {
        const auto id = static_cast<std::int64_t>(value_at(*ids, i1, i2));
        expected.push_back(value_at(*a, i0, i1, i2, i3) + value_at(*b, i0, id));
    });
    expect_result(bench, *bench.node<ops::AddId>({}, {a, b, ids}), expected, 2e-7);
}

TEST(CpuAddId, ReportsAnIdOutOfRange) {
    Workbench bench;
    Tensor* ids = bench.numbers(GGML_TYPE_I32, {1, 1, 1, 1}, {4});
    Tensor* y = bench.node<ops::AddId>({}, {bench.random(GGML_TYPE_F32, {8, 1, 1, 1}),
                                            bench.random(GGML_TYPE_F32, {8, 4, 1, 1}), ids});
    const Result<> done = run_node(*y, 1);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "id 4 is not below 4, the number of rows of b");
}

TEST(CpuBinary, SaysWhyItDeclines) {
    Workbench bench;
    Tensor* f32 = bench.random(GGML_TYPE_F32, {32, 2, 1, 1});
    Tensor* f16 = bench.random(GGML_TYPE_F16, {32, 2, 1, 1});
    Tensor* q4 = bench.random(GGML_TYPE_Q4_0, {32, 2, 1, 1});
    EXPECT_EQ(objection_to(*bench.node<ops::Mul>({}, {f32, f16})),
              "a, b and the result are not of types that go together");
    EXPECT_EQ(objection_to(*bench.node<ops::Mul>({}, {q4, f32})),
              "a, b and the result are not of types that go together");
    const std::string types = "add: a, b and the result are not of types that go together; ";
    EXPECT_EQ(objection_to(*bench.node<ops::Add>({}, {q4, f16})),
              types + "add_blocks: b is not f32");
    EXPECT_EQ(
        objection_to(*bench.node<ops::Add>({}, {q4, bench.random(GGML_TYPE_F32, {32, 1, 1, 1})})),
        types + "add_blocks: b is not repeated when a has a block format");
    Tensor* turned = bench.permuted(bench.random(GGML_TYPE_F32, {2, 32, 1, 1}), {1, 0, 2, 3});
    EXPECT_EQ(objection_to(*bench.node<ops::Add>({}, {turned, f32})),
              "add: rows of a or the result are not dense; "
              "add_blocks: a is not of a block format");
    Tensor* wrong = bench.node<ops::Add>({}, {f32, f32});
    wrong->src[1] = bench.random(GGML_TYPE_F32, {31, 2, 1, 1});
    EXPECT_EQ(objection_to(*wrong),
              "add: b cannot be repeated to the extents of a; "
              "add_blocks: a is not of a block format");
}

}  // namespace
}  // namespace heddle::cpu
