#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "program.hpp"

/// Completion and the manual, as written from the definition of the command line.
namespace heddle::cli_test {
namespace {

using testing::HasSubstr;

bool is_there(const std::string& program) {
    return std::system(("command -v " + program + " > /dev/null 2>&1").c_str()) == 0;
}

std::string page(const std::vector<std::string>& words) {
    const Outcome outcome = heddle(words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
}

/// What bash offers when `words` are typed and tab is pressed.
std::string completed(const std::string& words) {
    const Directory directory;
    write_content(directory.path("heddle"), page({"completion", "bash"}));
    const std::string programs = std::filesystem::path(HEDDLE_PROGRAM).parent_path().string();
    std::string script = "PATH=" + programs + ":$PATH\n";
    script += "cd " + directory.path("") + "\n. ./heddle\n";
    script += "COMP_WORDS=(heddle " + words + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n";
    script += "_heddle\necho \"${COMPREPLY[@]}\" > answer\n";
    write_content(directory.path("ask"), script);
    EXPECT_EQ(std::system(("bash " + directory.path("ask")).c_str()), 0);
    return content_of(directory.path("answer"));
}

TEST(Completion, BashOffersCommandsOptionsAndChoices) {
    if (!is_there("bash")) GTEST_SKIP() << "there is no bash";
    EXPECT_EQ(completed("ins"), "inspect\n");
    EXPECT_EQ(completed("run --pol"), "--policy\n");
    EXPECT_EQ(completed("run --policy ''"), "rules cost\n");
    EXPECT_EQ(completed("run --policy c"), "cost\n");
    EXPECT_EQ(completed("run -n ''"), "\n");
    EXPECT_EQ(completed("explain x --html as"), "ask\n");
    EXPECT_EQ(completed("verify --on C"), "CPU\n");
    EXPECT_EQ(completed("completion z"), "zsh\n");
    EXPECT_EQ(completed("verify --op MUL_MAT_"), "MUL_MAT_ID\n");
    EXPECT_EQ(completed("bench ops SOFT_MAX_B"), "SOFT_MAX_BACK\n");
    EXPECT_EQ(completed("quantize a b Q4_K"), "Q4_K_S Q4_K_M\n");
    EXPECT_EQ(completed("quantize a b Q8_0 --output-tensor-type bf"), "bf16\n");
    EXPECT_EQ(completed("inspect as"), "ask\n") << "a file of the directory";
    EXPECT_THAT(completed("''"), HasSubstr("verify"));
}

TEST(Completion, ShellsCanReadTheirs) {
    for (const std::string shell : {"bash", "zsh", "fish"}) {
        const std::string text = page({"completion", shell});
        EXPECT_THAT(text, HasSubstr("explain")) << shell;
        EXPECT_THAT(text, HasSubstr("tolerance")) << shell;
        if (!is_there(shell)) continue;
        const Directory directory;
        write_content(directory.path("page"), text);
        EXPECT_EQ(std::system((shell + " -n " + directory.path("page")).c_str()), 0) << shell;
    }
}

TEST(Manual, TellsOfEveryCommandAndOption) {
    const std::string text = page({"manual"});
    EXPECT_THAT(text, testing::StartsWith(".TH HEDDLE 1"));
    for (const char* part : {"heddle run", "heddle explain", "heddle verify", "\\-\\-tolerance",
                             "EXIT STATUS", "rules", "heddle completion"}) {
        EXPECT_THAT(text, HasSubstr(part));
    }
}

TEST(Manual, IsFineForMan) {
    if (!is_there("groff")) GTEST_SKIP() << "there is no groff";
    const Directory directory;
    write_content(directory.path("heddle.1"), page({"manual"}));
    const std::string command = "groff -man -Tascii -ww " + directory.path("heddle.1") + " > " +
                                directory.path("text") + " 2> " + directory.path("complaints");
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(content_of(directory.path("complaints")), "");
}

}  // namespace
}  // namespace heddle::cli_test
