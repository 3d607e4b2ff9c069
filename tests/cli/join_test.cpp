#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model_test.hpp"
#include "refusals.hpp"

/// Devices joined by `--join`: each computes a part of every layer.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Words = std::vector<std::string>;

const std::string kPrompt = "Once upon a time there was a king who";

/// With F32 weights joined devices differ from one in the order of additions only, which decides no
/// word of these texts. Where weights are blocks, columns are rounded to blocks, too, and sooner or
/// later one that was added up in another order falls to the other side.
class Join : public ShippedModelTest {
protected:
    void SetUp() override {
        ShippedModelTest::SetUp();
        if (IsSkipped()) return;
        ASSERT_EQ(heddle({"quantize", kTales, exact_, "F32"}).status, 0);
    }

    static Outcome run(const std::string& model, const std::string& device,
                       const Words& more = {}) {
        Words words{"run", model, "-p", kPrompt, "-n", "24", "--temperature", "0", "-d", device};
        words.insert(words.end(), more.begin(), more.end());
        Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << device << ": " << outcome.err;
        return outcome;
    }
    static json run_json(const std::string& model, const std::string& device, Words more = {}) {
        more.emplace_back("--json");
        return json::parse(run(model, device, more).out, nullptr, false);
    }
    static json layers_on(const std::string& device) { return json(Words(8, device)); }

    Directory directory_;
    const std::string exact_ = directory_.path("f32.gguf");
};

TEST_F(Join, SaysTheSameWordsOverTwoToFourDevices) {
    const json alone = run_json(exact_, "CPU", {"-n", "64"});
    EXPECT_EQ(alone["placement"]["joined"], json::array());
    json names = {"SIM0"};
    std::string joined = "Meta(SIM0";
    for (const char* count : {"2", "3", "4"}) {
        names.push_back("SIM" + std::to_string(names.size()));
        joined += "," + names.back().get<std::string>();
        const json with =
            run_json(exact_, std::string("sim:devices=") + count, {"-n", "64", "--join"});
        EXPECT_EQ(with["ids"], alone["ids"]) << count;
        EXPECT_EQ(with["ids"].size(), 64u);
        EXPECT_EQ(with["placement"]["joined"], names);
        EXPECT_EQ(with["placement"]["layers"], layers_on(joined + ")"));
        EXPECT_EQ(with["placement"]["output"], joined + ")");
    }
}

TEST_F(Join, SaysTheSameWordsOfTheModelThatShips) {
    // Few, see above.
    const Words few{"-n", "12"}, joined{"-n", "12", "--join"};
    const json alone = run_json(kTales, "CPU", few);
    EXPECT_EQ(run_json(kTales, "sim:devices=2", joined)["ids"], alone["ids"]);
    EXPECT_EQ(run_json(kTales, "sim:devices=4", joined)["ids"], alone["ids"]);
}

TEST_F(Join, FitsWhereAllOfItWouldFitOnNoDevice) {
    const auto layers = [](const char* device, const Words& more) {
        Words words{"-c", "128", "--batch", "16"};
        words.insert(words.end(), more.begin(), more.end());
        return run_json(kTales, device, words)["placement"]["layers"];
    };
    EXPECT_EQ(layers("sim:devices=1,mem=6M", {})[0], "CPU");
    EXPECT_EQ(layers("sim:devices=2,mem=6M", {"--join"}), layers_on("Meta(SIM0,SIM1)"));
}

TEST_F(Join, LeavesLayersThatDoNotFitToTheProcessor) {
    const Words small{"-c", "1024", "--batch", "16"},
        joined{"-c", "1024", "--batch", "16", "--join"};
    const json alone = run_json(exact_, "CPU", small);
    // Of three devices one has two of the four heads, and so most to keep.
    for (const auto& [device, name] :
         {std::pair("sim:devices=2,mem=10M", "Meta(SIM0,SIM1)"),
          std::pair("sim:devices=3,mem=11M", "Meta(SIM0,SIM1,SIM2)")}) {
        const json with = run_json(exact_, device, joined);
        EXPECT_EQ(with["placement"]["layers"].front(), "CPU");
        EXPECT_EQ(with["placement"]["layers"].back(), name);
        EXPECT_EQ(with["ids"], alone["ids"]);
    }
    const json none = run_json(exact_, "sim:devices=2,mem=1M", joined);
    EXPECT_EQ(none["placement"]["layers"], layers_on("CPU"));
    EXPECT_EQ(none["placement"]["joined"], json::array());
}

TEST_F(Join, IsToldInTheClosingLineByExplainAndByBench) {
    EXPECT_THAT(run(kTales, "sim:devices=2", {"--join"}).err,
                HasSubstr("; Meta(SIM0,SIM1) computed all the work; all layers on "
                          "Meta(SIM0,SIM1); joined: SIM0, SIM1\n"));
    const Outcome explained = heddle({"explain", kTales, "-d", "sim:devices=2", "--join"});
    EXPECT_EQ(explained.status, 0) << explained.err;
    EXPECT_THAT(explained.out, HasSubstr("; all layers on Meta(SIM0,SIM1); joined: SIM0, SIM1\n"));
    const Outcome bench =
        heddle({"bench", "model", kTales, "-d", "sim:devices=2", "--join", "--quick", "--threads",
                "1", "--prompt-tokens", "4", "-n", "2", "--json"});
    ASSERT_EQ(bench.status, 0) << bench.err;
    EXPECT_EQ(json::parse(bench.out, nullptr, false)["rows"][0]["placement"],
              "all layers on Meta(SIM0,SIM1); joined: SIM0, SIM1");
}

TEST_F(Join, IsGivenUpWhereADeviceLacksWhatLayersNeed) {
    const json alone = run_json(kTales, "CPU");
    for (const char* op : {"ROPE", "FLASH_ATTN_EXT", "MUL_MAT", "SWIGLU"}) {
        const json with = run_json(kTales, std::string("sim:devices=2,ops=all,-") + op, {"--join"});
        EXPECT_EQ(with["ids"], alone["ids"]) << op;
        EXPECT_EQ(with["placement"]["layers"], layers_on("CPU")) << op;
        ASSERT_EQ(with["placement"]["left_out"].size(), 1u) << op;
        EXPECT_EQ(with["placement"]["left_out"][0]["device"], "Meta(SIM0,SIM1)");
        EXPECT_THAT(with["placement"]["left_out"][0]["reason"].get<std::string>(),
                    testing::StartsWith(std::string("no ") + op + " of "));
    }
}

TEST_F(Join, TheTextGoesOnWithoutDevicesThatFail) {
    const std::string alone = run(exact_, "CPU", {"-q"}).out;
    for (const char* fault : {"node=1", "node=244", "node=1000", "copy=150", "lost=5ms"}) {
        const Outcome outcome =
            run(exact_, std::string("sim:devices=3,") + fault, {"-q", "--join"});
        EXPECT_EQ(outcome.out, alone) << fault;
        EXPECT_THAT(outcome.err, HasSubstr(" failed: ")) << fault;
        EXPECT_THAT(outcome.err, HasSubstr("; going on without it]")) << fault;
    }
}

TEST_F(Join, IsAskedForByCommandsThatReadTextsToo) {
    const std::string text = directory_.path("text");
    std::ofstream(text) << kPrompt << kPrompt << kPrompt << kPrompt;
    for (const Words& command : {Words{"perplexity", kTales, text},
                                 Words{"imatrix", kTales, text, directory_.path("importance")}}) {
        Words words = command;
        words.insert(words.end(), {"-d", "sim", "--join"});
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 1) << command[0];
        EXPECT_THAT(outcome.err, HasSubstr("2 to 16 devices can be joined, not 1 (SIM0)"));
    }
}

class JoinRefused : public RefusalTest {};

TEST_F(JoinRefused, TellsTheNumbers) {
    SmallModel().write(path("model.gguf"));
    remember_files();
    const auto refused = [&](const char* device, const std::string& says, const Words& more = {}) {
        Words words{"run", "@model.gguf", "-p", "a", "-n", "1", "--join", "-d", device};
        words.insert(words.end(), more.begin(), more.end());
        refuses(words, says);
    };
    refused("CPU",
            "--join: 2 to 16 devices can be joined, not 0; --device and --hosts choose them");
    refused("sim", "--join: 2 to 16 devices can be joined, not 1 (SIM0); --device and");
    refused("sim:devices=17", "2 to 16 devices can be joined, not 17 (SIM0, SIM1, ");
    refused("sim:devices=3",
            "cannot be cut over 3 devices: it has 2 heads of keys and values, of which each needs "
            "at least 1");
    refused("sim:devices=2",
            "--budget SIM0=1M does not go with --join, which gives each device a part of every "
            "layer",
            {"--budget", "SIM0=1M"});
    refused("sim:devices=2", "--policy cost: with --join all nodes of a layer stay together",
            {"--policy", "cost"});
}

TEST_F(Join, IsRefusedWhereHeadsShareBlocks) {
    const Directory directory;
    const std::string model = directory.path("q4_k.gguf");
    ASSERT_EQ(heddle({"quantize", kTales, model, "Q4_K"}).status, 0);
    const Outcome outcome =
        heddle({"run", model, "-p", "a", "-n", "1", "--join", "-d", "sim:devices=2"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("cannot be cut over 2 devices: it has 4 heads of keys and "
                                       "values, of which each needs at least 4 to have whole "
                                       "blocks\n"));
}

}  // namespace
}  // namespace heddle::cli_test
