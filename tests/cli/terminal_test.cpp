#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <thread>

#include "model_test.hpp"
#include "session.hpp"

/// Terminals that can do little, or are narrow; homes that cannot be written to; keys at any time.
namespace heddle::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Terminals : public ModelTest {
protected:
    /// All that is on the screen when the program has ended well.
    static std::string screen(const Words& words, const Words& environment,
                              unsigned short columns = 80) {
        Session session(words, environment, columns);
        EXPECT_EQ(session.status(), 0) << session.screen();
        return session.screen();
    }
};

TEST_F(Terminals, ColoursAndBarsAreForThoseThatHaveThem) {
    const Words run{"run", model_, "-p", "ab", "-n", "3"}, list{"devices"};
    const Words shrink{"quantize", kTales, directory_.path("q4.gguf"), "Q4_0"};
    EXPECT_THAT(screen(list, {}), HasSubstr("\x1b[90m"));
    EXPECT_THAT(screen(list, {"NO_COLOR="}), HasSubstr("\x1b[90m")) << "empty is as if not set";
    EXPECT_THAT(screen(list, {"NO_COLOR=1"}), Not(HasSubstr("\x1b")));
    EXPECT_THAT(screen(run, {"NO_COLOR=1"}), Not(HasSubstr("\x1b[90m")));
    EXPECT_THAT(screen(shrink, {}), HasSubstr("\x1b[K")) << "there is a bar";
    for (const char* dumb : {"TERM=dumb", "TERM"}) {
        for (const Words& words : {run, list, shrink}) {
            const std::string seen = screen(words, {dumb});
            EXPECT_THAT(seen, Not(HasSubstr("\x1b"))) << dumb;
            EXPECT_THAT(seen, Not(HasSubstr("[###"))) << dumb;
        }
    }
}

TEST_F(Terminals, ABarNeverGoesOnInTheNextLine) {
    for (const unsigned short columns : {20, 40, 80}) {
        const std::string seen =
            screen({"quantize", kTales, directory_.path("q4.gguf"), "Q4_0"}, {}, columns);
        const std::regex bar("\r\x1b\\[K(quantizing[^\r\n\x1b]*)");
        auto at = std::sregex_iterator(seen.begin(), seen.end(), bar);
        ASSERT_NE(at, std::sregex_iterator()) << "there is no bar";
        for (; at != std::sregex_iterator(); ++at) EXPECT_LT((*at)[1].length(), columns) << seen;
    }
}

TEST_F(Terminals, HelpIsReadableWhateverTheWidth) {
    for (const unsigned short columns : {10, 60, 100, 300}) {
        std::istringstream lines(screen({"run", "--help"}, {}, columns));
        const std::size_t most = std::clamp<std::size_t>(columns, 60, 100);
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with(std::string(26, ' '))) continue;
            EXPECT_LE(line.size(), most + 1) << line;  // with its '\r'
        }
    }
}

TEST_F(Terminals, AConversationNeedsNoHomeAndNoHistory) {
    for (const Words& environment :
         std::vector<Words>{{"HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"},
                            {"HOME=/proc/no/such/home", "XDG_STATE_HOME"},
                            {"HEDDLE_HISTORY=/proc/no/such/file"},
                            {"HEDDLE_HISTORY=" + directory_.path("")},  // a folder
                            {"HEDDLE_HISTORY="},
                            {"TERM=dumb"},
                            {"LC_ALL=C"}}) {
        SCOPED_TRACE(testing::PrintToString(environment));
        Session session({"run", with_template(), "-n", "2", "--temperature", "0"}, environment);
        ASSERT_TRUE(session.sees("> "));
        session.type("hello\r");
        ASSERT_TRUE(session.sees("[stopped after 2 tokens; -n for more]"));
        ASSERT_TRUE(session.sees("> "));
        EXPECT_EQ(session.leave(), 0);
    }
}

TEST_F(Terminals, HistoryIsForItsOwnerOnly) {
    const std::string kept = directory_.path("history");
    Session session({"run", with_template(), "-n", "1"}, {"HEDDLE_HISTORY=" + kept});
    ASSERT_TRUE(session.sees("> "));
    session.type("/system a secret\r");
    ASSERT_TRUE(session.sees("[system message: a secret]"));
    ASSERT_TRUE(session.sees("> "));
    ASSERT_EQ(session.leave(), 0);
    struct stat file {};
    ASSERT_EQ(stat(kept.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 0077u, 0u);
}

/// However early or late: the program ends, in good time, and not by a fault.
TEST_F(Terminals, CtrlCMayComeAtAnyMoment) {
    const Words talk{"run", kTales, "-i", "-n", "100000", "--context", "20000"},
        text{"run", kTales, "-p", "Once", "-n", "100000", "--context", "20000"},
        bench{"bench", "ops", "ADD", "-t", "1"};
    for (const Words& words : {talk, text, bench}) {
        for (int i = 2; i < 9; ++i) {
            Session session(words);
            session.type("Once upon a time\r");
            std::this_thread::sleep_for(std::chrono::milliseconds(1 << i));
            const auto began = std::chrono::steady_clock::now();
            // The first may come before there is a program, or be for the answer.
            for (int k = 0; k < 40 && !session.has_ended(); ++k) {
                session.press_ctrl_c();
                std::this_thread::sleep_for(std::chrono::milliseconds(150));
            }
            const int status = session.status();
            EXPECT_TRUE(status == 0 || status == 130) << status << "\n" << session.screen();
            EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
        }
    }
}

}  // namespace
}  // namespace heddle::cli_test
