#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "small_model.hpp"

/// What `heddle verify` makes of a plug-in that cannot be trusted: see trap_plugin.cpp.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class VerifyTraps : public testing::Test {
protected:
    void SetUp() override { setenv("GGML_BACKEND_PATH", HEDDLE_TRAP_PLUGIN, 1); }
    void TearDown() override { unsetenv("GGML_BACKEND_PATH"); }

    static Outcome verify(std::vector<std::string> words) {
        words.insert(words.begin(), "verify");
        return heddle(words);
    }

    /// What it finds, which is something that fails.
    static json found(std::vector<std::string> words) {
        words.emplace_back("--json");
        const Outcome outcome = verify(std::move(words));
        EXPECT_EQ(outcome.status, 1) << outcome.err;
        json all = json::parse(outcome.out, nullptr, false);
        EXPECT_FALSE(all.is_discarded()) << outcome.out;
        return all;
    }
};

TEST_F(VerifyTraps, EveryWayToDieIsARowAndTheRestGoesOn) {
    const json all = found({"-d", "TRAP0", "-d", "CPU", "--op", "ADD,MUL,SQR,SQRT,LOG,SIN,COS",
                            "--cases", "1", "--timeout", "2"});
    const json& trap = all["devices"]["TRAP0"];
    const auto ending = [&](const char* op) -> json {
        const json& deaths = trap[op]["deaths"];
        return deaths.empty() ? json() : deaths[0]["ended_with"];
    };
    EXPECT_GT(trap["ADD"]["passed"], 0);
    EXPECT_EQ(trap["ADD"]["failed"], 0);
    EXPECT_EQ(ending("ADD"), nullptr);
    EXPECT_EQ(ending("SQR"), "SIGABRT");
    EXPECT_EQ(trap["SQR"]["deaths"][0]["case"], "SQR plain 0 on TRAP0");
    EXPECT_THAT(trap["SQR"]["deaths"][0]["words"].back().get<std::string>(),
                HasSubstr("SQR is a trap"));
    EXPECT_EQ(ending("SQRT"), "no answer within 2 s");
    EXPECT_EQ(ending("COS"), "exit status 0");
    EXPECT_TRUE(trap["COS"]["deaths"][0]["words"].empty()) << "words of an earlier case";
    EXPECT_EQ(ending("MUL"), "SIGKILL");
    EXPECT_EQ(ending("LOG"), nullptr);
    EXPECT_THAT(trap["LOG"]["failures"][0].get<std::string>(), HasSubstr("out of ink"));
    EXPECT_TRUE(trap["LOG"]["nothing_computed"]);
    EXPECT_GT(trap["SIN"]["failed"], 0);
    EXPECT_FALSE(trap["SIN"]["nothing_computed"]) << "wrong numbers are numbers";
    EXPECT_GT(all["died"], 3);
    EXPECT_EQ(all["nothing_computed"], 5);

    for (const auto& [op, tally] : all["devices"]["CPU"].items()) {
        EXPECT_GT(tally["passed"], 0) << op;
        EXPECT_EQ(tally["failed"], 0) << op;
        EXPECT_TRUE(tally["deaths"].empty()) << op;
    }
}

TEST_F(VerifyTraps, TableNamesCaseSignalAndLastWords) {
    const Outcome outcome = verify({"-d", "TRAP0", "--op", "ADD,SQR", "--cases", "1"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.out,
                ContainsRegex("SQR  SQR plain 0 on TRAP0 +SIGABRT +[^\n]*SQR is a trap"));
    EXPECT_THAT(outcome.out, ContainsRegex("SQR +0 [^\n]*nothing computed"));
    EXPECT_THAT(outcome.out,
                ContainsRegex("passed, 0 failed, [1-9] died; nothing computed of 1 op\n"));
}

TEST_F(VerifyTraps, OpThatDiesAgainAndAgainIsLeft) {
    const json all = found({"-d", "TRAP0", "--op", "MUL,SQR,ADD", "--cases", "30"});
    const json& trap = all["devices"]["TRAP0"];
    for (const char* op : {"MUL", "SQR"}) {
        EXPECT_EQ(trap[op]["deaths"].size(), 3u) << op;
        EXPECT_GT(trap[op]["left_out"], 0) << op;
    }
    EXPECT_GT(trap["ADD"]["passed"], 0);
    EXPECT_EQ(trap["ADD"]["left_out"], 0);
}

TEST_F(VerifyTraps, OpsDeclinedAsAWholeAreOneLine) {
    const Outcome outcome = verify({"-d", "TRAP0", "--cases", "1", "--timeout", "1"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.out, ContainsRegex("[0-9]+ ops declined as a whole: .* and [0-9]+ more"));
    EXPECT_THAT(outcome.out, Not(ContainsRegex("\nROPE +0")));
}

TEST_F(VerifyTraps, OpThatWasAskedForAndNotComputedFails) {
    const Outcome declined = verify({"-d", "TRAP0", "--op", "ROPE", "--cases", "1"});
    EXPECT_EQ(declined.status, 1);
    EXPECT_THAT(declined.out, ContainsRegex("ROPE +0 +0 +10 [^\n]*nothing computed"));
    EXPECT_EQ(verify({"-d", "TRAP0", "--op", "ADD", "--cases", "1"}).status, 0);
}

TEST_F(VerifyTraps, ReasonsForDecliningAreShownWithCounts) {
    const std::vector<std::string> words{"-d", "TRAP0", "--op", "ADD", "--cases", "10"};
    EXPECT_THAT(verify(words).out, Not(HasSubstr("only F32")));
    auto more = words;
    more.emplace_back("-v");
    EXPECT_THAT(verify(more).out, AllOf(ContainsRegex("ADD +[0-9]+  only F32 runs here"),
                                        ContainsRegex(" [0-9]+  operands are not dense")));
    more.back() = "--json";
    const json all = json::parse(verify(more).out, nullptr, false);
    EXPECT_GT(all["devices"]["TRAP0"]["ADD"]["declined_because"]["only F32 runs here"], 0);
}

TEST_F(VerifyTraps, DeviceThatCannotBeOpenedLeavesTheOthersAlone) {
    const json all = found({"-d", "TRAP1", "-d", "TRAP0", "--op", "ADD", "--cases", "1"});
    EXPECT_THAT(all["troubles"]["TRAP1"].get<std::string>(),
                AllOf(HasSubstr("opening the device: ended with SIGABRT"),
                      HasSubstr("the door falls shut")));
    EXPECT_GT(all["devices"]["TRAP0"]["ADD"]["passed"], 0);
}

TEST_F(VerifyTraps, AProcessOfItsOwnChangesNoResult) {
    std::vector<std::string> words{"--op", "ADD,MUL_MAT,SQR", "--cases", "1", "--threads",
                                   "1,2",  "--json"};
    const Outcome here = verify(words);
    words.emplace_back("--isolate");
    const Outcome apart = verify(words);
    EXPECT_EQ(here.status, 0) << here.err;
    json expected = json::parse(here.out, nullptr, false);
    expected["isolated"] = {"CPU"};
    EXPECT_EQ(json::parse(apart.out, nullptr, false), expected);
    EXPECT_EQ(apart.status, 0) << apart.err;
}

TEST_F(VerifyTraps, OnlyDevicesOfOthersHaveAProcessOfTheirOwn) {
    std::vector<std::string> words{"-d",   "CPU", "-d",      "sim", "-d",    "TRAP0",
                                   "--op", "ADD", "--cases", "1",   "--json"};
    const auto isolated = [&] {
        return json::parse(verify(words).out, nullptr, false)["isolated"];
    };
    EXPECT_EQ(isolated(), json({"TRAP0"}));
    words.emplace_back("--isolate");
    EXPECT_EQ(isolated(), json({"CPU", "SIM0", "TRAP0"}));
    words.back() = "--no-isolate";
    EXPECT_EQ(isolated(), json::array());
}

TEST_F(VerifyTraps, WithoutIsolationTheProgramItselfDies) {
    EXPECT_EQ(verify({"-d", "TRAP0", "--op", "MUL", "--cases", "1", "--no-isolate"}).status,
              128 + SIGKILL);
    EXPECT_EQ(verify({"-d", "TRAP0", "--op", "ADD", "--cases", "1", "--no-isolate"}).status, 0);
}

TEST_F(VerifyTraps, RecordedCasesSurviveToo) {
    const json all =
        found({"-d", "TRAP0", "--golden", HEDDLE_GOLDEN, "--op", "sqr,add", "--timeout", "2"});
    const json& trap = all["devices"]["TRAP0"];
    EXPECT_EQ(trap["sqr"]["deaths"][0]["ended_with"], "SIGABRT");
    EXPECT_GT(trap["add"]["passed"], 0);
}

TEST_F(VerifyTraps, ModelOnADyingDeviceIsASentence) {
    const Directory directory;
    const std::string model = directory.path("small.gguf");
    SmallModel().write(model);
    const Outcome outcome = verify({model, "--on", "TRAP0"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(
        outcome.err,
        ContainsRegex("heddle verify: node [0-9]+ .*\\(MUL\\) on TRAP0: ended with SIGKILL"));
    const json all = json::parse(verify({model, "--on", "TRAP0", "--json"}).out, nullptr, false);
    EXPECT_EQ(all["death"]["ended_with"], "SIGKILL");
    EXPECT_FALSE(all["passed"]);
}

TEST_F(VerifyTraps, ModelInAProcessOfItsOwnPrintsTheSame) {
    const Directory directory;
    const std::string model = directory.path("small.gguf");
    SmallModel().write(model);
    const Outcome here = verify({model, "--on", "sim", "--no-isolate"});
    const Outcome apart = verify({model, "--on", "sim", "--isolate"});
    EXPECT_THAT(here.out, HasSubstr("all results are equal"));
    EXPECT_EQ(apart.out, here.out);
    EXPECT_EQ(apart.status, 0) << apart.err;
}

}  // namespace
}  // namespace heddle::cli_test
