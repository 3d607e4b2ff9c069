#include "model/pre_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace heddle::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr PreSplit kAll[] = {PreSplit::gpt2, PreSplit::smollm, PreSplit::llama3};

TEST(PreSplit, IsChosenByName) {
    for (const char* name : {"gpt-2", "gpt2", "default"}) {
        EXPECT_EQ(*pre_split_named(name), PreSplit::gpt2);
    }
    for (const char* name : {"smollm", "codeshell", "starcoder"}) {
        EXPECT_EQ(*pre_split_named(name), PreSplit::smollm);
    }
    for (const char* name : {"llama-bpe", "llama3", "llama-v3"}) {
        EXPECT_EQ(*pre_split_named(name), PreSplit::llama3);
    }
    const auto unknown = pre_split_named("loom");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().message,
              "a tokenizer that splits text like 'loom'; known are gpt-2, smollm, llama-bpe");
}

TEST(PreSplit, NothingHasNoWords) {
    for (const PreSplit split : kAll) EXPECT_THAT(words_of("", split), IsEmpty());
}

TEST(PreSplit, WordsTakeTheSpaceBeforeThem) {
    for (const PreSplit split : kAll) {
        EXPECT_THAT(words_of("Once upon a time", split),
                    ElementsAre("Once", " upon", " a", " time"));
    }
}

TEST(PreSplit, EndingsOfEnglishStandAlone) {
    for (const PreSplit split : kAll) {
        EXPECT_THAT(words_of("I'm sure they'll see you've it's he'd we're can't", split),
                    ElementsAre("I", "'m", " sure", " they", "'ll", " see", " you", "'ve", " it",
                                "'s", " he", "'d", " we", "'re", " can", "'t"));
    }
    // Only one of the patterns does not care for case; the others see a sign and a word.
    EXPECT_THAT(words_of("IT'S", PreSplit::gpt2), ElementsAre("IT", "'", "S"));
    EXPECT_THAT(words_of("IT'S", PreSplit::llama3), ElementsAre("IT", "'S"));
    EXPECT_THAT(words_of("rock 'n' roll", PreSplit::gpt2),
                ElementsAre("rock", " '", "n", "'", " roll"));
    EXPECT_THAT(words_of("rock 'n' roll", PreSplit::llama3),
                ElementsAre("rock", " '", "n", "'", " roll"));
}

TEST(PreSplit, Numbers) {
    EXPECT_THAT(words_of("in 12345 days", PreSplit::gpt2), ElementsAre("in", " 12345", " days"));
    EXPECT_THAT(words_of("in 123 days", PreSplit::smollm),
                ElementsAre("in", " ", "1", "2", "3", " days"));
    EXPECT_THAT(words_of("in 12345 days", PreSplit::llama3),
                ElementsAre("in", " ", "123", "45", " days"));
    EXPECT_THAT(words_of("a1b", PreSplit::gpt2), ElementsAre("a", "1", "b"));
    EXPECT_THAT(words_of("a1b", PreSplit::smollm), ElementsAre("a", "1", "b"));
    EXPECT_THAT(words_of("a1b", PreSplit::llama3), ElementsAre("a", "1", "b"));
}

TEST(PreSplit, DigitsThatStandAloneEndTheWhiteSpaceBeforeThem) {
    EXPECT_THAT(words_of("a   1", PreSplit::gpt2), ElementsAre("a", "  ", " 1"));
    EXPECT_THAT(words_of("a   1", PreSplit::smollm), ElementsAre("a", "   ", "1"));
    EXPECT_THAT(words_of("a   1", PreSplit::llama3), ElementsAre("a", "  ", " ", "1"));
}

TEST(PreSplit, Signs) {
    EXPECT_THAT(words_of("Stop!!! (now)", PreSplit::gpt2),
                ElementsAre("Stop", "!!!", " (", "now", ")"));
    EXPECT_THAT(words_of("Stop!!! (now)", PreSplit::llama3),
                ElementsAre("Stop", "!!!", " (", "now", ")"));
    // A sign right before a word belongs to it, and line ends to the signs before them.
    EXPECT_THAT(words_of("x=(now)\n\ny", PreSplit::llama3),
                ElementsAre("x", "=(", "now", ")\n\n", "y"));
    EXPECT_THAT(words_of("<now>", PreSplit::llama3), ElementsAre("<now", ">"));
    EXPECT_THAT(words_of("<now>", PreSplit::gpt2), ElementsAre("<", "now", ">"));
}

TEST(PreSplit, RunsOfWhiteSpaceLeaveTheirLastForTheWordBehind) {
    EXPECT_THAT(words_of("a   b", PreSplit::gpt2), ElementsAre("a", "  ", " b"));
    EXPECT_THAT(words_of("a \n b", PreSplit::gpt2), ElementsAre("a", " \n", " b"));
    EXPECT_THAT(words_of("a\n\nb", PreSplit::gpt2), ElementsAre("a", "\n", "\n", "b"));
    EXPECT_THAT(words_of("a  ", PreSplit::gpt2), ElementsAre("a", "  "));
    EXPECT_THAT(words_of("   ", PreSplit::smollm), ElementsAre("   "));
    EXPECT_THAT(words_of("a\tb", PreSplit::gpt2), ElementsAre("a", "\t", "b"));
}

TEST(PreSplit, LineEndsEndWhiteSpaceInTheThirdPattern) {
    EXPECT_THAT(words_of("a  \n\n  b", PreSplit::llama3), ElementsAre("a", "  \n\n", " ", " b"));
    EXPECT_THAT(words_of("a\r\nb", PreSplit::llama3), ElementsAre("a", "\r\n", "b"));
    EXPECT_THAT(words_of("a\tb", PreSplit::llama3), ElementsAre("a", "\tb"));
    EXPECT_THAT(words_of("a   b", PreSplit::llama3), ElementsAre("a", "  ", " b"));
}

TEST(PreSplit, OtherAlphabets) {
    for (const PreSplit split : kAll) {
        EXPECT_THAT(words_of("\u00FCber \u0416\u0443\u043A \u4E2D\u6587", split),
                    ElementsAre("\u00FCber", " \u0416\u0443\u043A", " \u4E2D\u6587"));
        EXPECT_THAT(words_of("ok \U0001F600\U0001F600", split),
                    ElementsAre("ok", " \U0001F600\U0001F600"));
    }
    // Three digits of another script, and a space that does not break.
    EXPECT_THAT(words_of("\u0661\u0662\u0663", PreSplit::gpt2), ElementsAre("\u0661\u0662\u0663"));
    EXPECT_THAT(words_of("\u0661\u0662", PreSplit::smollm), ElementsAre("\u0661", "\u0662"));
    EXPECT_THAT(words_of("a\u00A0b", PreSplit::gpt2), ElementsAre("a", "\u00A0", "b"));
}

TEST(PreSplit, BytesThatAreNoCharactersAreSigns) {
    for (const PreSplit split : kAll) {
        EXPECT_THAT(words_of("a\xFF\xC3", split), ElementsAre("a", "\xFF\xC3"));
        EXPECT_THAT(words_of("\x80 b", split), ElementsAre("\x80", " b"));
    }
    EXPECT_THAT(words_of("\xC3z", PreSplit::gpt2), ElementsAre("\xC3", "z"));
}

TEST(PreSplit, WordsTogetherAreTheText) {
    std::mt19937 random(5);
    const std::string_view parts[] = {"a",    "B",      "'s",     "'",      " ",     "  ",   "\n",
                                      "\r",   "7",      "!",      "(",      "\xC3",  "\xFF", "\t",
                                      "\xA0", "\u00E9", "\u0663", "\u4E2D", "\u2003"};
    for (int round = 0; round < 2000; ++round) {
        std::string text;
        for (unsigned i = random() % 12; i > 0; --i) text += parts[random() % std::size(parts)];
        for (const PreSplit split : kAll) {
            std::string again;
            for (const std::string_view word : words_of(text, split)) {
                EXPECT_FALSE(word.empty());
                again += word;
            }
            EXPECT_EQ(again, text);
        }
    }
}

}  // namespace
}  // namespace heddle::tool
