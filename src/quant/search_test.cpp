#include "quant/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

namespace heddle::quant {
namespace {

std::vector<float> noise(std::size_t n, float low, float high, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(low, high);
    std::vector<float> values(n);
    for (float& value : values) value = uniform(random);
    return values;
}

/// Weighted squared error of scale * (code - zero) + low.
double loss(std::span<const float> x, std::span<const float> weights,
            std::span<const std::uint8_t> codes, double scale, double low, int zero) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
        sum += weights[i] * std::pow(scale * (codes[i] - zero) + low - x[i], 2);
    return sum;
}

/// Of one group.
Affine search_line(std::span<const float> x, std::span<const float> weights, int max_code,
                   std::span<std::uint8_t> codes) {
    Affine found;
    search_affine(x, weights, x.size(), max_code, kFineTrials, codes, {&found, 1});
    return found;
}

constexpr std::array<float, 16> kEven{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

TEST(Search, ExtremeKeepsItsSignAndTheFirstOfEquals) {
    EXPECT_EQ(extreme_of(std::array{1.0f, -3.0f, 3.0f}), -3.0f);
    EXPECT_EQ(extreme_of(std::array{0.0f, -0.0f}), 0.0f);
    EXPECT_EQ(extreme_of({}), 0.0f);
    EXPECT_EQ(extreme_of(std::array{1.0f, NAN, -2.0f}), -2.0f);
}

TEST(Search, SymmetricFindsValuesThatAreCodes) {
    std::vector<float> x;
    for (int code = -4; code < 4; ++code) x.push_back(0.25f * static_cast<float>(code));
    std::array<std::uint8_t, 8> codes;
    EXPECT_EQ(search_symmetric(x, {}, 4, codes), 0.25f);
    for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i);
    EXPECT_EQ(refine_symmetric(x, 4, codes), 0.25f);
    for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i);
}

TEST(Search, SymmetricIsNoWorseThanTheFirstGuess) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto x = noise(16, -1, 1, seed);
        std::array<std::uint8_t, 16> codes, guess;
        const float scale = search_symmetric(x, kEven, 8, codes);
        const float step = extreme_of(x) / -8;
        for (std::size_t i = 0; i < x.size(); ++i)
            guess[i] = static_cast<std::uint8_t>(std::clamp(std::lround(x[i] / step), -8l, 7l) + 8);
        EXPECT_LE(loss(x, kEven, codes, scale, 0, 8),
                  loss(x, kEven, guess, step, 0, 8) + 1e-6);  // sums in single precision
    }
}

TEST(Search, AffineFindsValuesThatAreCodes) {
    std::vector<float> x;
    for (int code = 0; code < 16; ++code) x.push_back(0.5f * static_cast<float>(code) - 2);
    std::array<std::uint8_t, 16> codes;
    const Affine line = search_line(x, kEven, 15, codes);
    EXPECT_EQ(line.scale, 0.5f);
    EXPECT_EQ(line.minimum, 2.0f);
    for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], i);
}

TEST(Search, AffineMinimumIsNeverNegative) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        std::array<std::uint8_t, 16> codes;
        const Affine line = search_line(noise(16, 1, 2, seed), kEven, 15, codes);
        EXPECT_GE(line.minimum, 0.0f);
        EXPECT_GT(line.scale, 0.0f);
    }
}

/// Every number of groups, also of zeros and of one value.
TEST(Search, GroupsAreFoundAsIfAlone) {
    constexpr std::size_t kSize = 32, kMost = 9;
    auto x = noise(kSize * kMost, -1, 1, 1);
    const auto weights = noise(kSize * kMost, 0.1f, 1, 2);
    std::fill_n(x.begin() + 2 * kSize, kSize, 0.0f);
    std::fill_n(x.begin() + 5 * kSize, kSize, -0.25f);
    for (std::size_t groups = 1; groups <= kMost; ++groups) {
        const auto values = std::span(x).first(kSize * groups);
        const auto weighted = std::span(weights).first(kSize * groups);
        std::vector<std::uint8_t> symmetric(kSize * groups, 99), affine = symmetric;
        std::vector<float> scales(groups, 7);
        std::vector<Affine> lines(groups, {7, 7});
        search_symmetric(values, weighted, kSize, 8, symmetric, scales);
        search_affine(values, weighted, kSize, 15, kFineTrials, affine, lines);
        for (std::size_t i = 0; i < groups; ++i) {
            const auto part = [&](auto& all) { return std::span(all).subspan(kSize * i, kSize); };
            std::array<std::uint8_t, kSize> codes;
            EXPECT_EQ(search_symmetric(part(x), part(weights), 8, codes), scales[i]);
            EXPECT_TRUE(std::ranges::equal(codes, part(symmetric))) << i << " of " << groups;
            const Affine alone = search_line(part(x), part(weights), 15, codes);
            EXPECT_EQ(alone.scale, lines[i].scale);
            EXPECT_EQ(alone.minimum, lines[i].minimum);
            EXPECT_TRUE(std::ranges::equal(codes, part(affine))) << i << " of " << groups;
        }
    }
}

TEST(Search, RangesTooSmallToDivideByHaveCodesOfZero) {
    std::array<float, 16> x{};
    x[3] = 1e-38f;
    std::array<std::uint8_t, 16> codes;
    codes.fill(9);
    EXPECT_EQ(search_line(x, kEven, 15, codes).scale, 0);
    EXPECT_EQ(codes, (std::array<std::uint8_t, 16>{}));
}

TEST(Search, PositiveIsNoWorseThanTheFirstGuess) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto x = noise(16, 0, 1, seed);
        std::array<std::uint8_t, 16> codes, guess;
        const float scale = search_positive(x, kEven, 15, codes);
        const float step = extreme_of(x) / 15;
        for (std::size_t i = 0; i < x.size(); ++i)
            guess[i] = static_cast<std::uint8_t>(std::lround(x[i] / step));
        EXPECT_LE(loss(x, kEven, codes, scale, 0, 0), loss(x, kEven, guess, step, 0, 0) + 1e-6);
    }
}

TEST(Search, ZerosGetScaleZero) {
    const std::array<float, 16> zeros{};
    std::array<std::uint8_t, 16> codes;
    const auto all_zero = [&] { return codes == std::array<std::uint8_t, 16>{}; };
    codes.fill(9);
    EXPECT_TRUE(search_symmetric(zeros, kEven, 8, codes) == 0 && all_zero());
    codes.fill(9);
    EXPECT_TRUE(refine_symmetric(zeros, 4, codes) == 0 && all_zero());
    codes.fill(9);
    EXPECT_TRUE(search_line(zeros, kEven, 15, codes).scale == 0 && all_zero());
    codes.fill(9);
    EXPECT_TRUE(search_positive(zeros, kEven, 15, codes) == 0 && all_zero());
}

}  // namespace
}  // namespace heddle::quant
