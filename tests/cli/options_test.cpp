#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "gguf.h"
#include "heddle/cpu.h"
#include "model_test.hpp"
#include "session.hpp"

/// Options that few need, and words that were meant otherwise. That every option is used by some
/// test is the matter of tests/docs/help_coverage.py.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Options : public ModelTest {
protected:
    static std::string printed(const Words& words) {
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << testing::PrintToString(words) << outcome.err;
        return outcome.out;
    }
    static json parsed(Words words) {
        words.emplace_back("--json");
        json value = json::parse(printed(words), nullptr, false);
        EXPECT_FALSE(value.is_discarded()) << testing::PrintToString(words);
        return value;
    }
    static std::string refusal(const Words& words) {
        const Outcome outcome = heddle(words);
        EXPECT_NE(outcome.status, 0);
        return outcome.err;
    }
    /// What the command writes behind a short text.
    json ids(Words words) const {
        words.insert(words.begin() + 1, {model_, "-p", "ab", "-n", "8"});
        return parsed(words)["ids"];
    }
};

// ---- words -------------------------------------------------------------------------------------

TEST_F(Options, NamesThatWereMeantOtherwiseAreGuessed) {
    EXPECT_THAT(refusal({"verify", "--op", "MUL_MATT"}), HasSubstr("did you mean 'MUL_MAT'?"));
    EXPECT_THAT(refusal({"verify", "-d", "CUP"}), HasSubstr("did you mean 'CPU'?"));
    EXPECT_THAT(refusal({"verify", "-d", "CPU,SIIM"}), HasSubstr("did you mean 'sim'?"));
    EXPECT_THAT(refusal({"run", model_, "-d", "CUP"}), HasSubstr("did you mean 'CPU'?"));
    EXPECT_THAT(refusal({"run", model_, "-p", "a", "-d", "siim"}), HasSubstr("mean 'sim'?"));
    const std::string out = directory_.path("out.gguf");
    EXPECT_THAT(refusal({"quantize", model_, out, "Q4_O"}), HasSubstr("did you mean 'q4_0'?"));
    EXPECT_THAT(refusal({"quantize", model_, out, "Q4-K-M"}), HasSubstr("did you mean 'Q4_K_M'?"));
    EXPECT_THAT(refusal({"quantize", model_, out, "Q4KM"}), HasSubstr("did you mean 'Q4_K_M'?"));
    EXPECT_THAT(refusal({"bench", "ops", "mul-mat"}), HasSubstr("did you mean 'MUL_MAT'?"));
    EXPECT_LT(refusal({"bench", "ops", "FLOB"}).size(), 120u);
    EXPECT_THAT(refusal({"bench", "ops", "--type", "Q4_O"}), HasSubstr("did you mean 'q4_0'?"));
    EXPECT_THAT(refusal({"bench", "--quikc"}), HasSubstr("did you mean '--quick'?"));
}

// ---- run and explain ---------------------------------------------------------------------------

TEST_F(Options, MinPOfOneLeavesTheLikeliestWordOnly) {
    EXPECT_EQ(ids({"run", "--temperature", "2", "--min-p", "1", "--seed", "3"}),
              ids({"run", "--temp", "0"}));
}

TEST_F(Options, NodesComputedOneByOneSayTheSame) {
    EXPECT_EQ(ids({"run", "--temp", "0", "--no-fusion"}), ids({"run", "--temp", "0"}));
    const auto fused = [&](const Words& more) {
        Words words{"explain", kTales, "-d", "CPU", "--read", "4"};
        words.insert(words.end(), more.begin(), more.end());
        int count = 0;
        const json explained = parsed(words);
        for (const json& node : explained["schedule"]["nodes"]) count += node["with"] >= 0;
        return count;
    };
    EXPECT_GT(fused({}), 0);
    EXPECT_EQ(fused({"--no-fusion"}), 0);
}

/// All instruction sets that this machine has.
Words instruction_sets() {
    ggml_backend_load_all();
    const ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    const auto list = reinterpret_cast<heddle_cpu_isa_names_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(cpu), "heddle_cpu_isa_names"));
    Words names;
    for (const char* const* name = list(); *name != nullptr; ++name) names.emplace_back(*name);
    return names;
}

/// README shows the tale of scripts/demo, which is to be the same on other machines.
TEST_F(Options, EveryInstructionSetTellsTheTaleOfTheReadme) {
    const std::string demo = content_of(HEDDLE_SHIPPED "/../scripts/demo");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(
        demo, found, std::regex("--prompt \"([^\"]+)\" --temperature ([0-9.]+) --seed ([0-9]+)")));
    const std::string whole = directory_.path("f32.gguf");
    printed({"quantize", kTales, whole, "F32"});
    std::map<std::string, Words> tales;
    for (const std::string& set : instruction_sets()) {
        const std::string tale =
            printed({"run", whole, "-p", found[1], "--temperature", found[2], "--seed", found[3],
                     "-n", "59", "-q", "-d", "CPU", "--isa", set});
        EXPECT_GT(tale.size(), 150u);
        tales[tale].push_back(set);
    }
    EXPECT_EQ(tales.size(), 1u) << testing::PrintToString(tales);
    EXPECT_THAT(content_of(HEDDLE_SHIPPED "/../README.md"),
                HasSubstr(tales.begin()->first.substr(0, 120)));
    tales.clear();  // that of the other pages, which is the likeliest
    for (const std::string& set : instruction_sets()) {
        tales[printed({"run", kTales, "Once upon a time there was a king who", "-n", "16", "--temp",
                       "0", "-q", "-d", "CPU", "--isa", set})]
            .push_back(set);
    }
    EXPECT_EQ(tales.size(), 1u) << testing::PrintToString(tales);
    EXPECT_THAT(refusal({"run", model_, "--isa", "ABACUS"}), HasSubstr("ABACUS"));
    EXPECT_EQ(parsed({"explain", model_, "--isa", instruction_sets().back()})["fits"], true);
}

/// Before each name had one meaning, --tokens was also what is read, and --all a longer list.
TEST_F(Options, EarlierNamesOfOptionsAreUnderstoodWithAHint) {
    EXPECT_EQ(heddle({"explain", model_, "--read", "3"}).err, "");
    for (const char* name : {"--tokens", "-n"}) {
        EXPECT_EQ(parsed({"explain", model_, name, "3"})["tokens"], 3) << name;
        EXPECT_EQ(heddle({"explain", model_, name, "3"}).err,
                  std::string("[") + name + " is called --read here]\n");
    }
    EXPECT_THAT(printed({"bench", "model", model_, "--quick", "-t", "1", "--prompt", "4"}),
                HasSubstr("model.gguf"));
    for (const char* name : {"--all", "-a"}) {
        const Outcome outcome = heddle({"inspect", model_, name});
        EXPECT_EQ(outcome.out, printed({"inspect", model_, "--verbose"}));
        EXPECT_EQ(outcome.err, std::string("[") + name + " is called --verbose here]\n");
    }
}

/// Whether a model would fit that one does not have yet.
TEST_F(Options, ExplainTakesAShapeInsteadOfAFile) {
    const auto began = std::chrono::steady_clock::now();
    const json large =
        parsed({"explain", "--shape", "70B", "--type", "Q4_K_M", "-d", "sim:mem=8G"});
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
    EXPECT_EQ(large["model"], "70B of Q4_K_M");
    EXPECT_EQ(large["placement"]["layers"].size(), 80u);
    EXPECT_EQ(large["placement"]["layers"][0], "CPU") << "not all fit on the device";
    EXPECT_EQ(large["placement"]["layers"][79], "SIM0");
    std::size_t weights = 0;
    for (const json& row : large["memory"]) weights += row["weights"].get<std::size_t>();
    EXPECT_NEAR(static_cast<double>(weights), 42e9, 3e9) << "as files of this kind are";
    const Outcome explained = heddle({"explain", "--shape", "70B"});
    EXPECT_LT(explained.peak_bytes, std::size_t{1} << 30) << "nothing is loaded";
    EXPECT_THAT(refusal({"explain", "--shape", "8T"}), HasSubstr("no shape is called '8T'"));
    EXPECT_THAT(refusal({"explain", model_, "--shape", "8B"}), HasSubstr("--shape"));
    EXPECT_THAT(refusal({"explain", "--shape", "8B", "--run"}), HasSubstr("--run"));
    EXPECT_THAT(refusal({"explain"}), HasSubstr("model or --shape is required"));
    EXPECT_THAT(refusal({"bench", "model", "--shape", "70B", "--type", "F16"}),
                HasSubstr("GiB of memory are free"));
}

// ---- inspect and quantize ----------------------------------------------------------------------

TEST_F(Options, InspectShowsLongValuesInFull) {
    const std::string brief = printed({"inspect", kTales});
    const std::string whole = printed({"inspect", kTales, "--verbose"});
    EXPECT_GT(whole.size(), 2 * brief.size());
    EXPECT_EQ(whole, printed({"inspect", "-v", kTales}));
}

/// Files list them as they like; JSON keeps their order.
TEST_F(Options, InspectShowsBlocksInTheOrderOfTheirNumbers) {
    const ggml_context_ptr context(
        ggml_init({.mem_size = 1 << 16, .mem_buffer = nullptr, .no_alloc = false}));
    const gguf_context_ptr file(gguf_init_empty());
    for (const char* name : {"blk.10.attn_q.weight", "blk.2.attn_q.weight", "output.weight"}) {
        ggml_tensor* const weight = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 4);
        gguf_add_tensor(file.get(), ggml_set_name(weight, name));
    }
    const std::string path = directory_.path("blocks.gguf");
    ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false));
    EXPECT_THAT(printed({"inspect", path}),
                testing::ContainsRegex("output.weight.*\nblk.2.attn_q.*\nblk.10.attn_q"));
    EXPECT_EQ(parsed({"inspect", path})["tensors"][0]["name"], "blk.10.attn_q.weight");
}

/// Eight layers of three weights, an embedding and an output; rows of 256 numbers.
void write_weights(const std::string& path) {
    const ggml_context_ptr context(
        ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
    const gguf_context_ptr file(gguf_init_empty());
    const auto add = [&](const std::string& name) {
        ggml_tensor* const weight = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 256, 2);
        for (int i = 0; i < 512; ++i) static_cast<float*>(weight->data)[i] = float(i % 17) - 8;
        gguf_add_tensor(file.get(), ggml_set_name(weight, name.c_str()));
    };
    add("token_embd.weight");
    add("output.weight");
    for (int i = 0; i < 8; ++i) {
        for (const char* name : {"attn_q", "attn_v", "ffn_down"}) {
            add("blk." + std::to_string(i) + "." + name + ".weight");
        }
    }
    ASSERT_TRUE(gguf_write_to_file(file.get(), path.c_str(), false));
}

TEST_F(Options, QuantizeChoosesForEmbeddingAndOutput) {
    const std::string input = directory_.path("weights.gguf"), out = directory_.path("out.gguf");
    write_weights(input);
    const auto types = [&](const Words& more) {
        Words words{"quantize", input, out};
        words.insert(words.end(), more.begin(), more.end());
        printed(words);
        std::map<std::string, std::string> found;
        const json file = parsed({"inspect", out});
        for (const json& tensor : file["tensors"]) {
            found[tensor["name"]] = tensor["type"];
        }
        return found;
    };
    auto found = types({"Q8_0", "--token-embedding-type", "F16", "--output-tensor-type", "BF16"});
    EXPECT_EQ(found["token_embd.weight"], "f16");
    EXPECT_EQ(found["output.weight"], "bf16");
    EXPECT_EQ(found["blk.3.attn_q.weight"], "q8_0");
    found = types({"Q8_0", "--keep-output"});
    EXPECT_EQ(found["output.weight"], "f32");
    EXPECT_EQ(found["token_embd.weight"], "q8_0");

    // Of eight layers the first, the last, and every third between have more bits.
    found = types({"q4_k_m"});
    EXPECT_EQ(found["output.weight"], "q6_K");
    EXPECT_EQ(found["token_embd.weight"], "q4_K");
    for (int i = 0; i < 8; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        const std::string larger = i == 0 || i == 3 || i == 6 || i == 7 ? "q6_K" : "q4_K";
        EXPECT_EQ(found[layer + "attn_v.weight"], larger) << i;
        EXPECT_EQ(found[layer + "ffn_down.weight"], larger) << i;
        EXPECT_EQ(found[layer + "attn_q.weight"], "q4_K") << i;
    }
    EXPECT_EQ(parsed({"inspect", out})["metadata"]["general.file_type"], 15);
    EXPECT_EQ(types({"Q5_K_M"})["blk.1.attn_v.weight"], "q5_K");
    EXPECT_EQ(types({"Q3_K_M"})["blk.0.attn_v.weight"], "q5_K");
    found = types({"Q4_K_S"});
    EXPECT_EQ(found["blk.0.attn_v.weight"], "q4_K");
    EXPECT_EQ(found["output.weight"], "q6_K");
    EXPECT_EQ(parsed({"inspect", out})["metadata"]["general.file_type"], 14);
    found = types({"Q2_K_S"});
    EXPECT_EQ(found["blk.0.attn_v.weight"], "q2_K");
    EXPECT_EQ(found["output.weight"], "q6_K");
}

TEST_F(Options, AMixtureRuns) {
    const std::string mixed = directory_.path("q4_k_m.gguf");
    printed({"quantize", kTales, mixed, "Q4_K_M"});
    const json told = parsed({"run", mixed, "-p", "Once upon a time", "-n", "8", "--temp", "0"});
    EXPECT_EQ(told["ids"].size(), 8u);
}

// ---- bench -------------------------------------------------------------------------------------

TEST_F(Options, BenchRatesByMediansIfAskedTo) {
    const auto work = [&](const char* which, const Words& more) {
        Words words{"bench", "ops", "ADD", "--quick", "-t", "1"};
        words.insert(words.end(), more.begin(), more.end());
        const json row = parsed(words)["rows"][0];
        return row["bytes_per_second"].get<double>() * row[which].get<double>();
    };
    // Bytes are the same however they are rated.
    const double bytes = work("seconds", {});
    EXPECT_NEAR(work("median_seconds", {"--median"}), bytes, 1e-6 * bytes);
    const json products =
        parsed({"bench", "compare", "--against", "CPU", "--quick", "-t", "1", "--median"});
    EXPECT_GT(products["rows"][0]["ratio"].get<double>(), 0);
    const json model = parsed({"bench", "model", model_, "--quick", "-t", "1", "--prompt-tokens",
                               "4", "--median", "--mapped", "--no-fusion"});
    EXPECT_GT(model["rows"][0]["decode_tokens_per_second"].get<double>(), 0);
}

/// The table of a model has its columns under their titles, however long its name is.
TEST_F(Options, RowsThatComeOneByOneStandUnderTheirTitles) {
    const std::string longer = directory_.path("a-model-with-a-rather-long-name.gguf");
    SmallModel().write(longer);
    const std::string table =
        printed({"bench", "model", longer, "--quick", "-t", "1", "--prompt-tokens", "4"});
    std::smatch found;
    ASSERT_TRUE(std::regex_search(table, found,
                                  std::regex("(model +threads)[^\n]*\n([^\n]*name.gguf +1) ")))
        << table;
    EXPECT_EQ(found[1].length(), found[2].length()) << table;
}

TEST_F(Options, CtrlCEndsAMeasurementBetweenTwoRuns) {
    Session session({"bench", "ops", "MUL_MAT", "--type", "Q4_0", "-t", "1"});
    ASSERT_TRUE(session.sees("MUL_MAT")) << session.screen();
    session.press_ctrl_c();
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(session.status(), 128 + SIGINT);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    EXPECT_THAT(session.screen(), HasSubstr("stopped by Ctrl-C: not all was measured"));
    // A run takes milliseconds; memory that was just asked for, a GiB, is given back, which takes
    // sanitizers longer.
#ifdef HEDDLE_SANITIZED
    constexpr double kSeconds = 60;
#else
    constexpr double kSeconds = 10;
#endif
    EXPECT_LT(took.count(), kSeconds);
}

// ---- verify ------------------------------------------------------------------------------------

TEST_F(Options, VerifyTakesTheOtherDeviceThereIs) {
    const json devices = parsed({"devices"});
    const Outcome outcome = heddle({"verify", model_});
    if (devices["devices"].size() == 1) {
        EXPECT_THAT(outcome.err, HasSubstr("there is no device but CPU; name one to compare it "
                                           "with, such as --on sim"));
        EXPECT_EQ(outcome.status, 1);
    } else {
        EXPECT_THAT(outcome.out, HasSubstr("nodes compared on "));
    }
}

TEST_F(Options, VerifyComputesNodesOneByOneOnly) {
    const auto passed = [&](const Words& more) {
        Words words{"verify", "--golden", HEDDLE_GOLDEN};
        words.insert(words.end(), more.begin(), more.end());
        int count = 0;
        const json report = parsed(words);
        for (const json& row : report["devices"]["CPU"]) count += row.value("passed", 0);
        return count;
    };
    EXPECT_LT(passed({"--no-fusion"}), passed({}));
}

TEST_F(Options, VerifyShowsAsManyNodesAsAskedFor) {
    EXPECT_THAT(printed({"verify", model_, "--on", "sim", "--worst", "2"}),
                HasSubstr("nodes compared on "));
    EXPECT_THAT(refusal({"verify", model_, "--on", "sim", "--worst", "-2"}),
                HasSubstr("--worst: '-2' is not a whole number from 0 to "));
}

TEST_F(Options, VerifyTakesTheFileOfAPlugin) {
    const json plugins = parsed({"devices"})["plugins"];
    std::string sim;
    for (const json& each : plugins) {
        if (each["name"] == "sim") sim = each["path"];
    }
    if (sim.empty()) GTEST_SKIP() << "the plug-in sim is not built";
    EXPECT_THAT(printed({"verify", "-d", sim, "--op", "ADD", "--cases", "1"}),
                AllOf(HasSubstr("SIM0"), HasSubstr(" passed, 0 failed")));
    EXPECT_THAT(refusal({"verify", "-d", "/nowhere/libggml-loom.so"}),
                HasSubstr("libggml-loom.so"));
}

// ---- other machines ----------------------------------------------------------------------------

TEST_F(Options, LaunchPrintsTheLineForMpirun) {
    EXPECT_EQ(printed({"launch", "--hosts", "localhost", "--mpirun", "--", "heddle", "devices"}),
              "mpirun --bind-to none --host localhost:1,localhost:1 -n 1 heddle devices : -n 1 "
              "heddle worker\n");
}

TEST_F(Options, AWorkerDescribesItselfWhateverElseItIsTold) {
    const json told =
        json::parse(printed({"worker", "--describe", "--threads", "1", "--keep-binding"}));
    EXPECT_GE(told["devices"].size(), 1u);
    EXPECT_THAT(refusal({"worker", "--threads", "0"}), HasSubstr("whole number from 1 to 4096"));
}

}  // namespace
}  // namespace heddle::cli_test
