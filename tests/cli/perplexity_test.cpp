#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model_test.hpp"

/// How well models predict texts.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Perplexity : public ModelTest {
protected:
    /// What the program tells of the file `text`.
    json told_of(const std::string& model, const Words& more) const {
        Words words{"perplexity", model, path("text"), "--json"};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    }
};

TEST_F(Perplexity, AModelThatKnowsNothingIsAsPerplexedAsItsVocabularyIsLarge) {
    const std::string even = path("even.gguf");
    copy_changed(model_, even, [](gguf_context* file, ggml_context*) {
        // Without its last norm every logit is 0, and all tokens are as likely.
        static constexpr float kZeros[SmallModel::kWidth] = {};
        gguf_set_tensor_data(file, "output_norm.weight", kZeros);
    });
    write_content(path("text"), std::string(300, 'a') + "bcd" + std::string(300, 'e'));
    const json told = told_of(even, {});
    EXPECT_NEAR(told["perplexity"].get<double>(), 259, 1e-3) << "three tokens and 256 bytes";
    EXPECT_NEAR(told["standard_error"].get<double>(), 0, 1e-3);
    EXPECT_EQ(told["window_tokens"], SmallModel::kContext);
    EXPECT_EQ(told["tokens"], told["windows"].get<int>() * SmallModel::kContext / 2);
}

TEST_F(Perplexity, PerplexityIsTheSameHoweverTheTextIsRead) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + i * i % 26);
    const auto perplexity = [&](const Words& more) {
        return told_of(model_, more)["perplexity"].get<double>();
    };
    write_content(path("text"), text);
    const double whole = perplexity({});
    EXPECT_GT(whole, 1);
    for (const char* batch : {"1", "7", "32"}) {
        EXPECT_NEAR(perplexity({"--batch", batch}), whole, 1e-3 * whole) << batch;
    }
    EXPECT_NEAR(perplexity({"-d", "sim:devices=2"}), whole, 1e-3 * whole);
    const Outcome piped = heddle({"perplexity", model_, "-"}, text);
    EXPECT_THAT(piped.out, testing::ContainsRegex("^perplexity [0-9.]+ ± [0-9.]+: [0-9]+ tokens"));
    const Outcome brief = heddle({"perplexity", model_, "-"}, "");
    EXPECT_EQ(brief.status, 1);
    EXPECT_THAT(brief.err, HasSubstr("tokens; at least 4 are needed"));
}

}  // namespace
}  // namespace heddle::cli_test
