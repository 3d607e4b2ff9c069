#include "text_comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace heddle::tool {
namespace {

constexpr std::size_t kWords = 400, kTokens = 300;

/// Logits with a few that stand out, and the same with noise of that size in them.
class Texts {
public:
    Texts() {
        std::normal_distribution<float> normal;
        for (auto& logits : right_) {
            logits.resize(kWords);
            for (float& logit : logits) logit = normal(random_);
        }
    }
    TextReading read(std::string name, float noise) {
        std::normal_distribution<float> normal(0, noise);
        TextReading reading{std::move(name)};
        for (const auto& right : right_) {
            std::vector<float> logits = right;
            if (noise > 0) {
                for (float& logit : logits) logit += normal(random_);
            }
            reading.steps.push_back(TokenStep::of(right, logits));
        }
        return reading;
    }
    /// As the instruction sets of a processor read.
    std::vector<TextReading> sets(float noise) {
        return {read("AVX2", noise), read("SSE4", noise), read("SCALAR", noise)};
    }

private:
    std::mt19937 random_{3};
    std::vector<std::vector<float>> right_{kTokens};
};

TEST(TextComparison, AStepSaysWhatEitherWouldChooseAndByHowMuch) {
    const std::vector<float> right{1, 5, 3, -1}, logits{1, 4, 4.5f, -1};
    const TokenStep step = TokenStep::of(right, logits);
    EXPECT_EQ(step.trusted, 1u);
    EXPECT_EQ(step.tested, 2u);
    EXPECT_DOUBLE_EQ(step.gap, 2);
    EXPECT_DOUBLE_EQ(step.sway, -2.5);
    EXPECT_DOUBLE_EQ(step.lead, 2);
    EXPECT_DOUBLE_EQ(step.largest, 1.5);
    EXPECT_DOUBLE_EQ(step.error, std::sqrt((1 + 2.25) / 4));
    EXPECT_DOUBLE_EQ(step.spread, std::sqrt(5.0));
}

TEST(TextComparison, PassesWhatRoundsAsTheInstructionSetsDo) {
    Texts texts;
    const TextComparison comparison(texts.read("GPU", 0.03f), texts.sets(0.03f));
    EXPECT_GT(comparison.tested().departures(), 0u);
    EXPECT_EQ(comparison.wrong(), 0u);
    EXPECT_TRUE(comparison.has_passed());
}

TEST(TextComparison, RefusesLogitsThatAreTwiceAsFarOff) {
    Texts texts;
    const TextComparison comparison(texts.read("GPU", 0.06f), texts.sets(0.03f));
    EXPECT_GT(comparison.tested().error(), comparison.most_error());
    EXPECT_FALSE(comparison.has_passed());
}

TEST(TextComparison, RefusesATokenThatLedByMoreThanRoundingMoves) {
    Texts texts;
    TextReading tested = texts.read("GPU", 0.03f);
    TokenStep& step = tested.steps[7];
    step.tested = step.trusted + 1;
    step.lead = 0.2 * step.spread;
    const TextComparison comparison(std::move(tested), texts.sets(0.03f));
    EXPECT_EQ(comparison.wrong(), 1u);
    EXPECT_FALSE(comparison.has_passed());
}

TEST(TextComparison, RefusesMoreDeparturesThanChanceExplainsThoughEachIsATie) {
    Texts texts;
    TextReading tested = texts.read("GPU", 0.03f);
    for (std::size_t i = 0; i < kTokens / 4; ++i) {
        tested.steps[i].tested = tested.steps[i].trusted + 1;
        tested.steps[i].lead = 0;
    }
    const TextComparison comparison(std::move(tested), texts.sets(0.03f));
    EXPECT_EQ(comparison.wrong(), 0u);
    EXPECT_GT(static_cast<double>(comparison.tested().departures()), comparison.most_departures());
    EXPECT_FALSE(comparison.has_passed());
}

TEST(TextComparison, WhereSumsAreExactOnlyNearTiesMayDiffer) {
    Texts texts;
    const TextComparison alike(texts.read("GPU", 1e-5f), texts.sets(0));
    EXPECT_TRUE(alike.has_passed());
    const TextComparison other(texts.read("GPU", 0.01f), texts.sets(0));
    EXPECT_FALSE(other.has_passed());
}

}  // namespace
}  // namespace heddle::tool
