#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model_test.hpp"

/// What each command prints for input that is fine.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

class Commands : public ModelTest {
protected:
    /// What the program prints; it must not fail.
    static std::string printed(const std::vector<std::string>& words) {
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << testing::PrintToString(words) << outcome.err;
        return outcome.out;
    }
    static json parsed(const std::vector<std::string>& words) {
        const std::string text = printed(words);
        json value = json::parse(text, nullptr, false);
        EXPECT_FALSE(value.is_discarded()) << text;
        return value;
    }

    /// What `devices --json` says of the plug-in with this name, or with this in its path; null if
    /// nothing.
    static json plugin_record(const std::string& words, const std::vector<std::string>& more = {}) {
        std::vector<std::string> command{"devices", "--json"};
        command.insert(command.end(), more.begin(), more.end());
        const json all = parsed(command);
        for (const json& record : all["plugins"]) {
            const std::string path = record["path"];
            if (record["name"] == words || path.find(words) != std::string::npos) return record;
        }
        return nullptr;
    }

    /// A plug-in of the tests, such as "good", where this test has its files.
    std::string put_plugin(const std::string& plugin, const std::string& as) const {
        std::filesystem::copy_file(std::string(HEDDLE_TEST_PLUGINS "/") + plugin + ".so", path(as));
        return path(as);
    }
};

/// A variable of the environment, for the time of a test.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        setenv(name, value.c_str(), 1);
    }
    ~Variable() { unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
};

TEST_F(Commands, EveryOneHasHelp) {
    const std::string all = printed({"--help"});
    for (const char* command :
         {"bench", "devices", "explain", "inspect", "quantize", "run", "verify", "completion"}) {
        EXPECT_THAT(all, HasSubstr(std::string("\n  ") + command));
        EXPECT_THAT(printed({command, "--help"}), HasSubstr("Usage:")) << command;
    }
    EXPECT_THAT(printed({"manual", "--help"}), HasSubstr("Usage:"));  // for packagers: not listed
    EXPECT_THAT(all, HasSubstr("Exit status:"));
    EXPECT_THAT(printed({"--version"}),
                testing::MatchesRegex("heddle [0-9.]+ \\(commit [0-9a-z]+\\), interface of ggml "
                                      "[0-9.]+\n"));
}

TEST_F(Commands, DevicesListsTheProcessor) {
    EXPECT_THAT(printed({"devices"}), testing::ContainsRegex("\nCPU +cpu "));
    const json all = parsed({"devices", "--json"});
    const json& types = all["devices"].back()["buffer_types"];
    ASSERT_FALSE(types.empty());
    EXPECT_EQ(types[0]["use"], "default");
    EXPECT_TRUE(types[0]["host"]);
    EXPECT_GT(types[0]["alignment"], 0);
    EXPECT_EQ(all["devices"].back()["name"], "CPU");
    EXPECT_GT(all["devices"].back()["memory_total"], 0);
    EXPECT_TRUE(all["plugins"].is_array());
}

TEST_F(Commands, DevicesTellsAllIfAskedTo) {
    // A plug-in that is none.
    write_content(path("libggml-loom.so"), "threads");
    const Variable variable("GGML_BACKEND_PATH", path("libggml-loom.so"));
    const std::string text = printed({"devices", "-v"});
    EXPECT_THAT(text, HasSubstr("\nCPU\n"));
    for (const char* line :
         {"  memory +[0-9.]+ [KMGT]iB, [0-9.]+ [KMGT]iB free\n",
          "  buffers +CPU \\(default; memory of the host, aligned to [0-9]+ bytes",
          "  can +uses memory of the program in place\n", "  features +[A-Z0-9]",
          "\nCPU +(built in|loaded)", "\n\\? +rejected +[^ ]*libggml-loom.so +[a-z]"}) {
        EXPECT_THAT(text, testing::ContainsRegex(line));
    }
    EXPECT_THAT(printed({"devices"}), testing::Not(HasSubstr("features")));
}

TEST_F(Commands, DevicesListsTheProcessorAloneWhereThereIsNothingElse) {
    const json all = parsed({"devices", "--json"});
    for (const json& record : all["plugins"]) {
        if (record["status"] == "loaded") GTEST_SKIP() << "this machine has more devices";
    }
    ASSERT_EQ(all["devices"].size(), 1u);
    EXPECT_EQ(all["devices"][0]["name"], "CPU");
}

TEST_F(Commands, DevicesNamesThePluginsThatAreLoadedOnRequest) {
    const json sim = plugin_record("sim");
    if (sim.is_null()) GTEST_SKIP() << "built without plug-ins";
    EXPECT_EQ(sim["status"], "on request");
    EXPECT_EQ(sim["reason"], "is loaded when it is asked for by name");
    EXPECT_THAT(printed({"devices", "-v"}),
                testing::ContainsRegex("\nsim +on request +[^ ]*libggml-sim.so"));
    const Variable variable("HEDDLE_BACKENDS", "sim:devices=2,mem=1G");
    const std::string text = printed({"devices", "-v"});
    EXPECT_THAT(text, testing::ContainsRegex("\nSIM1 +gpu +1.0 GiB"));
    EXPECT_THAT(text, testing::ContainsRegex("\nSIM +loaded +[^ ]*libggml-sim.so"));
}

TEST_F(Commands, SayWhatInAListOfRequestsIsNotThere) {
    const Variable variable("HEDDLE_BACKENDS", "loom");
    const Outcome outcome = heddle({"devices"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "HEDDLE_BACKENDS: there is no plug-in for 'loom'\n");
}

TEST_F(Commands, BlasComesWhenItIsNamed) {
    if (plugin_record("blas").is_null()) GTEST_SKIP() << "there is no BLAS";
    for (const char* name : {"BLAS", "blas"}) {
        const json all = parsed({"verify", "--device", name, "--op", "MUL_MAT", "--json"});
        EXPECT_EQ(all["failed"], 0) << name;
    }
    const Variable variable("HEDDLE_BACKENDS", "BLAS");
    EXPECT_THAT(printed({"devices"}), testing::ContainsRegex("\nBLAS +accel "));
}

TEST_F(Commands, TakePluginsBeforeAndBehindTheCommand) {
    const std::string good = put_plugin("good", "good.so"), other = put_plugin("other", "other.so");
    for (const auto& words : {std::vector<std::string>{"--plugin", good, "devices"},
                              {"devices", "--plugin", good},
                              {"--plugin", other, "devices", "--plugin", good}}) {
        EXPECT_THAT(printed(words), HasSubstr("\ngood1 ")) << testing::PrintToString(words);
    }
    EXPECT_THAT(printed({"--plugin", other, "devices", "--plugin", good}), HasSubstr("\nother0 "));
    EXPECT_EQ(plugin_record("good.so", {"--plugin", good})["status"], "loaded");
    EXPECT_EQ(heddle({"bench", "sched", "--quick", "--plugin", good}).status, 0);

    const Outcome outcome = heddle({"devices", "--plugin", path("nowhere.so")});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err,
              "heddle devices: --plugin " + path("nowhere.so") + ": there is no such file\n");
}

TEST_F(Commands, LoadTheRestOfAListWithABrokenPath) {
    const std::string good = put_plugin("good", "good.so"), other = put_plugin("other", "other.so");
    const Variable variable("GGML_BACKEND_PATH", good + ":" + path("nowhere.so") + "::" + other);
    const Outcome outcome = heddle({"devices"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, testing::AllOf(HasSubstr("\ngood0 "), HasSubstr("\nother0 ")));
    EXPECT_EQ(outcome.err,
              "GGML_BACKEND_PATH: " + path("nowhere.so") + ": there is no such file\n");
    EXPECT_EQ(plugin_record("nowhere.so")["status"], "rejected");
}

TEST_F(Commands, SurvivePluginsThatDoNotComeBackFromLoading) {
    const std::string aborting = put_plugin("aborting", "aborting.so"),
                      hanging = put_plugin("hanging", "hanging.so"),
                      good = put_plugin("good", "good.so");
    const Variable limit("HEDDLE_PLUGIN_TRIAL", "1"),
        list("GGML_BACKEND_PATH", aborting + ":" + hanging + ":" + good);
    const Outcome outcome = heddle({"devices"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, HasSubstr("\ngood0 "));
    EXPECT_THAT(outcome.err, HasSubstr(aborting + ": ended with SIGABRT while it was loaded (in "
                                                  "ggml_backend_init); it said: of another age\n"));
    EXPECT_THAT(outcome.err, HasSubstr(hanging + ": was not done after 1 s while it was loaded (in "
                                                 "ggml_backend_init)\n"));
}

TEST_F(Commands, NameTheDeviceOfAPluginThatClaimsAnOpAndFails) {
    const Outcome outcome = heddle({"verify", "--plugin", put_plugin("liar", "liar.so"), "--device",
                                    "liar0", "--op", "ADD", "--cases", "1"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.out + outcome.err,
                testing::AllOf(HasSubstr("liar0"), HasSubstr("ADD"), HasSubstr("failed")));
}

TEST_F(Commands, InspectShowsKeysAndTensors) {
    const std::string text = printed({"inspect", model_});
    EXPECT_THAT(text, HasSubstr("general.architecture"));
    EXPECT_THAT(text, HasSubstr("blk.1.ffn_down.weight"));
    EXPECT_THAT(text, HasSubstr("64 x 32"));
    const json all = parsed({"inspect", "--json", model_});
    EXPECT_EQ(all["metadata"]["llama.block_count"], SmallModel::kLayers);
    EXPECT_EQ(all["metadata"]["tokenizer.ggml.tokens"].size(), 259u);
    EXPECT_EQ(all["tensors"].size(), 20u);
    EXPECT_EQ(all["tensors"][0]["name"], "token_embd.weight");
    EXPECT_EQ(all["tensors"][0]["shape"], json({32, 259}));
}

TEST_F(Commands, QuantizeWritesAModelThatRuns) {
    const std::string smaller = path("q8.gguf");
    EXPECT_THAT(printed({"quantize", model_, smaller, "Q8_0", "-t", "2"}),
                HasSubstr("15 of 20 tensors"));
    const json all = parsed({"inspect", "--json", smaller});
    for (const json& tensor : all["tensors"]) {
        EXPECT_EQ(tensor["type"], tensor["shape"].size() == 2 ? "q8_0" : "f32") << tensor["name"];
    }
    EXPECT_EQ(parsed({"run", smaller, "-p", "a", "-n", "3", "--temperature", "0", "--json"})["ids"]
                  .size(),
              3u);
}

TEST_F(Commands, RunContinuesAText) {
    const std::vector<std::string> words{"run", model_,          "-p", "ab", "-n",
                                         "5",   "--temperature", "0"};
    const Outcome outcome = heddle(words);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, StartsWith("ab"));
    EXPECT_THAT(outcome.err, HasSubstr("prefill"));
    EXPECT_THAT(outcome.err, HasSubstr("tokens at"));

    auto as_json = words;
    as_json.emplace_back("--json");
    const json all = parsed(as_json);
    // <s>, a space, and the two bytes.
    EXPECT_EQ(all["prompt_ids"].front(), 1);
    EXPECT_EQ(all["prompt_ids"].back(), 3 + 'b');
    EXPECT_LE(all["ids"].size(), 5u);
    EXPECT_EQ(all["placement"]["layers"].size(), 2u);
    EXPECT_GT(all["speeds"]["prefill_tokens_per_second"], 0);
}

TEST_F(Commands, RunWritesThePageOfItsSchedule) {
    printed({"run", model_, "-p", "a", "-n", "2", "-q", "--html", path("page.html")});
    const std::string page = content_of(path("page.html"));
    EXPECT_THAT(page, HasSubstr("<html"));
    EXPECT_THAT(page, HasSubstr("\"command\":\"heddle run "));
    EXPECT_THAT(page, HasSubstr("\"model\":\"" + model_.substr(model_.find_last_of('/') + 1)));
    EXPECT_THAT(printed({"run", model_, "-p", "a", "-n", "2", "--explain"}), HasSubstr("splits"));
    parsed({"run", model_, "-p", "a", "-n", "2", "--json", "--explain"});  // one object, no more
}

TEST_F(Commands, RunWithTheSameSeedGivesTheSameText) {
    const std::vector<std::string> words{
        "run", model_, "-p", "a", "-n", "12", "-q", "--seed", "5", "--temperature", "1.5"};
    EXPECT_EQ(printed(words), printed(words));
}

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.content + eos_token if m.role == 'assistant' else "
    "'[INST] ' + m.content + ' [/INST]' }}{% endfor %}";

TEST_F(Commands, RunTalksLineByLineAndRemembers) {
    SmallModel{.chat_template = kTemplate}.write(path("chat.gguf"));
    const std::vector<std::string> words{"run", path("chat.gguf"), "-i", "-n",    "3",
                                         "-q",  "--temperature",   "0",  "--json"};
    const auto talk = [&](const std::string& lines) {
        const Outcome outcome = heddle(words, lines);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    };
    const json both = talk("hi\n\nyo\n/quit\nnever read\n");
    ASSERT_FALSE(both.is_discarded());
    std::vector<int> expected{1};
    const auto add = [&](std::string_view text) {
        for (const char c : text) expected.push_back(3 + static_cast<unsigned char>(c));
    };
    // The space that begins a text is three bytes, as there is no piece for it.
    constexpr std::string_view kSpace = "\xE2\x96\x81";
    const auto spaced = [&](std::string text) {
        for (std::size_t at = 0; (at = text.find(' ', at)) != text.npos; at += kSpace.size()) {
            text.replace(at, 1, kSpace);
        }
        return text;
    };
    add(spaced(" [INST] hi [/INST]"));
    const std::size_t first = expected.size();
    expected.push_back(2);  // the end of the answer
    add(spaced("[INST] yo [/INST]"));
    EXPECT_EQ(both["prompt_ids"], json(expected));
    const json one = talk("hi\n");
    EXPECT_EQ(one["prompt_ids"].size(), first);
    const std::size_t count = one["ids"].size();
    EXPECT_TRUE(std::equal(one["ids"].begin(), one["ids"].end(), both["ids"].begin()));
    EXPECT_GT(both["ids"].size(), count);
    // What was cut off by the number of tokens was said all the same: it is read with the rest.
    EXPECT_EQ(both["speeds"]["prefill_tokens"], expected.size() + (count == 3 ? 1 : 0));
}

TEST_F(Commands, RunAnswersLinesOfAFileWithoutPrompts) {
    const Outcome outcome =
        heddle({"run", model_, "-i", "-n", "2", "-q", "--temperature", "0"}, "a\nb\n");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, testing::Not(StartsWith("> ")));
    EXPECT_GE(std::ranges::count(outcome.out, '\n'), 2);
}

TEST_F(Commands, RunTakesNoWordsOfTheUserForTheTemplates) {
    SmallModel{.chat_template = kTemplate}.write(path("chat.gguf"));
    std::vector<std::string> words{"run", path("chat.gguf"), "--json", "-n",
                                   "1",   "--temperature",   "0"};
    const auto ends_in = [](const json& said) {
        return std::ranges::count(said["prompt_ids"], json(2));  // </s>
    };
    const Outcome talk = [&] {
        auto interactive = words;
        interactive.emplace_back("-i");
        return heddle(interactive, "a</s>b\n<s></s>\n");
    }();
    ASSERT_EQ(talk.status, 0) << talk.err;
    EXPECT_EQ(ends_in(json::parse(talk.out)), 1) << "that of the template, after the answer";
    words.insert(words.end(), {"--chat", "-p", "</s>", "--system", "</s>"});
    EXPECT_EQ(ends_in(parsed(words)), 0);
}

TEST_F(Commands, RunForgetsTheOldestMessagesWhenTheContextIsFull) {
    // Marks so short that half of the context holds more than the last message.
    SmallModel{.chat_template =
                   "{% for m in messages %}{{ m.content + eos_token if m.role == "
                   "'assistant' else '[' + m.content + ']' }}{% endfor %}"}
        .write(path("chat.gguf"));
    std::string lines;
    for (char c = 'a'; c < 'i'; ++c) lines += std::string(6, c) + "\n";
    const Outcome outcome = heddle(
        {"run", path("chat.gguf"), "-i", "-n", "4", "-q", "--temperature", "0", "--json"}, lines);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("[the oldest messages no longer fit into the context of 64 "
                                       "tokens; left out: "));
    const json all = json::parse(outcome.out);
    std::ptrdiff_t most = 0;
    for (char c = 'a'; c < 'i'; ++c) {
        const auto times = std::ranges::count(all["prompt_ids"], json(3 + c));
        EXPECT_GE(times, 6) << "each is read";
        most = std::max(most, times);
    }
    EXPECT_GE(most, 12) << "some are read again";
}

TEST_F(Commands, RunGoesOnAtATerminalAfterAMessageThatDoesNotFit) {
    const std::string lines = std::string(200, 'a') + "\nab\n/quit\n";
    const std::vector<std::string> words{"run", model_, "-i", "-n", "1", "-q", "--json"};
    const Outcome outcome = heddle_at_terminal(words, lines);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.err,
                StartsWith("the prompt is 204 tokens long, the context has room for "));
    ASSERT_THAT(outcome.out, StartsWith("> > > {"));
    EXPECT_EQ(json::parse(outcome.out.substr(6))["prompt_ids"].size(), 6u) << "of the second alone";
    // Nobody is there to read what a file's lines come to.
    EXPECT_EQ(heddle(words, lines).status, 1);
}

TEST_F(Commands, RunEndsWhereTheContextDoes) {
    const Outcome outcome =
        heddle({"run", model_, "-p", "ab", "-n", "1000", "-q", "--temperature", "0", "--json"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const json all = json::parse(outcome.out);
    // The last token is written without being read.
    EXPECT_EQ(all["prompt_ids"].size() + all["ids"].size(), 64u + 1);
    EXPECT_EQ(
        outcome.err,
        "[the text ends here: the context of 64 tokens is full; --context makes more room]\n");
    const Outcome exact =
        heddle({"run", model_, "-p", "ab", "-n", "5", "-q", "--temperature", "0"});
    EXPECT_EQ(exact.err, "") << "the number of tokens came first";
}

TEST_F(Commands, ExplainTellsPlacementAndMemory) {
    const std::string text = printed({"explain", model_, "--device", "CPU"});
    EXPECT_THAT(text, HasSubstr("all layers on CPU"));
    EXPECT_THAT(text, testing::ContainsRegex("device +weights +cache +compute +total"));
    EXPECT_THAT(text, HasSubstr("placed by rules"));

    const json all = parsed({"explain", model_, "--json", "--device", "CPU", "-c", "32"});
    const json& memory = all["memory"][0];
    // 2 layers of keys and values, 16 wide, 32 tokens, 2 bytes each.
    EXPECT_EQ(memory["cache"], 2 * 2 * 16 * 32 * 2);
    EXPECT_GT(memory["weights"], 0);
    EXPECT_GT(memory["compute"], 0);
    EXPECT_EQ(memory["total"], memory["weights"].get<std::size_t>() +
                                   memory["cache"].get<std::size_t>() +
                                   memory["compute"].get<std::size_t>());
    EXPECT_TRUE(all["fits"]);
    EXPECT_EQ(all["schedule"]["measured_seconds"], 0);
}

TEST_F(Commands, ExplainForeseesWhatRunDoes) {
    for (const char* devices : {"CPU", "sim:devices=2"}) {
        const json foreseen = parsed({"explain", model_, "--json", "-d", devices});
        const json measured = parsed({"explain", model_, "--json", "-d", devices, "--run"});
        const json happened =
            parsed({"run", model_, "--json", "-d", devices, "-p", "a", "-n", "2"});
        EXPECT_EQ(foreseen["placement"]["layers"], happened["placement"]["layers"]);
        EXPECT_EQ(foreseen["schedule"]["splits"].size(), happened["placement"]["splits"]);
        EXPECT_EQ(foreseen["schedule"]["splits"].size(), measured["schedule"]["splits"].size());
        EXPECT_GT(measured["schedule"]["measured_seconds"], 0);
    }
}

TEST_F(Commands, ExplainSaysWhatDoesNotFit) {
    // The largest context there is needs 2 GiB of cache; a device of 1 MiB gets none of it.
    const json all = parsed({"explain", model_, "--json", "-c", "16777216", "-d", "sim:mem=1M"});
    const json &host = all["memory"][0], &device = all["memory"][1];
    EXPECT_GE(host["cache"], std::size_t{2} << 30);
    EXPECT_EQ(host["fits"], host["total"] <= host["free"]);
    EXPECT_EQ(device["device"], "SIM0");
    EXPECT_EQ(device["weights"], 0);
    EXPECT_TRUE(device["fits"]);
}

TEST_F(Commands, ABudgetHoldsWeightsCacheAndResults) {
    for (const char* budget : {"150K", "200K", "300K"}) {
        const std::vector<std::string> devices{"-d", "sim:devices=1", "--budget",
                                               std::string("SIM0=") + budget};
        std::vector<std::string> explain{"explain", model_, "--json"},
            run{"run", model_, "--json", "-p", std::string(50, 'a'), "-n", "2"};
        explain.insert(explain.end(), devices.begin(), devices.end());
        run.insert(run.end(), devices.begin(), devices.end());
        const json foreseen = parsed(explain), happened = parsed(run);
        EXPECT_LE(foreseen["memory"][1]["total"], foreseen["memory"][1]["budget"]) << budget;
        EXPECT_EQ(foreseen["placement"]["layers"], happened["placement"]["layers"]) << budget;
        EXPECT_EQ(happened["placement"]["layers"].back(), "SIM0") << budget;
    }
}

TEST_F(Commands, ExplainWritesPages) {
    const std::string html = path("a.html"), dot = path("a.dot"), trace = path("a.json");
    printed({"explain", model_, "--html", html, "--dot", dot, "--run", "--trace", trace});
    EXPECT_THAT(content_of(html), HasSubstr("<html"));
    EXPECT_THAT(content_of(dot), StartsWith("digraph"));
    EXPECT_GT(json::parse(content_of(trace))["traceEvents"].size(), 1u);
    EXPECT_THAT(printed({"explain", model_, "--nodes"}), HasSubstr("FLASH_ATTN_EXT"));
    EXPECT_THAT(printed({"explain", model_, "--schedule"}), HasSubstr("description"));
}

TEST_F(Commands, VerifyComparesAModelOnTwoDevices) {
    EXPECT_THAT(printed({"verify", model_, "--on", "sim", "--against", "CPU"}),
                HasSubstr("all results are equal"));
    const json all = parsed({"verify", model_, "--on", "sim", "--drift", "--json"});
    EXPECT_TRUE(all["passed"]);
    EXPECT_GT(all["nodes"].size(), 30u);
    EXPECT_EQ(all["on"], "SIM0");
}

TEST_F(Commands, VerifyNamesTheFirstNodePastTolerance) {
    if (plugin_record("blas").is_null()) GTEST_SKIP() << "needs a device that rounds its own way";
    // BLAS does not round what meets weights of f16, so some error is sure.
    printed({"quantize", model_, path("f16.gguf"), "F16"});
    const Outcome outcome = heddle({"verify", path("f16.gguf"), "--on", "BLAS", "--tolerance", "0",
                                    "-p", std::string(60, 'a')});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.out, testing::ContainsRegex("the first past 0.0e\\+00 is node [0-9]+"));
}

TEST_F(Commands, VerifyRefusesToCompareNothing) {
    const Outcome outcome = heddle({"verify", model_, "--on", "sim:devices=1,ops=none"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("nothing to compare: SIM0 declines all"));
}

TEST_F(Commands, VerifyChecksGeneratedCases) {
    EXPECT_THAT(printed({"verify", "--op", "add", "--cases", "1"}), HasSubstr(" 0 failed"));
    EXPECT_EQ(parsed({"verify", "--op", "add", "--cases", "1", "--json"})["failed"], 0);
}

}  // namespace
}  // namespace heddle::cli_test
