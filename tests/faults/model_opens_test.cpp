// How often the program `heddle` opens and maps the model it was given: once.

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/cli/small_model.hpp"
#include "tests/faults/fault_points.hpp"
#include "tests/faults/preloaded.hpp"
#include "tests/faults/shared_counter.hpp"

namespace heddle::faults {
namespace {

using cli_test::Directory;
using cli_test::Outcome;

/// A command line. Words that begin with @ are files of the directory it runs in.
struct Command {
    const char* name;
    std::vector<std::string> words;
    friend void PrintTo(const Command& self, std::ostream* out) { *out << self.name; }
};

class ModelOpens : public testing::TestWithParam<Command> {
protected:
    ModelOpens() : counter_(apart_.path("counter")) {
        setenv("LD_PRELOAD", HEDDLE_FAULTS_LIBRARY, 1);
        setenv(kReportVariable, apart_.path("report").c_str(), 1);
        model_.chat_template = "{{ messages[0]['content'] }}";
        model_.write(here_.path("model.gguf"));
        watch(here_.path("model.gguf"));
    }
    ~ModelOpens() override { unsetenv("LD_PRELOAD"); }

    Outcome run(std::vector<std::string> words) const {
        for (std::string& word : words) {
            if (word[0] == '@') word = here_.path(word.substr(1));
        }
        return cli_test::heddle(words);
    }

    const Directory apart_, here_;
    SharedCounter counter_;
    cli_test::SmallModel model_;
};

TEST_P(ModelOpens, AreOneAndSoAreMappings) {
    const Outcome outcome = run(GetParam().words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(watched_opens(), 1);
    EXPECT_EQ(watched_mappings(), 1);
}

const Command kCommands[] = {
    {"run", {"run", "@model.gguf", "-p", "ab", "-n", "3", "-q"}},
    {"run_text", {"run", "@model.gguf", "-p", "ab", "-n", "3", "-q", "--no-chat"}},
    {"run_mapped", {"run", "@model.gguf", "-p", "ab", "-n", "3", "-q", "--mapped"}},
    {"run_on_sim", {"run", "@model.gguf", "-p", "ab", "-n", "3", "-q", "-d", "sim:devices=2"}},
    {"run_html", {"run", "@model.gguf", "-p", "ab", "-n", "3", "-q", "--html", "@out.html"}},
    {"explain", {"explain", "@model.gguf", "-d", "sim"}},
    {"explain_run", {"explain", "@model.gguf", "-d", "sim", "--run"}},
    {"inspect", {"inspect", "@model.gguf"}},
    {"quantize", {"quantize", "@model.gguf", "@out.gguf", "Q8_0"}},
    {"verify", {"verify", "@model.gguf", "--on", "CPU", "-p", "ab"}},
    {"verify_text", {"verify", "@model.gguf", "--on", "CPU", "-p", "ab", "--tokens", "2"}},
    {"bench", {"bench", "model", "@model.gguf", "--quick", "-t", "1,2", "--prompt", "8"}},
};

INSTANTIATE_TEST_SUITE_P(Commands, ModelOpens, testing::ValuesIn(kCommands),
                         [](const auto& info) { return info.param.name; });

using ModelOpensCounter = ModelOpens;

TEST_P(ModelOpensCounter, SeesEveryOpen) {
    run(GetParam().words);
    EXPECT_EQ(watched_opens(), 2);
    EXPECT_EQ(watched_mappings(), 1);
}

// The model once more, as a prompt that is read through a stream.
INSTANTIATE_TEST_SUITE_P(Commands, ModelOpensCounter,
                         testing::Values(Command{
                             "twice", {"run", "@model.gguf", "-f", "@model.gguf", "-n", "1"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace heddle::faults
