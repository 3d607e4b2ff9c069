#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quant/codebooks.hpp"
#include "quant/codec.hpp"
#include "quant/neighbours.hpp"

namespace heddle::quant {
namespace {

constexpr std::array kGridTypes{GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS, GGML_TYPE_IQ2_S,
                                GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S,  GGML_TYPE_IQ1_S,
                                GGML_TYPE_IQ1_M};

std::string name_of_param(const testing::TestParamInfo<Type>& info) {
    return std::string(name_of(info.param));
}

/// A wave with values of both signs and many magnitudes.
std::vector<float> wave(std::int64_t n) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(0.1 + 2 * std::cos(static_cast<float>(i)));
    }
    return x;
}

std::vector<std::byte> encoded(Type type, const std::vector<float>& x, const float* importance) {
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<std::byte> blocks(row_size(type, n));
    codec_of(type)->encode_row(x.data(), blocks.data(), n, importance);
    return blocks;
}

std::vector<float> decoded(Type type, const std::vector<std::byte>& blocks, std::size_t n) {
    std::vector<float> y(n);
    codec_of(type)->decode(blocks.data(), y.data(), static_cast<std::int64_t>(n));
    return y;
}

// ---- codebooks
// -----------------------------------------------------------------------------------

struct Shape {
    std::size_t rows;
    int elements, levels;
    std::uint64_t sum;  ///< of the rows' codes packed into 2 bits (of 3 levels) or 3 bits (of 8)
};

const std::map<Type, Shape> kShapes{
    {GGML_TYPE_IQ2_XXS, {256, 8, 3, 3697703}}, {GGML_TYPE_IQ2_XS, {512, 8, 3, 8004683}},
    {GGML_TYPE_IQ2_S, {1024, 8, 3, 16519059}}, {GGML_TYPE_IQ3_XXS, {256, 4, 8, 391138}},
    {GGML_TYPE_IQ3_S, {512, 4, 8, 777331}},    {GGML_TYPE_IQ1_S, {2048, 8, 3, 44428132}},
    {GGML_TYPE_IQ1_M, {2048, 8, 3, 44428132}},
};

class GridCodebook : public testing::TestWithParam<Type> {};

TEST_P(GridCodebook, HasItsShapeAndAscendingRows) {
    const Shape& shape = kShapes.at(GetParam());
    const Codebook& book = codebook_of(GetParam());
    EXPECT_EQ(book.rows(), shape.rows);
    EXPECT_EQ(book.elements, shape.elements);
    EXPECT_EQ(book.levels, shape.levels);
    EXPECT_LT(book.points.back(), book.space());
    EXPECT_EQ(std::adjacent_find(book.points.begin(), book.points.end(), std::greater_equal<>()),
              book.points.end());

    std::uint64_t sum = 0;
    for (std::size_t row = 0; row < book.rows(); ++row) {
        std::size_t point = 0;
        for (int j = book.elements - 1; j >= 0; --j) {
            const auto code = static_cast<std::size_t>(book.codes_of(row)[j]);
            point = point * static_cast<std::size_t>(book.levels) + code;
            sum += code << ((book.levels == 3 ? 2 : 3) * j);
        }
        EXPECT_EQ(point, book.points[row]) << "row " << row;
    }
    EXPECT_EQ(sum, shape.sum);
}

TEST_P(GridCodebook, ValuesRiseWithTheirCodes) {
    const Codebook& book = codebook_of(GetParam());
    std::map<int, int> value_of;  // of a code
    for (std::size_t i = 0; i < book.codes.size(); ++i) {
        const auto [known, is_new] = value_of.emplace(book.codes[i], book.values[i]);
        EXPECT_EQ(known->second, book.values[i]);
    }
    EXPECT_EQ(value_of.size(), static_cast<std::size_t>(book.levels));
    int last = -2;
    for (const auto& [code, value] : value_of) {
        EXPECT_LT(last, value);
        last = value;
    }
}

INSTANTIATE_TEST_SUITE_P(EveryType, GridCodebook, testing::ValuesIn(kGridTypes), name_of_param);

TEST(GridCodebooks, AreEmptyForOtherTypes) {
    EXPECT_EQ(codebook_of(GGML_TYPE_F32).rows(), 0u);
    EXPECT_EQ(neighbours_of(GGML_TYPE_Q4_K), nullptr);
}

TEST(GridCodebooks, TheEighthSignMakesTheirNumberEven) {
    for (unsigned stored = 0; stored < 128; ++stored) {
        EXPECT_EQ(even_signs(stored) & 127u, stored);
        EXPECT_EQ(std::popcount(even_signs(stored)) % 2, 0);
        EXPECT_EQ(even_signs(stored | 384u), even_signs(stored)) << "higher bits are others'";
    }
}

// ---- neighbours
// ----------------------------------------------------------------------------------

/// The definition: all rows by distance and index, up to the last of so many distances.
std::vector<std::uint16_t> nearest_rows(const Codebook& book, std::size_t point, int shells) {
    std::vector<std::pair<int, std::uint16_t>> all;
    for (std::size_t row = 0; row < book.rows(); ++row) {
        int distance = 0;
        std::size_t rest = point;
        for (int j = 0; j < book.elements; ++j, rest /= static_cast<std::size_t>(book.levels)) {
            const int code = static_cast<int>(rest % static_cast<std::size_t>(book.levels));
            const int step = 2 * (book.codes_of(row)[j] - code);
            distance += step * step;
        }
        all.emplace_back(distance, static_cast<std::uint16_t>(row));
    }
    std::sort(all.begin(), all.end());
    std::vector<std::uint16_t> near;
    int last = -1;
    for (const auto& [distance, row] : all) {
        if (distance != last && shells-- == 0) break;
        last = distance;
        near.push_back(row);
    }
    return near;
}

class GridNeighbours : public testing::TestWithParam<Type> {};

TEST_P(GridNeighbours, AreThoseOfTheDefinition) {
    const std::map<Type, int> shells{
        {GGML_TYPE_IQ2_XXS, 2}, {GGML_TYPE_IQ2_XS, 2}, {GGML_TYPE_IQ2_S, 1}, {GGML_TYPE_IQ3_XXS, 2},
        {GGML_TYPE_IQ3_S, 3},   {GGML_TYPE_IQ1_S, 3},  {GGML_TYPE_IQ1_M, 3}};
    const Codebook& book = codebook_of(GetParam());
    const auto neighbours = neighbours_of(GetParam());
    for (std::size_t point = 0; point < book.space(); point += 37) {
        const auto row = std::find(book.points.begin(), book.points.end(), point);
        const auto near = neighbours->near(point);
        if (row != book.points.end()) {
            EXPECT_EQ(neighbours->row_of(point), row - book.points.begin());
            EXPECT_TRUE(near.empty());
            continue;
        }
        EXPECT_EQ(neighbours->row_of(point), -1);
        EXPECT_EQ(std::vector(near.begin(), near.end()),
                  nearest_rows(book, point, shells.at(GetParam())))
            << "point " << point;
    }
}

INSTANTIATE_TEST_SUITE_P(EveryType, GridNeighbours, testing::ValuesIn(kGridTypes), name_of_param);

TEST(GridNeighbourTables, AreSharedAndOutliveTheirDropping) {
    const auto kept = neighbours_of(GGML_TYPE_IQ1_S);
    EXPECT_EQ(kept, neighbours_of(GGML_TYPE_IQ1_M)) << "both have the same codebook";
    drop_search_tables();
    EXPECT_EQ(kept->row_of(codebook_of(GGML_TYPE_IQ1_S).points[5]), 5);
    prepare_search(GGML_TYPE_IQ1_M);
    EXPECT_NE(kept, neighbours_of(GGML_TYPE_IQ1_S)) << "built anew";
}

// ---- encoders
// ------------------------------------------------------------------------------------

class GridEncoder : public testing::TestWithParam<Type> {};

TEST_P(GridEncoder, LosesAsMuchAsItShould) {
    // sqrt(sum of squared errors) / n. An importance of one is given where there is no plain
    // encoder. These are the levels that the formats' search rules reach on this wave, to six
    // places.
    const std::map<Type, double> expected{
        {GGML_TYPE_IQ2_XXS, 0.007414}, {GGML_TYPE_IQ2_XS, 0.006511}, {GGML_TYPE_IQ2_S, 0.005306},
        {GGML_TYPE_IQ3_XXS, 0.004345}, {GGML_TYPE_IQ3_S, 0.003118},  {GGML_TYPE_IQ1_S, 0.009760},
        {GGML_TYPE_IQ1_M, 0.009437}};
    const Type type = GetParam();
    const std::vector<float> x = wave(4096), ones(x.size(), 1.0f);
    const bool has_plain = codec_of(type)->encode != nullptr;
    const auto blocks = encoded(type, x, has_plain ? nullptr : ones.data());
    const std::vector<float> y = decoded(type, blocks, x.size());
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::pow(double{x[i]} - double{y[i]}, 2);
    EXPECT_NEAR(std::sqrt(sum) / 4096, expected.at(type), 0.6e-6);
}

TEST_P(GridEncoder, GivesTheSameBytesOnManyThreadsWhileTablesAreDropped) {
    const Type type = GetParam();
    const std::vector<float> x = wave(2048), ones(x.size(), 1.0f);
    const auto expected = encoded(type, x, ones.data());
    drop_search_tables();
    std::array<int, 4> wrong{};
    std::vector<std::thread> threads;
    for (int& count : wrong) {
        threads.emplace_back([&] {
            for (int i = 0; i < 5; ++i) count += encoded(type, x, ones.data()) != expected ? 1 : 0;
        });
    }
    for (int i = 0; i < 20; ++i) drop_search_tables(), std::this_thread::yield();
    for (std::thread& thread : threads) thread.join();
    for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST_P(GridEncoder, MakesZeroBytesOfZeros) {
    const std::vector<float> zeros(512, 0.0f), ones(512, 1.0f);
    for (const float* importance : {ones.data(), static_cast<const float*>(nullptr)}) {
        const auto blocks = encoded(GetParam(), zeros, importance);
        EXPECT_TRUE(std::all_of(blocks.begin(), blocks.end(),
                                [](std::byte byte) { return byte == std::byte{0}; }));
    }
}

TEST_P(GridEncoder, KeepsZerosBesideOtherValuesSmall) {
    std::vector<float> x = wave(256);
    std::fill(x.begin(), x.begin() + 32, 0.0f);
    const std::vector<float> ones(x.size(), 1.0f);
    const std::vector<float> y = decoded(GetParam(), encoded(GetParam(), x, ones.data()), x.size());
    for (int i = 0; i < 32; ++i) EXPECT_LT(std::abs(y[static_cast<std::size_t>(i)]), 0.25f);
}

TEST_P(GridEncoder, EncodesBlocksAtAnyAddress) {
    const Type type = GetParam();
    const std::vector<float> x = wave(512), ones(x.size(), 1.0f);
    const auto expected = encoded(type, x, ones.data());
    std::vector<std::byte> shifted(expected.size() + 2, std::byte{0xa5});
    codec_of(type)->encode_row(x.data(), shifted.data() + 1, 512, ones.data());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), shifted.begin() + 1));
    EXPECT_EQ(shifted.front(), std::byte{0xa5});
    EXPECT_EQ(shifted.back(), std::byte{0xa5});

    std::vector<float> y(x.size());
    codec_of(type)->decode(shifted.data() + 1, y.data(), 512);
    EXPECT_EQ(y, decoded(type, expected, x.size()));
}

TEST_P(GridEncoder, SurvivesValuesThatAreNoNumbersOrMatterNothing) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float odd : {std::nanf(""), kInfinity, -kInfinity, 3e38f, 1e-45f}) {
        for (const std::size_t stride : {std::size_t{1}, std::size_t{7}, std::size_t{256}}) {
            std::vector<float> x = wave(256);
            for (std::size_t i = 0; i < x.size(); i += stride) x[i] = odd;
            const std::vector<float> zeros(x.size(), 0.0f);
            // Whatever the bytes are, they decode without reading past a codebook.
            decoded(GetParam(), encoded(GetParam(), x, nullptr), x.size());
            decoded(GetParam(), encoded(GetParam(), x, zeros.data()), x.size());
        }
    }
}

TEST_P(GridEncoder, FindsBlocksWhoseScaleIsNotFinite) {
    const Type type = GetParam();
    std::vector<std::byte> blocks(3 * size_of(type));
    EXPECT_EQ(codec_of(type)->first_bad_block(blocks.data(), 3), -1);
    std::byte* last = blocks.data() + 2 * size_of(type);
    if (type == GGML_TYPE_IQ1_M) {
        last[53] = std::byte{0xc0};  // top nibbles of the words at 48, 50, 52, 54: 0x7c00
        last[55] = std::byte{0x70};
    } else {
        last[1] = std::byte{0x7c};  // infinity
    }
    EXPECT_EQ(codec_of(type)->first_bad_block(blocks.data(), 3), 2);
}

TEST_P(GridEncoder, IsRefusedWithoutTheImportanceItNeeds) {
    const Type type = GetParam();
    const std::vector<float> x = wave(256);
    std::vector<std::byte> blocks(size_of(type));
    const Result<> result = encode_rows(type, x.data(), blocks.data(), 1, 256, nullptr);
    const bool needs =
        type == GGML_TYPE_IQ2_XXS || type == GGML_TYPE_IQ2_XS || type == GGML_TYPE_IQ1_S;
    EXPECT_EQ(result.has_value(), !needs);
    if (needs) {
        EXPECT_NE(result.error().message.find(name_of(type)), std::string::npos);
        EXPECT_EQ(blocks, std::vector<std::byte>(size_of(type))) << "nothing was written";
    }
    EXPECT_FALSE(encode_rows(type, x.data(), blocks.data(), 1, 128, x.data()).has_value());
}

INSTANTIATE_TEST_SUITE_P(EveryType, GridEncoder, testing::ValuesIn(kGridTypes), name_of_param);

}  // namespace
}  // namespace heddle::quant
