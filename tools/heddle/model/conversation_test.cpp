#include "model/conversation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/test_support.hpp"

namespace heddle::tool {
namespace {

using testing::HasSubstr;

/// Every byte is a token, so that lengths can be counted.
class Talk : public testing::Test {
protected:
    Conversation with(Conversation::Limits limits, const std::string& system = "") const {
        auto chat = ChatTemplate::of(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}<|im_start|>assistant\n\n",
            "here");
        EXPECT_TRUE(chat) << chat.error().message;
        return {*tokenizer_, *std::move(chat), system, limits};
    }
    Conversation without_template(Conversation::Limits limits) const {
        return {*tokenizer_, std::nullopt, "", limits};
    }
    /// As the tokens say it; control tokens are written in brackets.
    std::string text_of(const Conversation& conversation) const {
        std::string text;
        for (const Token token : conversation.tokens()) {
            text += token == 1 ? "[start]" : token == 2 ? "[end]" : tokenizer_->decode(token);
        }
        return text;
    }
    static void say(Conversation& conversation, std::string_view answer) {
        for (const char c : answer) conversation.answer(byte(c));
    }
    static std::size_t left_out(Conversation& conversation, const std::string& message) {
        const auto asked = conversation.ask(message);
        EXPECT_TRUE(asked) << asked.error().message;
        return asked ? asked->left_out : 0;
    }

    const Tokenizer& tokenizer() const { return *tokenizer_; }

private:
    std::unique_ptr<Tokenizer> tokenizer_ = make(byte_pairs({"# #"}));
};

TEST_F(Talk, IsReadAsTheTemplateSaysIt) {
    Conversation talk = with({.context = 1000, .answer = 10}, "Be kind.");
    const auto first = talk.ask("Hi");
    ASSERT_TRUE(first);
    EXPECT_EQ(first->tokens, talk.tokens());
    say(talk, "Yes?");
    const auto second = talk.ask("Bye");
    ASSERT_TRUE(second);
    EXPECT_EQ(first->left_out + second->left_out, 0u);
    EXPECT_EQ(second->kept, first->tokens.size() + 4) << "nothing is read twice";
    EXPECT_EQ(talk.tokens().size(), second->kept + second->tokens.size());
    EXPECT_EQ(text_of(talk),
              "[start]system\nBe kind.[end]\n[start]user\nHi[end]\n[start]assistant\nYes?[end]\n"
              "[start]user\nBye[end]\n[start]assistant\n");
}

TEST_F(Talk, WhatATemplateTakesAwayIsReadAgain) {
    auto chat = ChatTemplate::of(
        "{% for m in messages %}<|im_start|>{{ m.content | trim }}{% endfor %}", "here");
    ASSERT_TRUE(chat);
    Conversation talk(tokenizer(), *std::move(chat), "", {1000, 10});
    ASSERT_TRUE(talk.ask("Hi"));
    say(talk, " Yes? ");
    const auto second = talk.ask("Bye");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->kept, 3u) << "up to the first question";
    EXPECT_EQ(text_of(talk), "[start]Hi[start]Yes?[start]Bye");
}

TEST_F(Talk, AnAnswerThatWasCutIsSaidThatWay) {
    Conversation talk = with({.context = 1000, .answer = 10});
    ASSERT_TRUE(talk.ask("Hi"));
    say(talk, "Yes? STOP");
    talk.cut_answer("Yes? ");
    ASSERT_TRUE(talk.ask("Bye"));
    EXPECT_THAT(text_of(talk), HasSubstr("Yes? [end]"));
}

TEST_F(Talk, GoesOnWhereItWasSaved) {
    Conversation talk = with({.context = 1000, .answer = 10}, "Be kind.");
    ASSERT_TRUE(talk.ask("Hi"));
    say(talk, "Yes?");
    Conversation later = with({.context = 1000, .answer = 10});
    ASSERT_TRUE(later.restore(talk.messages()));
    ASSERT_TRUE(talk.ask("Bye"));
    ASSERT_TRUE(later.ask("Bye"));
    EXPECT_EQ(text_of(later), text_of(talk));

    later.set_system("Be brief.");
    later.clear();
    ASSERT_TRUE(later.ask("Hi"));
    EXPECT_EQ(text_of(later),
              "[start]system\nBe brief.[end]\n[start]user\nHi[end]\n[start]assistant\n");
}

TEST_F(Talk, RefusesToGoOnFromNonsense) {
    using Role = ChatMessage::Role;
    Conversation talk = with({.context = 1000, .answer = 10});
    const auto answer_alone = talk.restore({{Role::assistant, "Yes?"}});
    ASSERT_FALSE(answer_alone);
    EXPECT_EQ(answer_alone.error().message,
              "a message of 'assistant' out of turn: user and assistant alternate");
    EXPECT_FALSE(talk.restore({{Role::user, "Hi"}, {Role::system, "Late."}}));
    EXPECT_TRUE(talk.messages().empty());
}

TEST_F(Talk, WhatTheTemplateRefusesWasNotSaid) {
    auto chat = ChatTemplate::of(
        "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('Not that!') }}"
        "{% endif %}{{ m.content }}{% endfor %}",
        "here");
    ASSERT_TRUE(chat);
    Conversation talk(tokenizer(), *std::move(chat), "", {1000, 10});
    ASSERT_TRUE(talk.ask("Hi"));
    say(talk, "!");
    const auto refused = talk.ask("no");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "line 1: Not that!");
    ASSERT_TRUE(talk.ask("Bye"));
    EXPECT_EQ(text_of(talk), "Hi!Bye");
}

TEST_F(Talk, LeavesOutTheOldestWhenAnAnswerWouldNotFit) {
    Conversation talk = with({.context = 200, .answer = 20}, "Be kind.");
    std::string said;
    std::size_t gone = 0;
    for (int i = 0; gone == 0; ++i) {
        ASSERT_LT(i, 10) << "there was room all the time";
        const std::size_t before = talk.tokens().size();
        gone = left_out(talk, "Question " + std::to_string(i));
        if (gone > 0) {
            EXPECT_GT(before + 20, 200u - 40) << "left out although there was room";
            said = "Question " + std::to_string(i);
        } else {
            EXPECT_LE(talk.tokens().size() + 20, 200u);
        }
        say(talk, "Answer " + std::to_string(i));
    }
    EXPECT_LE(talk.tokens().size(), 100u + 8) << "half is free, but for the answer";
    EXPECT_THAT(text_of(talk), testing::StartsWith("[start]system\nBe kind.[end]\n[start]user\n"));
    EXPECT_THAT(text_of(talk), HasSubstr(said + "[end]\n[start]assistant\nAnswer "));
    EXPECT_THAT(text_of(talk), testing::Not(HasSubstr("Question 0")));
    EXPECT_THAT(text_of(talk), testing::Not(HasSubstr("Answer 0")));
}

TEST_F(Talk, KeepsWhatFitsIntoHalf) {
    Conversation talk = without_template({.context = 40, .answer = 4});
    for (const char* message : {"aaaaaaaa", "bbbbbbbb", "cccc"}) {
        EXPECT_EQ(left_out(talk, message), 0u);
        say(talk, "..");
    }
    EXPECT_EQ(talk.tokens().size(), 26u);
    EXPECT_EQ(left_out(talk, "dddddddddd"), 0u);
    EXPECT_EQ(text_of(talk), "aaaaaaaa..bbbbbbbb..cccc..dddddddddd");
    EXPECT_EQ(left_out(talk, "e"), 2u);
    EXPECT_EQ(text_of(talk), "cccc..dddddddddde");
}

TEST_F(Talk, AMessageMayHaveTheWholeContextToItself) {
    Conversation talk = without_template({.context = 40, .answer = 10});
    EXPECT_EQ(left_out(talk, std::string(40, 'a')), 0u);
    const auto asked = talk.ask(std::string(39, 'b'));
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->left_out, 1u);
    EXPECT_EQ(asked->kept, 0u);
    EXPECT_EQ(asked->tokens, talk.tokens());
    EXPECT_EQ(text_of(talk), std::string(39, 'b'));
}

TEST_F(Talk, RefusesAMessageThatCannotFitAndGoesOn) {
    Conversation talk = without_template({.context = 40, .answer = 10});
    EXPECT_EQ(left_out(talk, "aa"), 0u);
    say(talk, "bb");
    const auto asked = talk.ask(std::string(41, 'c'));
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().message,
              "the prompt is 41 tokens long, the context has room for 40: shorten it, or give "
              "--context 51");
    EXPECT_EQ(left_out(talk, "dd"), 0u);
    EXPECT_EQ(text_of(talk), "aabbdd");

    Conversation chat = with({.context = 40, .answer = 10});
    const auto message = chat.ask(std::string(41, 'c'));
    ASSERT_FALSE(message);
    EXPECT_THAT(message.error().message, HasSubstr("tokens long with the words of the template"));
    EXPECT_TRUE(chat.tokens().empty());
}

}  // namespace
}  // namespace heddle::tool
