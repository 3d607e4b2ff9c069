#include "model/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace heddle::tool {
namespace {

/// How often each token is chosen.
std::map<Token, int> counts(const Sampler::Options& options, const std::vector<float>& logits,
                            int times) {
    Sampler sampler(options);
    std::map<Token, int> chosen;
    for (int i = 0; i < times; ++i) ++chosen[sampler.choose(logits)];
    return chosen;
}

const Sampler::Options kFree{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 3};

TEST(Sampler, TakesTheLikeliestWithoutTemperature) {
    EXPECT_EQ(counts({.temperature = 0}, {1, 5, 3, 5}, 10), (std::map<Token, int>{{1, 10}}));
}

TEST(Sampler, DrawsByProbability) {
    // Logarithms of 1, 2 and 5 parts of 8.
    const auto chosen = counts(kFree, {0, std::log(2.0f), std::log(5.0f)}, 8000);
    // Three standard deviations are about 130.
    EXPECT_NEAR(chosen.at(0), 1000, 130);
    EXPECT_NEAR(chosen.at(1), 2000, 130);
    EXPECT_NEAR(chosen.at(2), 5000, 130);
}

TEST(Sampler, LeavesOutTheUnlikely) {
    const std::vector<float> logits{0, std::log(2.0f), std::log(5.0f)};
    Sampler::Options options = kFree;
    options.top_k = 2;
    EXPECT_FALSE(counts(options, logits, 500).contains(0));
    options = kFree;
    options.top_p = 0.6f;  // the likeliest alone has more
    EXPECT_EQ(counts(options, logits, 500).size(), 1u);
    options = kFree;
    options.min_p = 0.3f;  // the middle has 2/5 of the likeliest, the last 1/5
    EXPECT_EQ(counts(options, logits, 500).size(), 2u);
    options = {.temperature = 1, .top_k = 1, .top_p = 0, .min_p = 1, .seed = 0};
    EXPECT_EQ(counts(options, logits, 20), (std::map<Token, int>{{2, 20}})) << "one always stays";
}

TEST(Sampler, WhatWasSaidLatelyIsLessLikely) {
    Sampler::Options options{.temperature = 0, .repeat_penalty = 2};
    EXPECT_EQ(Sampler(options).choose(std::vector<float>{5, 3, -1}, std::vector<Token>{0, 0}), 1);
    EXPECT_EQ(Sampler(options).choose(std::vector<float>{-1, -3, -5}, std::vector<Token>{0}), 0)
        << "-2 is still the likeliest";
    options.repeat_penalty = 4;
    EXPECT_EQ(Sampler(options).choose(std::vector<float>{-1, -3, -5}, std::vector<Token>{0}), 1);
    // Long ago does not count.
    std::vector<Token> said(Sampler::kRecent + 1, 2);
    said.front() = 0;
    EXPECT_EQ(Sampler(options).choose(std::vector<float>{5, 4, 1}, said), 0);
}

TEST(Sampler, TheSameSeedDrawsTheSame) {
    const std::vector<float> logits(50, 1.0f);
    Sampler one(kFree), two(kFree);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(one.choose(logits), two.choose(logits));
}

}  // namespace
}  // namespace heddle::tool
