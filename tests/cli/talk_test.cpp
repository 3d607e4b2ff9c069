#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model_test.hpp"
#include "session.hpp"

/// Talking with a model, at a terminal and from scripts.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Talk : public ModelTest {
protected:
    void SetUp() override {
        ModelTest::SetUp();
        chat_model_ = with_template();
    }
    json spoken(std::vector<std::string> words, const std::string& input = "") const {
        words.insert(words.begin(), "run");
        words.insert(words.end(), {"--json", "--temperature", "0", "-n", "3"});
        const Outcome outcome = heddle(words, input);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return json::parse(outcome.out, nullptr, false);
    }
    std::vector<std::string> talking(const std::string& model) const {
        return {"run", model, "--temperature", "0", "-n", "4"};
    }

    std::string chat_model_;
};

TEST_F(Talk, AModelWithATemplateChatsUnlessToldNotTo) {
    const json chat = spoken({chat_model_, "-p", "a"}),
               told = spoken({chat_model_, "-p", "a", "--chat"});
    EXPECT_EQ(chat["prompt_ids"], told["prompt_ids"]);
    const json text = spoken({chat_model_, "-p", "a", "--no-chat"});
    EXPECT_LT(text["prompt_ids"].size(), chat["prompt_ids"].size());
    EXPECT_EQ(text["prompt_ids"], spoken({model_, "-p", "a"})["prompt_ids"]);
    EXPECT_EQ(heddle({"run", chat_model_, "-p", "a", "--chat", "--no-chat"}).status, 2);
}

TEST_F(Talk, ThePromptMayComeFromAFileOrStandardInput) {
    const json expected = spoken({model_, "-p", "one\ntwo"})["prompt_ids"];
    write_content(directory_.path("prompt"), "one\ntwo\n");
    EXPECT_EQ(spoken({model_, "-f", directory_.path("prompt")})["prompt_ids"], expected);
    EXPECT_EQ(spoken({model_}, "one\ntwo\n")["prompt_ids"], expected);
    EXPECT_EQ(spoken({model_, "-f", "-"}, "one\ntwo\n")["prompt_ids"], expected);
    EXPECT_EQ(spoken({model_, "one\ntwo"}, "not read")["prompt_ids"], expected);
    const Outcome empty = heddle({"run", chat_model_}, "");
    EXPECT_EQ(empty.status, 1);
    EXPECT_THAT(empty.err, HasSubstr("the prompt is empty; give one with --prompt"));
}

TEST_F(Talk, WithoutAPromptAtATerminalItIsAConversation) {
    Session session(talking(chat_model_));
    ASSERT_TRUE(session.sees("/help"));
    ASSERT_TRUE(session.sees("> "));
    session.type("hello\r");
    ASSERT_TRUE(session.sees("[stopped after 4 tokens; -n for more]"));
    ASSERT_TRUE(session.sees("> "));
    EXPECT_EQ(session.leave(), 0);
    EXPECT_THAT(session.screen(), HasSubstr("prefill"));
}

TEST_F(Talk, LinesCanBeEditedAndComeBack) {
    Session session(talking(chat_model_));
    ASSERT_TRUE(session.sees("> "));
    session.type("/sytem Be brief.\x1b[D\x1b[D\r");  // arrow keys are no text
    ASSERT_TRUE(session.sees("there is no command /sytem; did you mean '/system'?"));
    ASSERT_TRUE(session.sees("> "));                  // keys are read as such from here on
    session.type("\x1b[A\x01\x1b[C\x1b[C\x1b[Cs\r");  // the line again, with the letter it lacks
    ASSERT_TRUE(session.sees("[system message: Be brief.]"));
    ASSERT_TRUE(session.sees("> "));
    session.type("/quit\r");
    EXPECT_EQ(session.status(), 0);
}

TEST_F(Talk, HistoryIsKeptForTheNextTime) {
    const std::string kept = "HEDDLE_HISTORY=" + directory_.path("history");
    {
        Session session(talking(chat_model_), {kept});
        ASSERT_TRUE(session.sees("> "));
        session.type("/system Be kind.\r");
        ASSERT_TRUE(session.sees("[system message: Be kind.]"));
        ASSERT_TRUE(session.sees("> "));
        EXPECT_EQ(session.leave(), 0);
    }
    Session session(talking(chat_model_), {kept});
    ASSERT_TRUE(session.sees("> "));
    session.type("\x1b[A\r");
    EXPECT_TRUE(session.sees("[system message: Be kind.]"));
}

TEST_F(Talk, CtrlCStopsTheAnswerAndThenLeaves) {
    Session session(
        {"run", kTales, "-i", "-n", "100000", "--context", "200000", "--temperature", "0"});
    ASSERT_TRUE(session.sees("> "));
    session.type("Once upon a time\r");
    ASSERT_TRUE(session.sees("the "));
    session.press_ctrl_c();
    ASSERT_TRUE(session.sees("[stopped]"));
    ASSERT_TRUE(session.sees("> "));
    session.press_ctrl_c();
    EXPECT_EQ(session.status(), 0);
    EXPECT_THAT(session.screen(), HasSubstr("prefill")) << "the closing line comes all the same";
}

TEST_F(Talk, OneCtrlCAtThePromptDropsTheLineOnly) {
    for (const char* terminal : {"TERM=xterm", "TERM=dumb"}) {
        Session session(talking(chat_model_), {terminal});
        ASSERT_TRUE(session.sees("> "));
        session.type("half a li");
        ASSERT_TRUE(session.sees("half a li"));
        session.press_ctrl_c();
        ASSERT_TRUE(session.sees("[press Ctrl-C again to leave]"));
        ASSERT_TRUE(session.sees("> "));
        session.type("/system\r");
        ASSERT_TRUE(session.sees("[system message: none]")) << "nothing is left of the line";
        ASSERT_TRUE(session.sees("> "));
        session.type("/save ~/saved\r");  // which changes nothing of this
        ASSERT_TRUE(session.sees("[saved: ~/saved]"));
        ASSERT_TRUE(session.sees("> "));
        session.type("\"\"\"one\r");
        ASSERT_TRUE(session.sees(". "));
        session.press_ctrl_c();
        ASSERT_TRUE(session.sees("[press Ctrl-C again to leave]"))
            << "the line before was one between";
        ASSERT_TRUE(session.sees("> ")) << "a message of several lines is dropped as a whole";
        session.press_ctrl_c();
        EXPECT_EQ(session.status(), 0) << terminal;
    }
}

/// While the model is loaded, or answers, the terminal is not yet in its mode for editing.
TEST_F(Talk, CtrlDCountsHoweverEarlyItComes) {
    Session early(talking(chat_model_));
    early.press_ctrl_d();
    EXPECT_EQ(early.status(), 0);
    Session later(talking(chat_model_));
    ASSERT_TRUE(later.sees("> "));
    later.type("hello\r");
    later.press_ctrl_d();
    EXPECT_EQ(later.status(), 0);
    EXPECT_THAT(later.screen(), HasSubstr("[stopped after 4 tokens"));
}

TEST_F(Talk, CtrlCEndsATextWithItsClosingLine) {
    Session session(
        {"run", kTales, "-p", "Once upon a time", "-n", "100000", "--context", "200000"});
    ASSERT_TRUE(session.sees("the "));
    session.press_ctrl_c();
    EXPECT_EQ(session.status(), 128 + 2);
    EXPECT_THAT(session.screen(), HasSubstr("stopped by Ctrl-C"));
}

TEST_F(Talk, SeveralLinesAreOneMessage) {
    std::vector<std::string> words = talking(model_);
    words.insert(words.end(), {"-i", "--json"});
    const Outcome outcome = heddle(words, "\"\"\"\none\ntwo\"\"\"\n");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["prompt_ids"],
              spoken({model_, "-p", "one\ntwo"})["prompt_ids"]);
}

TEST_F(Talk, ConversationsAreSavedAndGoOn) {
    const std::string file = directory_.path("talk.json");
    std::vector<std::string> words = talking(chat_model_);
    words.insert(words.end(), {"-i", "--system", "Be kind."});
    const Outcome first = heddle(words, "hello\n/save " + file + "\nmore\n");
    ASSERT_EQ(first.status, 0) << first.err;
    const json saved = json::parse(content_of(file));
    ASSERT_EQ(saved["messages"].size(), 3u);
    EXPECT_EQ(saved["messages"][0], (json{{"role", "system"}, {"content", "Be kind."}}));
    EXPECT_EQ(saved["messages"][1]["content"], "hello");
    const Outcome second = heddle(words, "/load " + file + "\nmore\n");
    ASSERT_EQ(second.status, 0) << second.err;
    EXPECT_THAT(second.err, HasSubstr("[loaded: 3 messages]"));
    EXPECT_THAT(first.out, EndsWith(second.out)) << "the second answer is the same";

    const Outcome anew = heddle(words, "hello\n/clear\nhello\n");
    const std::size_t half = anew.out.size() / 2;
    EXPECT_EQ(anew.out.substr(0, half), anew.out.substr(half));
    EXPECT_THAT(heddle(words, "/load " + directory_.path("no") + "\n").err,
                HasSubstr("no: cannot be opened: "));
    write_content(file, R"({"messages": [{"role": "king"}]})");
    EXPECT_THAT(heddle(words, "/load " + file + "\n").err, HasSubstr("message 1 has no role"));
    write_content(file, "{");
    EXPECT_THAT(heddle(words, "/load " + file + "\n").err, HasSubstr("is not a conversation"));
    EXPECT_THAT(heddle(words, "/save\n").err, HasSubstr("/save needs the name of a file"));
}

TEST_F(Talk, APathIsNoCommand) {
    std::vector<std::string> words = talking(model_);
    words.insert(words.end(), {"-i", "-q"});
    const Outcome outcome = heddle(words, "/etc/x\n");
    EXPECT_THAT(outcome.err, Not(HasSubstr("there is no command")));
    EXPECT_NE(outcome.out, "");
}

TEST_F(Talk, AnAnswerHasNoSilentLimit) {
    // The small model never ends by itself: the context does.
    const Outcome outcome = heddle({"run", chat_model_, "-p", "a", "--temperature", "0"});
    EXPECT_THAT(outcome.err, HasSubstr("the context of 64 tokens is full"));
    const Outcome text = heddle({"run", model_, "-p", "a", "-n", "5", "--temperature", "0"});
    EXPECT_THAT(text.err, HasSubstr("; stopped after 5 tokens (-n); "));
}

TEST_F(Talk, ATextDoesNotEndInHalfACharacter) {
    int cut = 0;
    for (int seed = 0; seed < 40; ++seed) {
        std::vector<std::string> words{"run", model_, "-p", "a", "-n", "2", "--temperature", "9"};
        words.insert(words.end(), {"--top-k", "0", "--top-p", "1", "--min-p", "0", "-q"});
        words.insert(words.end(), {"--seed", std::to_string(seed)});
        auto as_json = words;
        as_json.emplace_back("--json");
        const json ids = json::parse(heddle(as_json).out)["ids"];
        // Tokens are bytes behind three others; 0xC2 to 0xF4 begin a character of several.
        const int last = ids.empty() ? 0 : ids.back().get<int>() - 3;
        if (last < 0xC2 || last > 0xF4) continue;
        ++cut;
        const std::string text = heddle(words).out;
        ASSERT_GE(text.size(), 2u);
        EXPECT_NE(static_cast<unsigned char>(text[text.size() - 2]), last) << seed;
    }
    EXPECT_GT(cut, 0) << "nothing was tried";
}

TEST_F(Talk, StopsBeforeWordsThatAreNamed) {
    const std::vector<std::string> words{
        "run", kTales,          "-p", "Once upon a time there was a king who", "-n",
        "16",  "--temperature", "0"};
    const std::string whole = heddle(words).out;
    ASSERT_THAT(whole, HasSubstr(" and he "));
    auto stopped = words;
    stopped.insert(stopped.end(), {"--stop", "never", "--stop", " and he"});
    const Outcome outcome = heddle(stopped);
    EXPECT_EQ(outcome.out, whole.substr(0, whole.find(" and he ")) + "\n");
    EXPECT_THAT(outcome.err, HasSubstr("stopped by --stop"));
}

TEST_F(Talk, ARepeatedWordIsLessLikely) {
    const auto text = [&](const char* penalty) {
        return heddle({"run", model_, "-p", "a", "-n", "30", "--temperature", "0", "--json",
                       "--repeat-penalty", penalty});
    };
    const json plain = json::parse(text("1").out), varied = json::parse(text("50").out);
    const auto kinds = [](const json& all) {
        return std::set<int>(all["ids"].begin(), all["ids"].end()).size();
    };
    EXPECT_GE(kinds(varied), kinds(plain));
    EXPECT_NE(plain["ids"], varied["ids"]);
}

TEST_F(Talk, TheSeedIsAnotherOneEachTimeAndShown) {
    const std::vector<std::string> words{"run", model_,          "-p", "a", "-n",
                                         "20",  "--temperature", "2"};
    const Outcome first = heddle(words), second = heddle(words);
    EXPECT_NE(first.out, second.out);
    const std::size_t at = first.err.find("; seed ") + 7;
    ASSERT_NE(at, std::string::npos + 7) << first.err;
    auto again = words;
    again.insert(again.end(), {"--seed", first.err.substr(at, first.err.find(';', at) - at)});
    EXPECT_EQ(heddle(again).out, first.out);
    // Nothing is drawn by lot without temperature.
    EXPECT_THAT(heddle({"run", model_, "-p", "a", "-n", "2", "--temperature", "0"}).err,
                Not(HasSubstr("seed")));
}

TEST_F(Talk, WhatCannotBeLoadedIsASentenceAndTheConversationGoesOn) {
    write_content(directory_.path("other"), "[1, 2]");
    const std::string lines = "/load /nowhere\n/load /dev/zero\n/load " + directory_.path("other") +
                              "\n/load " + directory_.path("") + "\nhello\n";
    const Outcome outcome =
        heddle({"run", chat_model_, "-i", "-n", "2", "--temperature", "0"}, lines);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const char* says :
         {"/nowhere: cannot be opened: No such file or directory\n",
          "/dev/zero: is longer than 64.0 MiB, the most that is read\n",
          "other: is not a conversation that /save wrote\n", "cannot be read: Is a directory\n"}) {
        EXPECT_THAT(outcome.err, HasSubstr(says));
    }
    EXPECT_THAT(outcome.out, Not(testing::IsEmpty())) << "the last line is answered";
}

}  // namespace
}  // namespace heddle::cli_test
