#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "ggml-cpp.h"
#include "gguf.h"
#include "model_test.hpp"

/// Commands that read long texts: how well a model predicts one, and which weights matter for it.
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
    EXPECT_THAT(brief.err,
                HasSubstr("at least 4 tokens are needed; the text has 1, the context room for 64"));
}

/// Sums of squares of one weight, by column, over the number of tokens.
class Importance : public ModelTest {
protected:
    std::vector<float> of(const std::string& weight, const Words& more = {}) const {
        const std::string file = path("importance.gguf");
        Words words{"imatrix", model_, path("text"), file};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_THAT(outcome.out, HasSubstr("importance.gguf: importance of 15 weights from "));
        ggml_context* tensors = nullptr;
        const gguf_context_ptr read(
            gguf_init_from_file(file.c_str(), {.no_alloc = false, .ctx = &tensors}));
        const ggml_context_ptr owner(tensors);
        const ggml_tensor* sums = ggml_get_tensor(tensors, (weight + ".in_sum2").c_str());
        const ggml_tensor* counts = ggml_get_tensor(tensors, (weight + ".counts").c_str());
        if (sums == nullptr || counts == nullptr) {
            ADD_FAILURE() << weight << " is not there";
            return {};
        }
        std::vector<float> mean;
        for (std::int64_t i = 0; i < sums->ne[0]; ++i) {
            mean.push_back(static_cast<const float*>(sums->data)[i] /
                           *static_cast<const float*>(counts->data));
        }
        return mean;
    }
};

TEST_F(Importance, IsTheMeanSquareOfWhatAWeightIsMultipliedWith) {
    write_content(path("text"), std::string(500, 'x'));
    const auto query = of("blk.0.attn_q.weight");
    ASSERT_EQ(query.size(), static_cast<std::size_t>(SmallModel::kWidth));
    EXPECT_EQ(query, of("blk.0.attn_k.weight")) << "both are multiplied with the same";
    // What goes in is a norm: its mean square is 1, but for the norm's own weights, which are 1.
    double sum = 0;
    for (const float each : query) sum += each;
    EXPECT_NEAR(sum / SmallModel::kWidth, 1, 0.01);
    const auto batches = of("blk.1.ffn_down.weight", {"--batch", "7"});
    const auto whole = of("blk.1.ffn_down.weight");
    for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_NEAR(batches[i], whole[i], 1e-3f * std::abs(whole[i]) + 1e-9f) << i;
    }
    write_content(path("text"), std::string(500, 'y'));
    EXPECT_NE(of("blk.0.attn_q.weight"), query) << "another text, other weights";
}

TEST_F(ShippedModelTest, ImportanceMakesTheSmallestTypesPossibleAndOthersBetter) {
    const Directory directory;
    const std::string text = HEDDLE_SHIPPED "/../docs/heddle.md",
                      weights = directory.path("importance.gguf");
    ASSERT_EQ(heddle({"imatrix", kTales, text, weights}).status, 0);
    const auto perplexity = [&](const char* type, const Words& more) {
        const std::string smaller = directory.path("smaller.gguf");
        Words words{"quantize", kTales, smaller, type};
        words.insert(words.end(), more.begin(), more.end());
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(heddle({"perplexity", smaller, text, "--json"}).out)["perplexity"]
            .get<double>();
    };
    EXPECT_LT(perplexity("Q2_K", {"--imatrix", weights}), perplexity("Q2_K", {}));
    EXPECT_GT(perplexity("IQ2_XXS", {"--imatrix", weights}), 1);
    const Outcome refused = heddle({"imatrix", kTales, text, "/no/such/folder/file"});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("/no/such/folder/file: cannot be written"));
}

}  // namespace
}  // namespace heddle::cli_test
