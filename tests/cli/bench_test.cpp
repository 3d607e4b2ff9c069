#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "program.hpp"
#include "refusals.hpp"
#include "small_model.hpp"

/// `heddle bench`: what is printed in each form, and what bad input gets. Nothing here depends on
/// how fast the machine is.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::Gt;
using testing::HasSubstr;
using testing::StartsWith;

class Bench : public RefusalTest {
protected:
    Bench() : RefusalTest(2) {}

    void SetUp() override {
        SmallModel().write(path("good.gguf"));
        write_content(path("foreign.gguf"), std::string(5000, 'x'));
        remember_files();
    }

    static Words bench(Words words) {
        words.insert(words.begin(), "bench");
        return words;
    }
    static std::string printed(const Words& words) {
        const Outcome outcome = heddle(bench(words));
        EXPECT_EQ(outcome.status, 0) << testing::PrintToString(words) << outcome.err;
        return outcome.out;
    }
    static json parsed(Words words) {
        words.emplace_back("--json");
        const std::string text = printed(words);
        json value = json::parse(text, nullptr, false);
        EXPECT_FALSE(value.is_discarded()) << text;
        EXPECT_TRUE(value["rows"].is_array() && !value["rows"].empty()) << text;
        return value;
    }
    /// The header of the CSV form; all lines have as many fields.
    static std::string csv_header(Words words) {
        words.emplace_back("--csv");
        std::istringstream text(printed(words));
        std::string header, line;
        std::getline(text, header);
        const auto fields = [](const std::string& of) {
            bool quoted = false;
            std::ptrdiff_t count = 1;
            for (const char c : of) {
                quoted ^= c == '"';
                count += c == ',' && !quoted;
            }
            return count;
        };
        int lines = 0;
        for (; std::getline(text, line); ++lines) EXPECT_EQ(fields(line), fields(header)) << line;
        EXPECT_GT(lines, 0);
        return header;
    }

    void refuses(const Words& words, const std::string& says) const {
        RefusalTest::refuses(bench(words), says);
    }
    void is_misuse(const Words& words) const { RefusalTest::is_misuse(bench(words)); }
};

TEST_F(Bench, EveryBenchmarkHasHelp) {
    for (const char* command : {"ceilings", "ops", "model", "sched", "compare"}) {
        EXPECT_THAT(printed({"--help"}), HasSubstr(std::string("\n  ") + command));
        const std::string help = printed({command, "--help"});
        for (const char* option : {"--quick", "--json", "--csv"}) {
            EXPECT_THAT(help, HasSubstr(option)) << command;
        }
    }
}

TEST_F(Bench, CeilingsOfEachThreadCountAndWorkingSet) {
    const std::string table = printed({"ceilings", "--quick", "-t", "1"});
    EXPECT_THAT(table, testing::ContainsRegex("multiply-add f32 +1 +- +[0-9.]+ +GFLOP/s"));
    EXPECT_THAT(table, testing::ContainsRegex("read +1 +32.0 KiB +[0-9.]+ +GB/s"));

    const json all = parsed({"ceilings", "--quick", "-t", "1,2"});
    EXPECT_EQ(all["benchmark"], "ceilings");
    EXPECT_NE(all["machine"]["instruction_set"], "");
    for (const json& row : all["rows"]) {
        EXPECT_THAT(row["value"].get<double>(), Gt(0)) << row;
        EXPECT_TRUE(row["threads"] == 1 || row["threads"] == 2) << row;
    }
    EXPECT_EQ(csv_header({"ceilings", "--quick", "-t", "1"}),
              "ceiling,threads,working_set,value,unit");
}

TEST_F(Bench, OpsHaveSpeedsAndShares) {
    const Bench::Words words{"ops", "mul_mat", "SOFT_MAX", "--quick", "-t", "1"};
    const std::string table = printed(words);
    EXPECT_THAT(table, HasSubstr("P, multiply-add f32:"));
    EXPECT_THAT(table, testing::ContainsRegex("\nSOFT_MAX +f32 +1024x16 "));
    EXPECT_THAT(table, HasSubstr("from memory"));

    const json all = parsed(words);
    EXPECT_EQ(all["ceilings"].size(), 2u);
    for (const json& row : all["rows"]) {
        EXPECT_TRUE(row["op"] == "MUL_MAT" || row["op"] == "SOFT_MAX") << row;
        EXPECT_THAT(row["seconds"].get<double>(), Gt(0)) << row;
        EXPECT_LE(row["seconds"], row["median_seconds"]) << row;
        EXPECT_THAT(row["bytes_per_second"].get<double>(), Gt(0)) << row;
        EXPECT_THAT(row["share"].get<double>(), Gt(0)) << row;
        EXPECT_EQ(row["of"] == "copy", row["op"] == "SOFT_MAX") << row;
    }
    EXPECT_THAT(csv_header({"ops", "ADD", "--quick", "-t", "1"}),
                StartsWith("op,type,shape,threads,seconds,"));
}

TEST_F(Bench, OpsOfTheTypesAskedFor) {
    const json all = parsed({"ops", "MUL_MAT", "--type", "q4_0,IQ4_NL", "--quick", "-t", "1"});
    EXPECT_EQ(all["rows"].size(), 2u * 5u);  // n = 1, 2, 8, 32, 512
    EXPECT_EQ(all["rows"].front()["type"], "q4_0");
    EXPECT_EQ(all["rows"].back()["type"], "iq4_nl");
}

TEST_F(Bench, WeightsMayLieInALayoutOfTheDevice) {
    // Every processor multiplies weights as they are; sim has no other layout for them.
    refuses({"ops", "MUL_MAT", "--repacked", "--device", "sim"}, "no layout of its own");
    const Outcome outcome = heddle(bench(
        {"ops", "MUL_MAT", "--type", "IQ4_NL,F16", "--repacked", "--quick", "-t", "1", "--json"}));
    const json all = json::parse(outcome.out, nullptr, false);
    if (outcome.status != 0) {
        EXPECT_THAT(outcome.err, HasSubstr("declines all 10 cases"));
        return;
    }
    EXPECT_EQ(all["rows"].size(), 5u) << "f16 has no other layout";
    for (const json& row : all["rows"]) EXPECT_EQ(row["type"], "iq4_nl");
}

TEST_F(Bench, OpsOfOtherShapes) {
    const json vision = parsed({"ops", "CONV_2D", "POOL_2D", "--shapes", "vision", "--quick"});
    EXPECT_EQ(vision["rows"].front()["op"], "CONV_2D");
    const json speech = parsed({"ops", "IM2COL", "--shapes", "speech", "--quick", "-t", "1"});
    EXPECT_EQ(speech["rows"].size(), 2u);
    const json all = parsed({"ops", "IM2COL", "--shapes", "all", "--quick", "-t", "1"});
    EXPECT_GT(all["rows"].size(), 2u);
}

TEST_F(Bench, OpsThatLanguageModelsLackAreFoundByName) {
    const json all = parsed({"ops", "CONV_2D", "ADD", "--quick", "-t", "1"});
    EXPECT_EQ(all["rows"].front()["op"], "ADD");
    EXPECT_EQ(all["rows"].back()["op"], "CONV_2D");
}

TEST_F(Bench, AllOpsAreMoreThanTheUsualOnes) {
    const Bench::Words words{"ops", "--type", "F16", "--shapes", "vision", "--quick", "-t", "1"};
    const auto ops_of = [](const json& table) {
        std::set<std::string> ops;
        for (const json& row : table["rows"]) ops.insert(row["op"].get<std::string>());
        return ops;
    };
    const auto usual = ops_of(parsed(words));
    EXPECT_TRUE(usual.contains("CONV_2D"));
    EXPECT_FALSE(usual.contains("CONV_3D"));
    Bench::Words more = words;
    more.emplace_back("--all");
    const auto all = ops_of(parsed(more));
    EXPECT_TRUE(std::ranges::includes(all, usual));
    EXPECT_TRUE(all.contains("CONV_3D"));
}

TEST_F(Bench, OpsOfADeviceWithMemoryOfItsOwnStandBesideItsCopiesAndProducts) {
    const auto compared_with = [](const Words& words) {
        std::set<std::string> names;
        const json all = parsed(words);
        for (const json& row : all["rows"]) {
            EXPECT_GT(row["share"].get<double>(), 0) << row;
            names.insert(row["of"].get<std::string>());
        }
        return names;
    };
    EXPECT_THAT(compared_with({"ops", "ADD", "--device", "sim", "--quick"}),
                testing::ElementsAre("copy"));
    EXPECT_THAT(compared_with({"ops", "MUL_MAT", "--type", "F16", "--device", "sim", "--quick"}),
                testing::Contains("B"));
}

TEST_F(Bench, OpsDrawTheRoofline) {
    printed({"ops", "MUL_MAT", "--type", "F32", "--quick", "-t", "1", "--svg", path("roof.svg"),
             "--html", path("roof.html")});
    const std::string picture = content_of(path("roof.svg"));
    EXPECT_THAT(picture, StartsWith("<svg "));
    EXPECT_THAT(picture, EndsWith("</svg>\n"));
    EXPECT_THAT(picture, HasSubstr("GFLOP/s, 1 thread"));
    EXPECT_THAT(picture, HasSubstr("MUL_MAT f32 1024x1024 n=512"));
    const std::string page = content_of(path("roof.html"));
    EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
    EXPECT_THAT(page, HasSubstr(picture.substr(0, picture.size() - 1)));
    EXPECT_THAT(page, HasSubstr("<td class=\"text\">MUL_MAT</td>"));
    EXPECT_EQ(page.find("http://", page.find("viewBox")), std::string::npos) << "needs others";
}

/// Names of ops with their shapes are of any length; none is cut off at the edge of the picture.
TEST_F(Bench, TheListBesideTheRooflineIsAsWideAsItsNames) {
    printed({"ops", "FLASH_ATTN_EXT", "--quick", "-t", "1", "--svg", path("wide.svg")});
    const std::string picture = content_of(path("wide.svg"));
    std::smatch size;
    ASSERT_TRUE(std::regex_search(picture, size, std::regex("viewBox=\"0 0 ([0-9]+) ")));
    const std::regex entry("<text class=\"entry\" x=\"([0-9.]+)\"[^>]*>([^<]*)<");
    int count = 0;
    for (std::sregex_iterator at(picture.begin(), picture.end(), entry), end; at != end; ++at) {
        constexpr double kCharacter = 6.5;  // at 11 pixels, in the mean
        const double right =
            std::stod((*at)[1]) + kCharacter * static_cast<double>((*at)[2].length());
        EXPECT_LT(right, std::stod(size[1])) << (*at)[2];
        ++count;
    }
    EXPECT_GT(count, 5) << picture.substr(0, 500);
}

TEST_F(Bench, ModelOfAFile) {
    const Bench::Words words{"model", path("good.gguf"), "--quick", "-t", "1", "--prompt", "8"};
    EXPECT_THAT(printed(words), testing::ContainsRegex("\ngood.gguf +1 "));
    const json row = parsed(words)["rows"][0];
    EXPECT_THAT(row["prefill_tokens_per_second"].get<double>(), Gt(0));
    EXPECT_THAT(row["decode_tokens_per_second"].get<double>(), Gt(0));
    // Queries, keys, values and output of two layers, their networks, and the tied output: f32.
    constexpr int kLayer = 32 * (32 + 16 + 16 + 32) + 3 * 32 * 64;
    EXPECT_GE(row["bytes_per_token"], 4 * (2 * kLayer + 32 * 259));
    EXPECT_THAT(csv_header(words), StartsWith("model,threads,prefill_tokens_per_second,"));
}

TEST_F(Bench, ModelOfAShape) {
    const json all = parsed({"model", "--shape", "15M", "--type", "Q8_0,F16", "--quick", "-t", "1",
                             "--prompt", "4", "--tokens", "2"});
    ASSERT_EQ(all["rows"].size(), 2u);
    EXPECT_EQ(all["rows"][0]["model"], "15M Q8_0");
    // 8.5 bits a weight, and 16.
    EXPECT_NEAR(all["rows"][1]["bytes_per_token"].get<double>() /
                    all["rows"][0]["bytes_per_token"].get<double>(),
                16 / 8.5, 0.05);
}

TEST_F(Bench, SchedShowsNodesAndSplits) {
    const std::string table = printed({"sched", "--quick"});
    EXPECT_THAT(table, testing::ContainsRegex("\nchain +CPU +300 +1 "));
    EXPECT_THAT(table, testing::ContainsRegex("\nturns of 1 +2 CPU +1000 +1000 "));
    const json all = parsed({"sched", "--quick"});
    EXPECT_THAT(all["rows"][0]["first_seconds_per_node"].get<double>(), Gt(0));
    EXPECT_TRUE(all["rows"][0]["seconds_per_split"].is_null());
    EXPECT_EQ(all["rows"][0]["growth_first"], 1.0);
    EXPECT_THAT(csv_header({"sched", "--quick"}), StartsWith("graph,devices,nodes,splits,"));
}

TEST_F(Bench, CompareRunsTheSameProductsOnTwoDevices) {
    const Bench::Words words{"compare", "--against", "CPU", "--quick", "-t", "1"};
    EXPECT_THAT(printed(words), HasSubstr("256x256 n=64"));
    const json all = parsed(words);
    for (const json& row : all["rows"]) {
        EXPECT_THAT(row["ratio"].get<double>(), Gt(0)) << row;
        EXPECT_THAT(row["other_flops_per_second"].get<double>(), Gt(0)) << row;
        // oneDNN is beside them if the program has it.
        EXPECT_EQ(row.contains("onednn_ratio"), row.contains("onednn_flops_per_second")) << row;
    }
    EXPECT_THAT(csv_header(words), HasSubstr(",ratio"));
}

TEST_F(Bench, RefusesWhatIsNotThere) {
    refuses({"ops", "FROBNICATE"}, "no op 'FROBNICATE'");
    refuses({"ops", "CONV_2D", "--shapes", "llm"}, "no op 'CONV_2D'");
    refuses({"ops", "MAP_CUSTOM1"}, "no op 'MAP_CUSTOM1'");
    refuses({"ops", "--type", "Q99"}, "no type is called 'Q99'");
    refuses({"ops", "--device", "nowhere"}, "no device is called 'nowhere'; available: ");
    refuses({"ops", "--isa", "AVX99"}, "instruction set 'AVX99' is not among best");
    refuses({"model", "--isa", "AVX99"}, "instruction set 'AVX99' is not among best");
    refuses({"ops", "FLASH_ATTN_EXT", "--type", "I64", "--quick"}, "CPU declines all");
    refuses({"compare", "--on", "nowhere"}, "no device is called 'nowhere'; available: ");
    refuses({"compare", "--against", "nowhere"}, "no device is called 'nowhere'; available: ");
    refuses({"model", path("missing.gguf")}, "No such file");
    refuses({"model", path("foreign.gguf")}, "foreign.gguf");
    refuses({"model", "--shape", "7Q"}, "no shape is called '7Q'; there are 15M");
    refuses({"model", "--type", "Q99"}, "no type is called 'Q99'");
    refuses({"model", "--shape", "15M", "--type", "Q4_K"}, "rows of 288 elements");
    refuses({"model", path("good.gguf"), "--device", "nowhere"}, "nowhere");
}

TEST_F(Bench, RefusesPicturesItCannotWriteBeforeItMeasures) {
    for (const char* command : {"ops", "ceilings"}) {
        for (const char* option : {"--svg", "--html"}) {
            refuses({command, option, path("no/such/place")}, "cannot be written");
        }
    }
}

TEST_F(Bench, WrongCommandLinesAreMisuse) {
    is_misuse({});
    is_misuse({"everything"});
    is_misuse({"ceilings", "--threads", "0"});
    is_misuse({"ceilings", "--threads", "two"});
    is_misuse({"ceilings", "--json", "--csv"});
    is_misuse({"ops", "--threads", "1,0"});
    is_misuse({"ops", "--shapes", "music"});
    is_misuse({"model", path("good.gguf"), "--shape", "15M"});
    is_misuse({"model", "--tokens", "0"});
    is_misuse({"model", "--prompt", "0"});
    is_misuse({"sched", "--threads", "1"});
    is_misuse({"sched", "--json", "--csv"});
    is_misuse({"sched", "chain"});
    is_misuse({"compare", "--threads", "0"});
    is_misuse({"compare", "--svg", "x"});
}

}  // namespace
}  // namespace heddle::cli_test
