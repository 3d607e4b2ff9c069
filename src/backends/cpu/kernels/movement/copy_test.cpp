#include "ops/copy.hpp"

#include <algorithm>
#include <numeric>

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/kernels/movement/test_support.hpp"
#include "ops/copy_builders.hpp"

namespace heddle::cpu {
namespace {

/// `x` rounded to `type` as the definition says.
std::vector<double> converted(std::vector<double> values, Type type) {
    for (double& value : values) {
        const auto number = static_cast<float>(value);
        if (type == GGML_TYPE_F16) value = f16_to_f32(f32_to_f16(number));
        if (type == GGML_TYPE_BF16) value = bf16_to_f32(f32_to_bf16(number));
        if (type == GGML_TYPE_I32) value = std::trunc(number);
    }
    return values;
}

Tensor* copy_into(Workbench& bench, Tensor* x, Tensor* y) {
    return bench.node<ops::Cpy>({}, {x, y});
}

constexpr Type kPlain[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I8,
                           GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64,  GGML_TYPE_F64};

/// Every conversion between plain types that there is, besides those of a type to itself.
constexpr std::pair<Type, Type> kConversions[] = {
    {GGML_TYPE_F32, GGML_TYPE_F16},  {GGML_TYPE_F32, GGML_TYPE_BF16},
    {GGML_TYPE_F16, GGML_TYPE_F32},  {GGML_TYPE_BF16, GGML_TYPE_F32},
    {GGML_TYPE_F16, GGML_TYPE_BF16}, {GGML_TYPE_BF16, GGML_TYPE_F16},
    {GGML_TYPE_F32, GGML_TYPE_I32},  {GGML_TYPE_I32, GGML_TYPE_F32},
    {GGML_TYPE_F16, GGML_TYPE_I32},  {GGML_TYPE_BF16, GGML_TYPE_I32}};

/// Copies `x` to a dense tensor, to one with gaps in all dimensions and to a transposed one.
void expect_copies(Workbench& bench, Tensor* x, Type type) {
    const std::vector<double> expected = converted(values_of(*x), type);
    const Extents extent = extents_of(*x);
    expect_exactly(bench, *copy_into(bench, x, bench.tensor(type, extent)), expected);

    const Extents larger{2 * extent[0] + 1, extent[1] + 2, extent[2] + 1, extent[3] + 1};
    Tensor* sparse = bench.slice(bench.tensor(type, larger), {1, 1, 1, 0}, extent, {2, 1, 1, 1});
    expect_exactly(bench, *copy_into(bench, x, sparse), expected);

    Tensor* wide = bench.tensor(type, {extent[1], extent[0], extent[2], extent[3]});
    expect_exactly(bench, *copy_into(bench, x, bench.permuted(wide, {1, 0, 2, 3})), expected);
}

void expect_all_copies(Type from, Type to) {
    SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
    Workbench bench;
    Tensor* x = bench.random(from, {21, 5, 3, 2}, -100, 100);
    expect_copies(bench, x, to);
    expect_copies(bench, bench.permuted(x, {1, 0, 2, 3}), to);
    expect_copies(bench, bench.permuted(x, {3, 1, 0, 2}), to);
    expect_copies(bench, bench.slice(x, {1, 0, 1, 0}, {7, 3, 2, 2}, {3, 2, 1, 1}), to);
}

TEST(Copy, KeepsTheBitsOfEveryPlainTypeInAnyLayout) {
    for (const Type type : kPlain) expect_all_copies(type, type);
}

TEST(Copy, ConvertsPlainTypesInAnyLayout) {
    for (const auto& [from, to] : kConversions) expect_all_copies(from, to);
}

TEST(Copy, TransposesInTiles) {
    // Whole tiles and parts of them, long and short ones, rows of 4096 bytes of halves, with and
    // without conversion.
    for (const Extents& extent :
         {Extents{130, 37, 2, 1}, Extents{3, 700, 1, 2}, Extents{700, 3, 2, 1},
          Extents{64, 96, 1, 1}, Extents{15, 9, 3, 1}, Extents{2048, 48, 1, 1}}) {
        for (const auto& [from, to] :
             {std::pair{GGML_TYPE_F32, GGML_TYPE_F32}, std::pair{GGML_TYPE_F16, GGML_TYPE_F16},
              std::pair{GGML_TYPE_I64, GGML_TYPE_I64}, std::pair{GGML_TYPE_F32, GGML_TYPE_F16},
              std::pair{GGML_TYPE_BF16, GGML_TYPE_F32}}) {
            SCOPED_TRACE(testing::Message()
                         << describe(extent) << ' ' << name_of(from) << ' ' << name_of(to));
            Workbench bench;
            Tensor* x = bench.permuted(bench.random(from, extent, -9, 9), {1, 0, 2, 3});
            expect_exactly(bench, *copy_into(bench, x, bench.tensor(to, extents_of(*x))),
                           converted(values_of(*x), to));
        }
    }
}

TEST(Copy, FollowsLogicalOrderIntoOtherExtents) {
    Workbench bench;
    std::array<int, 4> axis{0, 1, 2, 3};
    for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
        Tensor* x = bench.random(type, {3, 5, 7, 8});
        do {
            SCOPED_TRACE(testing::Message() << axis[0] << axis[1] << axis[2] << axis[3]);
            Tensor* permuted = bench.permuted(x, axis);
            Tensor* y = bench.tensor(type, {8, 7, 5, 3});
            expect_exactly(bench, *copy_into(bench, permuted, y), values_of(*permuted));
        } while (std::next_permutation(axis.begin(), axis.end()));
    }
}

TEST(Copy, CutsRowsThatDoNotMeet) {
    Workbench bench;
    Tensor* x = bench.slice(bench.random(GGML_TYPE_F32, {8, 8, 4, 1}), {1, 0, 0, 0}, {3, 5, 4, 1});
    Tensor* y = bench.slice(bench.tensor(GGML_TYPE_F32, {9, 9, 4, 1}), {2, 1, 0, 0}, {5, 6, 2, 1});
    expect_exactly(bench, *copy_into(bench, x, y), values_of(*x));
    Tensor* half =
        bench.slice(bench.tensor(GGML_TYPE_F16, {9, 9, 4, 1}), {2, 1, 0, 0}, {4, 5, 3, 1});
    expect_exactly(bench, *copy_into(bench, x, half), converted(values_of(*x), GGML_TYPE_F16));
}

TEST(Copy, TreatsNotANumberAndInfinityAsNumbers) {
    Workbench bench;
    Tensor* x =
        bench.numbers(GGML_TYPE_F32, {6, 1, 1, 1}, {NAN, INFINITY, -INFINITY, 70000, 1e-7, -0.0});
    for (const Type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
        expect_exactly(bench, *copy_into(bench, x, bench.tensor(type, {6, 1, 1, 1})),
                       converted(values_of(*x), type));
    }
}

TEST(Copy, CountsBeyondTwoMillionRows) {
    Workbench bench;
    constexpr std::int64_t rows = 2097121;
    Tensor* x = bench.permuted(bench.tensor(GGML_TYPE_I32, {2, rows, 1, 1}), {1, 0, 2, 3});
    std::iota(static_cast<std::int32_t*>(x->data), static_cast<std::int32_t*>(x->data) + 2 * rows,
              0);
    Tensor* y = bench.node<ops::Cont>({}, {x});
    ASSERT_TRUE(run_node(*y, 2));
    const auto* numbers = static_cast<const std::int32_t*>(y->data);
    for (std::int64_t i = 0; i < rows; ++i) {
        ASSERT_EQ(numbers[i], 2 * i);
        ASSERT_EQ(numbers[rows + i], 2 * i + 1);
    }
    bench.expect_intact();
}

TEST(Copy, GoesPastTheCachesWhereTheyAreTooSmall) {
    constexpr std::int64_t n = 2112;  // lines are whole; with one less they are not
    for (const std::int64_t extent : {n, n - 1}) {
        for (const Type type : {GGML_TYPE_F32, GGML_TYPE_F16}) {
            SCOPED_TRACE(testing::Message() << extent << ' ' << name_of(type));
            Workbench bench;
            Tensor* x = bench.tensor(type, {extent, type == GGML_TYPE_F32 ? n : 2 * n, 1, 1});
            auto* words = static_cast<std::uint16_t*>(x->data);
            for (std::size_t i = 0; i < byte_size(*x) / 2; ++i) {
                words[i] = static_cast<std::uint16_t>(i * 40503u >> 5);
            }
            for (Tensor* from : {bench.permuted(x, {1, 0, 2, 3}), x}) {
                Tensor* y = bench.node<ops::Dup>({}, {from});
                for_each_target([&] { ASSERT_TRUE(run_node(*y, 2)); });
                const std::size_t size = size_of(type);
                for (std::int64_t i1 = 0; i1 < y->ne[1]; ++i1) {
                    for (std::int64_t i0 = 0; i0 < y->ne[0]; ++i0) {
                        const bool same = std::memcmp(at(*y, i0, i1), at(*from, i0, i1), size) == 0;
                        ASSERT_TRUE(same) << i0 << ", " << i1;
                    }
                }
            }
            bench.expect_intact();
        }
    }
}

TEST(Copy, ConvertsPastTheCaches) {
    constexpr std::int64_t n = 1 << 20;
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F32, {n, 7, 1, 1});
    auto* values = static_cast<float*>(x->data);
    for (std::int64_t i = 0; i < 7 * n; ++i) values[i] = static_cast<float>(i % 8191) - 4000;
    Tensor* whole = bench.tensor(GGML_TYPE_F16, {n + 3, 7, 1, 1});
    Tensor* y = bench.slice(whole, {1, 0, 0, 0}, {n, 7, 1, 1});
    ASSERT_TRUE(run_node(*copy_into(bench, x, y), 3));
    for (std::int64_t row = 0; row < 7; ++row) {
        for (std::int64_t i = 0; i < n; ++i) {
            ASSERT_EQ(*at<std::uint16_t>(*y, i, row), f32_to_f16(*at<float>(*x, i, row))) << i;
        }
    }
    const auto* edges = static_cast<const unsigned char*>(whole->data);
    EXPECT_EQ(edges[0], 0x3C);
    EXPECT_EQ(edges[2 * n + 2], 0x3C);
    bench.expect_intact();
}

TEST(Copy, EncodesPastTheCaches) {
    constexpr std::int64_t n = (1 << 20) + 96, rows = 7;  // ends in the middle of a piece
    Workbench bench;
    Tensor* x = bench.tensor(GGML_TYPE_F32, {n, rows, 1, 1});
    auto* values = static_cast<float*>(x->data);
    for (std::int64_t i = 0; i < rows * n; ++i) values[i] = static_cast<float>(i % 8191) - 4000;
    Tensor* y = bench.tensor(GGML_TYPE_Q8_0, {n, rows, 1, 1});
    ASSERT_TRUE(run_node(*copy_into(bench, x, y), 3));
    std::vector<std::byte> expected(row_size(GGML_TYPE_Q8_0, n));
    for (std::int64_t row = 0; row < rows; ++row) {
        encode_q8_0_row(at<float>(*x, 0, row), expected.data(), n);
        EXPECT_EQ(std::memcmp(at(*y, 0, row), expected.data(), expected.size()), 0) << row;
    }
    bench.expect_intact();
}

TEST(Copy, DupAndContAndCastAreTheSame) {
    Workbench bench;
    Tensor* x = bench.permuted(bench.random(GGML_TYPE_F32, {10, 7, 3, 1}), {1, 2, 0, 3});
    expect_exactly(bench, *bench.node<ops::Dup>({}, {x}), values_of(*x));
    expect_exactly(bench,
                   *bench.node<ops::Cont>({.params = {}, .extent = Extents{6, 35, 1, 1}}, {x}),
                   values_of(*x));
    Tensor* cast_x = bench.place(*cast(bench, x, GGML_TYPE_BF16));
    EXPECT_EQ(cast_x->src[1], cast_x);
    expect_exactly(bench, *cast_x, converted(values_of(*x), GGML_TYPE_BF16));
}

TEST(Copy, OntoItselfChangesNothing) {
    Workbench bench;
    Tensor* x = bench.random(GGML_TYPE_F16, {33, 3, 1, 1});
    const std::vector<double> before = values_of(*x);
    expect_result(bench, *bench.node_in_place<ops::Dup>({}, {x}), before, 0, 0);
}

// ---- blocks ------------------------------------------------------------------------------------

TEST(Copy, KeepsTheBitsOfBlocksInAnyLayout) {
    for (const quant::Codec& codec : quant::all_codecs()) {
        if (codec.is_operand) continue;
        SCOPED_TRACE(name_of(codec.type));
        Workbench bench;
        const std::int64_t block = block_size(codec.type);
        Tensor* x = bench.random(codec.type, {2 * block, 3, 2, 2});
        Tensor* permuted = bench.permuted(x, {0, 2, 1, 3});
        Tensor* y = bench.tensor(codec.type, {2 * block, 2, 3, 2});
        expect_exactly(bench, *copy_into(bench, permuted, y), values_of(*permuted));
        Tensor* other = bench.tensor(codec.type, {4 * block, 6, 1, 1});
        expect_exactly(bench, *copy_into(bench, permuted, other), values_of(*permuted));
        Tensor* part = bench.slice(x, {0, 1, 0, 0}, {2 * block, 2, 2, 2});
        Tensor* gaps = bench.slice(bench.tensor(codec.type, {4 * block, 2, 3, 2}), {0, 0, 1, 0},
                                   {2 * block, 2, 2, 2});
        expect_exactly(bench, *copy_into(bench, part, gaps), values_of(*part));
    }
}

TEST(Copy, DecodesBlocksToF32) {
    for (const quant::Codec& codec : quant::all_codecs()) {
        if (codec.is_operand) continue;
        SCOPED_TRACE(name_of(codec.type));
        Workbench bench;
        const std::int64_t block = block_size(codec.type);
        Tensor* x = bench.permuted(bench.random(codec.type, {2 * block, 3, 2, 1}), {0, 2, 1, 3});
        Tensor* dense = bench.tensor(GGML_TYPE_F32, {3 * block, 4, 1, 1});
        expect_exactly(bench, *copy_into(bench, x, dense), values_of(*x));
        Tensor* gaps = bench.slice(bench.tensor(GGML_TYPE_F32, {2 * block + 3, 3, 4, 1}),
                                   {1, 1, 1, 0}, {2 * block, 2, 3, 1});
        expect_exactly(bench, *copy_into(bench, x, gaps), values_of(*x));
    }
}

/// Error of the values of `node` over their size.
double relative_error(const Tensor& node, const std::vector<double>& expected) {
    const std::vector<double> actual = values_of(node);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
        size += expected[i] * expected[i];
    }
    return std::sqrt(error / size);
}

TEST(Copy, EncodesPlainRowsOfAnyPitchAsBlocks) {
    for (const Type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K,
                            GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS}) {
        for (const Type from : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
            SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(type));
            Workbench bench;
            const std::int64_t block = block_size(type);
            Tensor* whole = bench.random(from, {2 * block + 5, 4, 3, 1});
            Tensor* x = bench.permuted(bench.slice(whole, {3, 0, 1, 0}, {2 * block, 4, 2, 1}),
                                       {0, 2, 1, 3});
            const std::vector<double> expected = values_of(*x);
            for (Tensor* y : {bench.tensor(type, {4 * block, 2, 2, 1}),
                              bench.slice(bench.tensor(type, {3 * block, 3, 4, 1}), {0, 1, 0, 0},
                                          {2 * block, 2, 4, 1})}) {
                const Tensor& node = *copy_into(bench, x, y);
                // Half a step of 16 levels between -1 and 1, against values of 0.6 on average.
                run_afresh(bench, node, [&] { ASSERT_LT(relative_error(node, expected), 0.12); });
            }
        }
    }
}

TEST(Copy, DeclinesWhatItCannotConvert) {
    Workbench bench;
    const auto refusal = [&](Tensor* x, Tensor* y) {
        return objection_to(*copy_into(bench, x, y));
    };
    const Extents extent{256, 2, 1, 1};
    Tensor* f32 = bench.tensor(GGML_TYPE_F32, extent);
    const std::string no_conversion =
        "there is no conversion from the type of x to that of the result";
    for (const Type type : {GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
                            GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S, GGML_TYPE_I64}) {
        EXPECT_EQ(refusal(f32, bench.tensor(type, extent)), no_conversion) << name_of(type);
    }
    Tensor* blocks = bench.tensor(GGML_TYPE_Q4_0, extent);
    EXPECT_EQ(refusal(blocks, bench.tensor(GGML_TYPE_F16, extent)), no_conversion);
    EXPECT_EQ(refusal(blocks, bench.tensor(GGML_TYPE_Q8_0, extent)), no_conversion);
    EXPECT_EQ(
        refusal(bench.permuted(bench.tensor(GGML_TYPE_F32, {2, 256, 1, 1}), {1, 0, 2, 3}), blocks),
        "rows of x are not dense and whole blocks of the result");
    Tensor* narrow = bench.slice(bench.tensor(GGML_TYPE_F32, {20, 32, 1, 1}), {}, {16, 32, 1, 1});
    EXPECT_EQ(refusal(blocks, narrow), "rows of the result are not dense and whole blocks of x");
    EXPECT_EQ(refusal(narrow, blocks), "rows of x are not dense and whole blocks of the result");
}

}  // namespace
}  // namespace heddle::cpu
