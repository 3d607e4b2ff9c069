#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model_test.hpp"

/// Devices that cannot do everything, and devices that fail: where weights go, who computes, and
/// that the words stay the same.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using Words = std::vector<std::string>;

const std::string kPrompt = "Once upon a time there was a king who";

/// Has memory of its own, but cannot multiply matrices.
const std::string kAdder = "sim:ops=ADD,MUL,SCALE";

class Placement : public ShippedModelTest {
protected:
    static Outcome run(const std::string& device, const Words& more = {}) {
        Words words{"run", kTales, "-p", kPrompt, "-n", "24", "--temperature", "0", "-d", device};
        words.insert(words.end(), more.begin(), more.end());
        Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << device << ": " << outcome.err;
        return outcome;
    }
    static json run_json(const std::string& device, Words more = {}) {
        more.emplace_back("--json");
        return json::parse(run(device, more).out, nullptr, false);
    }
    static json explain(const std::string& device) {
        const Outcome outcome = heddle({"explain", kTales, "--json", "-d", device});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    }
    /// What `explain` says of a device's memory; null if it says nothing.
    static json memory_of(const json& explained, const std::string& device) {
        for (const json& row : explained["memory"]) {
            if (row["device"] == device) return row;
        }
        return nullptr;
    }
    static json layers_on(const std::string& device) { return json(Words(8, device)); }
};

// ---- devices that cannot do everything ---------------------------------------------------------

TEST_F(Placement, NoWeightGoesToADeviceThatCannotMultiply) {
    const json left_out{{{"device", "SIM0"}, {"reason", "no MUL_MAT of q8_0"}}};
    const json work{{{"device", "CPU"}, {"share", 1.0}}};
    const json alone = run_json("CPU");
    for (const char* policy : {"rules", "cost"}) {
        const json with = run_json(kAdder, {"--policy", policy});
        EXPECT_EQ(with["placement"]["layers"], layers_on("CPU")) << policy;
        EXPECT_EQ(with["placement"]["output"], "CPU") << policy;
        EXPECT_EQ(with["placement"]["splits"], 1) << policy;
        EXPECT_EQ(with["placement"]["work"], work) << policy;
        EXPECT_EQ(with["placement"]["left_out"], left_out) << policy;
        EXPECT_EQ(with["ids"], alone["ids"]) << policy;
    }
    EXPECT_EQ(alone["placement"]["left_out"], json::array());
}

TEST_F(Placement, ExplainAndBenchAgreeWithRun) {
    const json explained = explain(kAdder);
    EXPECT_EQ(explained["placement"]["layers"], layers_on("CPU"));
    EXPECT_EQ(explained["placement"]["left_out"], run_json(kAdder)["placement"]["left_out"]);
    EXPECT_EQ(memory_of(explained, "SIM0"), nullptr);
    EXPECT_EQ(explained["schedule"]["splits"].size(), 1u);

    const Outcome bench = heddle({"bench", "model", kTales, "-d", kAdder, "--quick", "--threads",
                                  "1", "--prompt", "4", "-n", "2", "--json"});
    ASSERT_EQ(bench.status, 0) << bench.err;
    EXPECT_EQ(json::parse(bench.out, nullptr, false)["rows"][0]["placement"],
              "all layers on CPU; SIM0 left out: no MUL_MAT of q8_0");
}

TEST_F(Placement, TheClosingLineSaysWhoComputed) {
    EXPECT_THAT(run("CPU").err, HasSubstr("; CPU computed all the work; all layers on CPU\n"));
    EXPECT_THAT(run(kAdder).err, HasSubstr("; CPU computed all the work; all layers on CPU; SIM0 "
                                           "left out: no MUL_MAT of q8_0\n"));
    EXPECT_THAT(
        run("sim:devices=2").err,
        testing::ContainsRegex("; SIM1 computed [0-9]+ % of the work, SIM0 [0-9]+ %; layers "
                               "0-3 on SIM0, layers 4-7 and the output on SIM1\n"));
}

TEST_F(Placement, SharesOfTheWorkAddUp) {
    const json with = run_json("sim:devices=2", {"--policy", "rules"});
    double sum = 0, least = 1;
    for (const json& share : with["placement"]["work"]) {
        sum += share["share"].get<double>();
        least = std::min(least, share["share"].get<double>());
    }
    EXPECT_EQ(with["placement"]["work"].size(), 2u);
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_GT(least, 0.3) << "half of the layers each";
}

TEST_F(Placement, NormsStayBehindWhereTheyCannotBeMultiplied) {
    const json all = explain("sim"), without = explain("sim:ops=-MUL");
    EXPECT_EQ(without["placement"]["layers"], layers_on("SIM0"));
    const auto weights = [](const json& explained, const char* device) {
        return memory_of(explained, device)["weights"].get<std::size_t>();
    };
    const std::size_t norms = 17 * 256 * sizeof(float);
    EXPECT_GE(weights(without, "CPU"), weights(all, "CPU") + norms);
    EXPECT_LE(weights(without, "SIM0"), weights(all, "SIM0") - norms);
    EXPECT_EQ(run_json("sim:ops=-MUL")["ids"], run_json("CPU")["ids"]);
}

TEST_F(Placement, CachesStayWhereAttentionIsComputed) {
    for (const char* device : {"sim:ops=-FLASH_ATTN_EXT", "sim:ops=-SET_ROWS"}) {
        const json explained = explain(device);
        EXPECT_EQ(explained["placement"]["layers"], layers_on("SIM0")) << device;
        EXPECT_EQ(memory_of(explained, "SIM0")["cache"], 0) << device;
        EXPECT_GT(memory_of(explained, "CPU")["cache"], 0) << device;
        EXPECT_EQ(run_json(device)["ids"], run_json("CPU")["ids"]) << device;
    }
}

TEST_F(Placement, ABudgetForADeviceThatCannotMultiplyIsNotMissed) {
    const json with = run_json(kAdder, {"--budget", "SIM0=1M"});
    EXPECT_EQ(with["placement"]["layers"], layers_on("CPU"));
}

// ---- devices that fail -------------------------------------------------------------------------

/// The lines that tell of a failure.
Words lines_of_failures(const std::string& err) {
    Words lines;
    for (std::size_t begin = 0; begin < err.size();) {
        const std::size_t end = std::min(err.find('\n', begin), err.size());
        const std::string line = err.substr(begin, end - begin);
        if (line.find("SIM") != std::string::npos) lines.push_back(line);
        begin = end + 1;
    }
    return lines;
}

std::size_t count(const std::string& text, const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        ++found;
    }
    return found;
}

TEST_F(Placement, TheTextGoesOnWithoutADeviceThatFails) {
    const std::string alone = run("CPU", {"-q"}).out;
    // While the prompt is read, between two words, in the middle of one.
    for (const char* node : {"1", "150", "243", "244", "1800", "3001"}) {
        const Outcome outcome = run(std::string("sim:devices=1,node=") + node, {"-q"});
        EXPECT_EQ(outcome.out, alone) << node;
        const Words lines = lines_of_failures(outcome.err);
        ASSERT_EQ(lines.size(), 1u) << node << ": " << outcome.err;
        EXPECT_THAT(lines[0], StartsWith("[SIM0 failed: node '")) << node;
        EXPECT_THAT(lines[0], HasSubstr("fails as it was told to; going on without it]")) << node;
        EXPECT_EQ(count(lines[0], "SIM0"), 1u) << lines[0];
        EXPECT_EQ(count(lines[0], "node"), 1u) << lines[0];
    }
}

TEST_F(Placement, TheTextGoesOnHoweverADeviceFails) {
    const std::string alone = run("CPU", {"-q"}).out;
    for (const char* fault : {"copy=90", "copy=101", "copy=150", "lost=5ms", "lost=20ms",
                              "lost=30ms", "copy=120,node=2000"}) {
        const Outcome outcome = run(std::string("sim:devices=1,") + fault, {"-q"});
        EXPECT_EQ(outcome.out, alone) << fault;
        EXPECT_EQ(lines_of_failures(outcome.err).size(), 1u) << fault << ": " << outcome.err;
    }
}

TEST_F(Placement, TheOtherDevicesTakeOver) {
    // Each fails at its 500th node. The second has the output, but begins later.
    const Outcome outcome = run("sim:devices=2,node=500", {"--json"});
    const json with = json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(with["ids"], run_json("CPU")["ids"]);
    ASSERT_EQ(with["failed_devices"].size(), 2u) << outcome.err;
    EXPECT_EQ(with["failed_devices"][0]["device"], "SIM0");
    EXPECT_EQ(with["failed_devices"][1]["device"], "SIM1");
    EXPECT_THAT(with["failed_devices"][0]["reason"].get<std::string>(), StartsWith("node '"));
    EXPECT_EQ(lines_of_failures(outcome.err).size(), 2u) << outcome.err;
    EXPECT_EQ(with["placement"]["layers"], layers_on("CPU"));
    EXPECT_EQ(with["placement"]["work"].size(), 3u) << "each did something";
    EXPECT_EQ(run_json("CPU")["failed_devices"], json::array());
}

TEST_F(Placement, AConversationGoesOnToo) {
    const auto talk = [](const std::string& device) {
        return heddle({"run", kTales, "-i", "-n", "12", "--temperature", "0", "-q", "-d", device},
                      "Once upon a time\nThe king said\nAnd then\n");
    };
    const Outcome alone = talk("CPU"), with = talk("sim:devices=1,node=5000");
    EXPECT_EQ(with.status, 0) << with.err;
    EXPECT_EQ(with.out, alone.out);
    EXPECT_EQ(lines_of_failures(with.err).size(), 1u) << with.err;
}

TEST_F(Placement, TheScheduleAfterAFailureIsThatOfTheDevicesLeft) {
    const Outcome outcome = run("sim:devices=1,node=1000", {"-q", "--explain"});
    EXPECT_THAT(outcome.out, HasSubstr("in 1 split"));
}

TEST_F(Placement, ABenchmarkDoesNotMeasureHalfADevice) {
    const Outcome outcome = heddle(
        {"bench", "model", kTales, "-d", "sim:devices=1,node=1000", "--quick", "--threads", "1"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("heddle bench model: SIM0"));
}

}  // namespace
}  // namespace heddle::cli_test
