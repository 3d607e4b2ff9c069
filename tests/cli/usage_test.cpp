#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "model_test.hpp"

/// What the program makes of the words people type, and how it looks on a terminal.
namespace heddle::cli_test {
namespace {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The one line that a command line gets which means nothing.
std::string refusal(const std::vector<std::string>& words) {
    const Outcome outcome = heddle(words);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    return outcome.err;
}

TEST(Usage, AMistypedCommandGetsTheOneThatWasMeant) {
    EXPECT_EQ(refusal({"rum"}),
              "heddle: there is no command 'rum'; did you mean 'run'? (heddle --help)\n");
    EXPECT_EQ(refusal({"bench", "opps"}),
              "heddle bench: there is no command 'opps'; did you mean 'ops'? (heddle bench "
              "--help)\n");
    EXPECT_EQ(refusal({"xylophone"}), "heddle: there is no command 'xylophone' (heddle --help)\n");
}

TEST(Usage, AMistypedOptionGetsTheOneThatWasMeant) {
    EXPECT_EQ(refusal({"run", "m.gguf", "--promt", "hi"}),
              "heddle run: there is no option --promt; did you mean '--prompt'? (heddle run "
              "--help)\n");
    EXPECT_THAT(refusal({"run", "m.gguf", "--jsno"}), HasSubstr("did you mean '--json'?"));
    EXPECT_THAT(refusal({"run", "m.gguf", "-Z"}), HasSubstr("there is no option -Z"));
    EXPECT_THAT(refusal({"run", "m.gguf", "--plugn", "x"}), HasSubstr("'--plugin'"));
}

TEST(Usage, NumbersOutOfRangeAreToldTheRange) {
    EXPECT_THAT(refusal({"run", "m.gguf", "-n", "-1"}),
                HasSubstr("--tokens: '-1' is not a whole number from 0 to 1073741824"));
    EXPECT_THAT(refusal({"run", "m.gguf", "--temperature", "hot"}),
                HasSubstr("--temperature: 'hot' is not a number from 0 to 1000000"));
    EXPECT_THAT(refusal({"run", "m.gguf", "-t", "2.5"}), HasSubstr("'2.5' is not a whole number"));
}

TEST(Usage, WordsTooManyAndTooFewAreNamed) {
    EXPECT_THAT(refusal({"inspect", "a.gguf", "b.gguf"}),
                HasSubstr("'b.gguf' is one word too many; quote what belongs together"));
    EXPECT_THAT(refusal({"inspect"}), HasSubstr("model is required"));
    EXPECT_THAT(refusal({"bench"}), HasSubstr("a command is missing"));
}

TEST(Usage, WhatIsSaidAgainCounts) {
    EXPECT_THAT(refusal({"run", "m.gguf", "-n", "5", "-n", "-1"}),
                HasSubstr("'-1' is not a whole"));
    EXPECT_EQ(heddle({"run", "nowhere.gguf", "--temperature", "1", "--temperature", "0"}).status,
              1);
}

TEST(Usage, ValuesMayLookLikeOptions) {
    // Nothing is taken for an option that is the value of another one.
    const Outcome outcome = heddle({"run", "nowhere.gguf", "--prompt", "--promt", "-n", "1"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("nowhere.gguf: cannot be opened"));
}

/// The text that a small model writes.
class Synonyms : public ModelTest {
protected:
    std::string text(std::vector<std::string> words) {
        const Outcome outcome = heddle(words);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.out;
    }
};

TEST_F(Synonyms, NamesOfLlamaCppWork) {
    const std::string ours = text({"run", model_, "--prompt", "ab", "--tokens", "5",
                                   "--temperature", "0", "--context", "64", "--device", "CPU"});
    EXPECT_EQ(text({"run", "-m", model_, "-p", "ab", "--n-predict", "5", "--temp", "0",
                    "--ctx-size", "64", "-ngl", "0"}),
              ours);
    EXPECT_EQ(text({"run", "--model=" + model_, "-p", "ab", "--predict=5", "--temp=0", "-c", "64",
                    "--n-gpu-layers", "99", "-d", "CPU"}),
              ours);
}

TEST_F(Synonyms, ThePromptMayStandBehindTheModel) {
    const std::vector<std::string> rest{"-n", "4", "--temperature", "0"};
    std::vector<std::string> word{"run", model_, "ab"}, option{"run", model_, "-p", "ab"};
    word.insert(word.end(), rest.begin(), rest.end());
    option.insert(option.end(), rest.begin(), rest.end());
    EXPECT_EQ(text(word), text(option));
}

TEST_F(Synonyms, SomeLayersAreAnsweredWithWhatToSayInstead) {
    EXPECT_THAT(refusal({"run", model_, "-ngl", "12"}), HasSubstr("--budget"));
}

TEST_F(Synonyms, BenchOfAFileIsBenchOfAModel) {
    const Outcome outcome = heddle({"bench", model_, "--quick", "--json"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(nlohmann::json::accept(outcome.out));
}

TEST(Help, IsGivenByTheCommandHelpToo) {
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{}, {"run"}, {"bench"}, {"bench", "ops"}}) {
        std::vector<std::string> asked{"help"}, option = command;
        asked.insert(asked.end(), command.begin(), command.end());
        option.emplace_back("--help");
        EXPECT_EQ(heddle(asked).out, heddle(option).out);
        EXPECT_EQ(heddle(asked).status, 0);
    }
    EXPECT_EQ(heddle({}).out, heddle({"--help"}).out);
}

TEST(Help, HasGroupsDefaultsAndExamples) {
    const std::string text = heddle({"run", "--help"}).out;
    EXPECT_THAT(text, HasSubstr("\nUsage: heddle run MODEL [PROMPT] [options]\n"));
    for (const char* group : {"\nText:\n", "\nSampling:\n", "\nDevices:\n", "\nOutput:\n"}) {
        EXPECT_THAT(text, HasSubstr(group));
    }
    EXPECT_THAT(text, HasSubstr("--top-k N           Choose among so many; 0: all (default 40)\n"));
    EXPECT_THAT(text,
                HasSubstr("-n, --tokens N          Tokens to generate, at most (default 128;"));
    EXPECT_THAT(text, Not(HasSubstr("INT")));
    EXPECT_THAT(text, Not(HasSubstr("Needs:")));
}

/// The command and all that the help lists below it.
std::vector<std::vector<std::string>> commands_below(const std::vector<std::string>& command) {
    std::vector<std::vector<std::string>> all{command};
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    const std::string text = heddle(words).out;
    const std::size_t at = text.find("\nCommands:\n");
    if (at == std::string::npos) return all;
    std::istringstream lines(text.substr(at + 11, text.find("\n\n", at + 11) - at - 11));
    for (std::string line; std::getline(lines, line);) {
        if (line.size() < 3 || line[2] == ' ') continue;  // a description goes on
        std::vector<std::string> inner = command;
        inner.push_back(line.substr(2, line.find(' ', 2) - 2));
        for (auto& each : commands_below(inner)) all.push_back(std::move(each));
    }
    return all;
}

TEST(Help, OfEveryCommandHasTwoExamplesAndFitsATerminal) {
    const auto commands = commands_below({});
    EXPECT_GE(commands.size(), 17u) << testing::PrintToString(commands);
    for (const std::vector<std::string>& command : commands) {
        std::vector<std::string> words = command;
        words.emplace_back("--help");
        const std::string text = heddle(words).out;
        const std::size_t at = text.find("\nExamples:\n");
        ASSERT_NE(at, std::string::npos) << text;
        const std::string examples = text.substr(at);
        EXPECT_THAT(examples, ContainsRegex("\n  [^ ][^\n]+\n      [^\n]+\n  [^ ][^\n]+\n      "))
            << text;
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 90u) << line;
    }
}

/// What a terminal shows that got `bytes`: carriage returns and cleared lines carried out.
std::vector<std::string> screen_of(const std::string& bytes) {
    std::vector<std::string> lines(1);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes.compare(i, 3, "\x1b[K") == 0) {
            i += 2;
        } else if (bytes[i] == '\n') {
            lines.emplace_back();
        } else if (bytes[i] == '\r') {
            // The program always clears the line as well; the terminal sends \r\n for \n.
            if (bytes.compare(i + 1, 3, "\x1b[K") == 0) lines.back().clear();
        } else {
            lines.back() += bytes[i];
        }
    }
    return lines;
}

TEST_F(Synonyms, ResultsAreNotGluedToTheProgressBar) {
    const std::string smaller = directory_.path("q.gguf");
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"quantize", model_, smaller, "Q8_0"},
                                               {"bench", "ceilings", "--quick"},
                                               {"run", model_, "-p", "ab", "-n", "3"}}) {
        const Outcome outcome = heddle_on_screen(words);
        EXPECT_EQ(outcome.status, 0) << outcome.out;
        EXPECT_THAT(outcome.out, HasSubstr("\r\x1b[K")) << words[0] << " shows no bar";
        for (const std::string& line : screen_of(outcome.out)) {
            EXPECT_THAT(line, Not(ContainsRegex("\\[#*\\.*\\] [0-9]+/"))) << words[0];
        }
    }
}

TEST_F(Synonyms, TheBarIsDrawnAFewTimesASecond) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = heddle_on_screen({"run", model_, "-p", "ab", "-n", "1"});
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const std::regex bar("\\[#*\\.*\\] [0-9]+/");
    const auto drawn = std::distance(
        std::sregex_iterator(outcome.out.begin(), outcome.out.end(), bar), std::sregex_iterator());
    EXPECT_LE(static_cast<double>(drawn), 1 + 20 * seconds);
}

TEST(Screen, ListOfDevicesNamesThoseOnRequest) {
    const nlohmann::json plugins =
        nlohmann::json::parse(heddle({"devices", "--json"}).out)["plugins"];
    const bool has_sim = std::ranges::any_of(plugins, [](const nlohmann::json& each) {
        return each["name"] == "sim" && each["status"] == "on request";
    });
    if (!has_sim) GTEST_SKIP() << "the plug-in sim is not built";
    EXPECT_THAT(heddle_on_screen({"devices"}).out, HasSubstr("[on request, with --device: "));
    EXPECT_EQ(heddle({"devices"}).err, "") << "scripts have no use for it";
}

}  // namespace
}  // namespace heddle::cli_test
