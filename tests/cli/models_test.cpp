#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model_test.hpp"

/// Real models: the one that ships, and those that lie beside the checkout or where HEDDLE_DATA
/// says.
namespace heddle::cli_test {
namespace {

using nlohmann::json;

std::string data_directory() {
    const char* named = std::getenv("HEDDLE_DATA");
    return named != nullptr ? named : HEDDLE_DATA_NEIGHBOUR;
}

json run_greedily(const std::string& model, const std::string& prompt, int tokens,
                  std::vector<std::string> more = {}) {
    std::vector<std::string> words{
        "run", model, "-p", prompt, "-n", std::to_string(tokens), "--temperature", "0", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = heddle(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
}

/// It is a plug-in that is loaded on request, where it was built.
bool has_blas() { return heddle({"devices", "-v"}).out.find("\nblas ") != std::string::npos; }

class ShippedModel : public ShippedModelTest {};

/// Long enough for BLAS to take its products.
const std::string kLongPrompt =
    "Once upon a time there was a king who had three daughters, and the youngest was so fair that "
    "the sun himself, who has seen so many things, wondered each time he shone upon her face. One "
    "day";

TEST_F(ShippedModel, SaysTheSameOnEveryDevice) {
    // With F32 weights devices differ in the order of additions only, which decides no word.
    const Directory directory;
    const std::string model = directory.path("f32.gguf");
    ASSERT_EQ(heddle({"quantize", kTales, model, "F32"}).status, 0);
    const json alone = run_greedily(model, kLongPrompt, 32, {"--device", "CPU"});
    ASSERT_EQ(alone["ids"].size(), 32u);
    for (const char* devices : {"CPU,BLAS", "sim:devices=2", "sim:devices=3,ops=all,-ROPE"}) {
        if (std::string(devices) == "CPU,BLAS" && !has_blas()) continue;
        const json other = run_greedily(model, kLongPrompt, 32, {"--device", devices});
        EXPECT_EQ(other["ids"], alone["ids"]) << devices;
        EXPECT_EQ(other["text"], alone["text"]) << devices;
    }
}

TEST_F(ShippedModel, SharesItsLayersBetweenTwoDevices) {
    const json shared = run_greedily(kTales, "Once", 1, {"--device", "sim:devices=2"});
    const std::vector<std::string> expected{"SIM0", "SIM0", "SIM0", "SIM0",
                                            "SIM1", "SIM1", "SIM1", "SIM1"};
    EXPECT_EQ(shared["placement"]["layers"], json(expected));
    EXPECT_EQ(shared["placement"]["output"], "SIM1");
}

TEST_F(ShippedModel, ReadsInPartsWhatItReadsAtOnce) {
    std::string prompt;
    for (int i = 0; i < 12; ++i) prompt += "The king went into the wood and met a fox. ";
    const json at_once = run_greedily(kTales, prompt, 16, {"--device", "CPU"});
    const json in_parts = run_greedily(kTales, prompt, 16, {"--device", "CPU", "--batch", "7"});
    EXPECT_EQ(at_once["ids"], in_parts["ids"]);
}

TEST_F(ShippedModel, SaysTheSamePlacedByCost) {
    const json by_rules = run_greedily(kTales, "Once upon a time", 16, {"--device", "CPU"});
    const json by_cost = run_greedily(kTales, "Once upon a time", 16,
                                      {"--device", "sim:devices=2", "--policy", "cost"});
    EXPECT_EQ(by_cost["ids"], by_rules["ids"]);
}

TEST_F(ShippedModel, DoesWithoutADeviceThatIsTooSmall) {
    const json alone = run_greedily(kTales, kLongPrompt, 4, {"--device", "CPU"});
    for (const char* device : {"sim:mem=1M", "sim:mem=4M", "sim:mem=9M", "sim:mem=16M"}) {
        EXPECT_EQ(run_greedily(kTales, kLongPrompt, 4, {"--device", device})["ids"], alone["ids"])
            << device;
    }
}

TEST_F(ShippedModel, HasItsNextTokensComparedOnTwoDevices) {
    const Outcome outcome = heddle({"verify", kTales, "--on", "sim", "--tokens", "6"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, testing::StartsWith("6 of 6 tokens are alike on sim and CPU; "));
    const auto all = nlohmann::json::parse(
        heddle({"verify", kTales, "--on", "sim", "--tokens", "6", "--json"}).out);
    EXPECT_TRUE(all["passed"].get<bool>());
    for (const auto& step : all["tokens"]) {
        EXPECT_EQ(step["trusted"], step["tested"]);
        EXPECT_GE(step["gap"].get<double>(), 0);
        EXPECT_EQ(step["largest"].get<double>(), 0);
    }
}

TEST_F(ShippedModel, HasSeveralTextsComparedAtOnce) {
    const auto all =
        nlohmann::json::parse(heddle({"verify", kTales, "--on", "sim", "--tokens", "3", "--batch",
                                      "2", "-p", "Tom", "-p", "Once upon a time", "--json"})
                                  .out);
    EXPECT_TRUE(all["passed"].get<bool>());
    ASSERT_EQ(all["tokens"].size(), 6u);
    EXPECT_EQ(all["tokens"][2]["text"], 0);
    EXPECT_EQ(all["tokens"][3]["text"], 1);
    EXPECT_EQ(all["tokens"][5]["token"], 2);
}

/// Some instruction sets multiply weights that are rearranged for them, others do not.
TEST_F(ShippedModel, HasTheTokensOfEveryTypeComparedWithOtherInstructionSets) {
    const Directory directory;
    for (const char* type : {"Q4_0", "Q4_K", "Q8_0"}) {
        const std::string model = directory.path(std::string(type) + ".gguf");
        ASSERT_EQ(heddle({"quantize", kTales, model, type}).status, 0);
        const Outcome outcome = heddle({"verify", model, "--on", "sim", "--tokens", "3"});
        EXPECT_EQ(outcome.err, "") << type;
        EXPECT_THAT(outcome.out, testing::HasSubstr(" of 3 tokens are alike on sim and CPU"));
    }
}

TEST_F(ShippedModel, KeepsToABudget) {
    const json half = run_greedily(kTales, "Once upon a time", 8,
                                   {"--device", "sim:devices=1", "--budget", "SIM0=14M"});
    const json alone = run_greedily(kTales, "Once upon a time", 8, {"--device", "CPU"});
    EXPECT_EQ(half["ids"], alone["ids"]);
    EXPECT_EQ(half["placement"]["layers"].front(), "CPU");
    EXPECT_EQ(half["placement"]["layers"].back(), "SIM0");
}

TEST_F(ShippedModel, SaysTheSameWhereDevicesDeclineItsAttention) {
    const json alone = run_greedily(kTales, kLongPrompt, 48, {"--device", "CPU"});
    const json other = run_greedily(kTales, kLongPrompt, 48,
                                    {"--device", "sim:devices=3,ops=all,-FLASH_ATTN_EXT"});
    EXPECT_EQ(other["ids"], alone["ids"]);
}

TEST_F(ShippedModel, CannotBecomeATypeThatNeedsItsImportance) {
    const Directory directory;
    const Outcome outcome = heddle({"quantize", kTales, directory.path("new.gguf"), "IQ2_XXS"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, testing::HasSubstr("needs its importance; give --imatrix"));
    EXPECT_THAT(directory.files(), testing::IsEmpty());
}

TEST_F(ShippedModel, TakesNoMoreMemoryThanItNeeds) {
#ifdef HEDDLE_SANITIZED
    GTEST_SKIP() << "sanitizers need memory of their own";
#endif
    const json need =
        json::parse(heddle({"explain", kTales, "--json", "--device", "CPU"}).out, nullptr, false);
    const std::size_t cache = need["memory"][0]["cache"];
    const Outcome outcome = heddle({"run", kTales, "-p", "Once upon a time", "-n", "32", "-q"});
    const std::size_t file = std::filesystem::file_size(kTales);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_LE(outcome.peak_bytes, file + cache + (64 << 20))
        << "file " << file << ", cache " << cache;
}

TEST_F(ShippedModel, IsExplainedWithoutBeingRead) {
#ifdef HEDDLE_SANITIZED
    GTEST_SKIP() << "sanitizers need memory of their own";
#endif
    // A gigabyte of cache and scores would be needed; nothing is taken.
    const Outcome outcome =
        heddle({"explain", kTales, "--context", "131072", "--tokens", "512", "--device", "CPU"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_LE(outcome.peak_bytes, std::size_t{96} << 20);
}

/// Files below the directory of data, and the one that ships.
class EveryModel : public testing::TestWithParam<std::string> {
protected:
    static std::string path() {
        return GetParam().starts_with('/') ? GetParam() : data_directory() + "/" + GetParam();
    }
    void SetUp() override {
        if (!std::filesystem::exists(path())) GTEST_SKIP() << path() << " is not there";
    }
};

TEST_P(EveryModel, SaysTheSameInItsOwnTypeOnEveryDevice) {
    std::vector<std::string> devices{"sim:devices=2"};
    if (has_blas()) devices.emplace_back("CPU,BLAS");
    for (const std::string& prompt : {std::string("Once upon a time"), kLongPrompt}) {
        const json alone = run_greedily(path(), prompt, 48, {"--device", "CPU"});
        for (const std::string& device : devices) {
            const json other = run_greedily(path(), prompt, 48, {"--device", device});
            EXPECT_EQ(other["ids"], alone["ids"]) << device << ": " << prompt;
            if (device == "CPU,BLAS") continue;
            EXPECT_EQ(other["placement"]["layers"].front(), "SIM0");
            EXPECT_EQ(other["placement"]["layers"].back(), "SIM1");
            const auto first = std::ranges::count(other["placement"]["layers"], json("SIM0"));
            const auto all = static_cast<std::ptrdiff_t>(other["placement"]["layers"].size());
            EXPECT_LE(std::abs(2 * first - all), 1) << "half of the layers each";
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Real, EveryModel,
                         testing::Values(kTales, "heddle-tales/tales-7m-f16.gguf",
                                         "heddle-tales/tales-19m-f16.gguf",
                                         "llama/stories15M-q8_0.gguf",
                                         "llama/stories260K-f32.gguf"),
                         [](const auto& info) { return std::to_string(info.index); });

TEST_F(ShippedModel, IsNotGivenToBlas) {
    if (!has_blas()) GTEST_SKIP() << "there is no BLAS";
    const auto splits = [](const std::string& model, const std::string& device) {
        return run_greedily(model, kLongPrompt, 0, {"--device", device})["placement"]["splits"]
            .get<int>();
    };
    const Outcome outcome = heddle({"run", kTales, "-p", "Once", "-n", "1", "-q", "-d", "BLAS"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err, testing::HasSubstr("[BLAS is left out: it leaves weights of q8_0 to "
                                                "the processor, which is faster]"));
    EXPECT_EQ(splits(kTales, "BLAS"), 1);
    // Weights that are not quantised are multiplied there.
    const Directory directory;
    ASSERT_EQ(heddle({"quantize", kTales, directory.path("f16.gguf"), "F16"}).status, 0);
    EXPECT_GT(splits(directory.path("f16.gguf"), "BLAS"), 1);
    EXPECT_EQ(splits(directory.path("f16.gguf"), "CPU"), 1);
}

struct Reference {
    std::string model, answer;  ///< files below the directory of data
    friend void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.model; }
};

class Reading : public testing::TestWithParam<Reference> {};

TEST_P(Reading, GreedyTokensAreThoseOfTheReference) {
    const std::string model = data_directory() + "/" + GetParam().model;
    const std::string answer = data_directory() + "/" + GetParam().answer;
    if (!std::filesystem::exists(model)) GTEST_SKIP() << model << " is not there";
    const json expected = json::parse(content_of(answer), nullptr, false);
    ASSERT_FALSE(expected.is_discarded()) << answer;
    const json said = run_greedily(model, expected["prompt"], 48);
    EXPECT_EQ(said["prompt_ids"], expected["prompt_ids"]);
    json all = said["prompt_ids"];
    for (const json& id : said["ids"]) all.push_back(id);
    const auto& greedy = expected["greedy_ids"];
    ASSERT_LE(all.size(), greedy.size());
    EXPECT_EQ(all, json(std::vector<json>(
                       greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(all.size()))));
    EXPECT_EQ(said["ids"].size(), 48u);
}

INSTANTIATE_TEST_SUITE_P(Tales, Reading,
                         testing::Values(Reference{"heddle-tales/tales-7m-f16.gguf",
                                                   "heddle-tales/tales-7m.ref.json"},
                                         Reference{"heddle-tales/tales-19m-f16.gguf",
                                                   "heddle-tales/tales-19m.ref.json"}),
                         [](const auto& info) { return std::to_string(info.index); });

struct Story {
    std::string model, text;
    int tokens;
    friend void PrintTo(const Story& story, std::ostream* out) { *out << story.model; }
};

class Stories : public testing::TestWithParam<Story> {};

TEST_P(Stories, FollowTheReferenceText) {
    const std::string model = data_directory() + "/" + GetParam().model;
    if (!std::filesystem::exists(model)) GTEST_SKIP() << model << " is not there";
    const std::string prompt = "Once upon a time";
    const json said = run_greedily(model, prompt, GetParam().tokens);
    EXPECT_THAT(prompt + said["text"].get<std::string>(), testing::StartsWith(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Small, Stories,
    testing::Values(
        Story{"llama/stories15M-q8_0.gguf",
              "Once upon a time, there was a little girl named Lily. She loved to play outside in "
              "the sunshine. One day, she saw a big, red ball in the sky. It was the sun! She "
              "thought it was so pretty.",
              64},
        Story{"llama/stories260K-f32.gguf",
              "Once upon a time, there was a little girl named Lily. She loved to play outside in "
              "the park. One day, she saw a big, red ball. She wanted to play with it, but it was "
              "too high.",
              96}),
    [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace heddle::cli_test
