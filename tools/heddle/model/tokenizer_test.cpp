#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "model/chat.hpp"
#include "model/test_support.hpp"

/// Tokenizers of small files whose every piece is known.
namespace heddle::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Vocabulary::Kind;

std::string decoded(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    std::string text;
    for (const Token token : tokens) text += tokenizer.decode(token);
    return text;
}

// ---- byte pairs --------------------------------------------------------------------------------

TEST(BytePairs, AreJoinedInTheOrderTheyWereLearned) {
    // "ab" was learned before "bc", so that abc is ab + c; "abc" is never learned of a + bc.
    const auto tokenizer = make(byte_pairs({"a b", "b c", "ab c", "\u0120 x"}));
    EXPECT_THAT(tokenizer->encode("ab", false, false), ElementsAre(merge(0)));
    EXPECT_THAT(tokenizer->encode("bc", false, false), ElementsAre(merge(1)));
    EXPECT_THAT(tokenizer->encode("abc", false, false), ElementsAre(merge(2)));
    EXPECT_THAT(tokenizer->encode("bcb", false, false), ElementsAre(merge(1), byte('b')));
    EXPECT_THAT(tokenizer->encode("a x", false, false), ElementsAre(byte('a'), merge(3)));
}

TEST(BytePairs, EqualPairsAreJoinedFromTheLeft) {
    const auto tokenizer = make(byte_pairs({"a a", "aa a"}));
    EXPECT_THAT(tokenizer->encode("aaa", false, false), ElementsAre(merge(1)));
    EXPECT_THAT(tokenizer->encode("aaaa", false, false), ElementsAre(merge(0), merge(0)));
    EXPECT_THAT(tokenizer->encode("aaaaa", false, false), ElementsAre(merge(0), merge(1)));
}

TEST(BytePairs, AreNotJoinedAcrossWords) {
    const auto tokenizer = make(byte_pairs({"a \u0120", "1 2", "a 1"}));
    EXPECT_THAT(tokenizer->encode("a b", false, false),
                ElementsAre(byte('a'), byte(' '), byte('b')));
    EXPECT_THAT(tokenizer->encode("a12", false, false), ElementsAre(byte('a'), merge(1)));
    const auto digits = make(byte_pairs({"1 2"}, "smollm"));
    EXPECT_THAT(digits->encode("12", false, false), ElementsAre(byte('1'), byte('2')));
}

TEST(BytePairs, AWordOfTheVocabularyIsTakenWholeOnlyWhereThePatternSaysSo) {
    Description what = byte_pairs({"a b"});
    what.pieces.emplace_back("xyz");  // no pairs lead to it
    const Token whole = static_cast<Token>(what.pieces.size()) - 1;
    EXPECT_THAT(make(what)->encode("xyz", false, false),
                ElementsAre(byte('x'), byte('y'), byte('z')));
    what.pre = "llama-bpe";
    EXPECT_THAT(make(what)->encode("xyz", false, false), ElementsAre(whole));
}

TEST(BytePairs, WhatIsJoinedButHasNoPieceIsWrittenByteByByte) {
    Description what = byte_pairs({"a b", "ab c"});
    what.pieces.pop_back();
    EXPECT_THAT(make(what)->encode("abc", false, false),
                ElementsAre(byte('a'), byte('b'), byte('c')));
}

TEST(BytePairs, EveryByteComesBack) {
    std::string text;
    for (int i = 0; i < 256; ++i) text += static_cast<char>(i);
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
        const auto tokenizer = make(byte_pairs({"a b"}, pre));
        EXPECT_EQ(decoded(*tokenizer, tokenizer->encode(text, false, false)), text);
        const std::string words = "\u00FCber \u4E2D\u6587 \U0001F600 \xFF\xC3( \xE2\x82";
        EXPECT_EQ(decoded(*tokenizer, tokenizer->encode(words, false, false)), words);
    }
}

TEST(BytePairs, ControlTokensStandForThemselvesOnlyWhereTheyMay) {
    const auto tokenizer = make(byte_pairs({"a b"}));
    const std::string text = "<|im_start|>ab<|im_end|>";
    EXPECT_THAT(tokenizer->encode(text, false, true), ElementsAre(1, merge(0), 2));
    const auto plain = tokenizer->encode(text, false, false);
    EXPECT_EQ(plain.front(), byte('<'));
    EXPECT_EQ(decoded(*tokenizer, plain), text);
    EXPECT_EQ(tokenizer->decode(1), "") << "nobody wants to see them";
}

TEST(BytePairs, UserDefinedTokensAreFoundAlways) {
    Description what = byte_pairs({"a b"});
    what.pieces[0] = "<note>";
    what.pieces[1] = "<note>!";
    what.kinds = {Kind::user_defined, Kind::user_defined};
    const auto tokenizer = make(what);
    EXPECT_THAT(tokenizer->encode("ab<note>ab", false, false), ElementsAre(merge(0), 0, merge(0)));
    EXPECT_THAT(tokenizer->encode("<note>!", false, false), ElementsAre(1)) << "the longest";
    EXPECT_EQ(tokenizer->decode(0), "<note>");
}

TEST(BytePairs, ALongWordTakesNoAge) {
    const auto tokenizer = make(byte_pairs({"a a", "aa aa", "aaaa aaaa"}));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer->encode(std::string(1 << 16, 'a'), false, false).size(), (1u << 16) / 8);
    // Every pair looked at again after every join would be 2^31 look-ups: minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(BytePairs, BeginTheTextWhereTheFileSaysSo) {
    Description what = byte_pairs({"a b"});
    what.tokens = {{"bos_token_id", 1}, {"eos_token_id", 2}};
    EXPECT_THAT(make(what)->encode("ab", true, false), ElementsAre(merge(0)));
    what.flags = {{"add_bos_token", true}};
    EXPECT_THAT(make(what)->encode("ab", true, false), ElementsAre(1, merge(0)));
    EXPECT_THAT(make(what)->encode("ab", false, false), ElementsAre(merge(0)));
    EXPECT_THAT(make(what)->encode("", true, false), ElementsAre(1));
    // Files of this pattern leave the key out and mean it.
    what.flags = {};
    what.pre = "llama-bpe";
    EXPECT_THAT(make(what)->encode("ab", true, false), ElementsAre(1, merge(0)));
}

TEST(BytePairs, AConversationIsReadAsItsTemplateSays) {
    const auto tokenizer = make(byte_pairs({"h i", "y o", "u s", "us e", "use r"}, "smollm"));
    const auto chat = ChatTemplate::of(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n\n",
        "here");
    ASSERT_TRUE(chat) << chat.error().message;
    const auto bytes = [](std::string_view text) {
        std::vector<Token> tokens;
        for (const char c : text) tokens.push_back(byte(c));
        return tokens;
    };
    std::vector<Token> expected{1, merge(4), byte('\n'), merge(0), 2, byte('\n'), 1};
    for (const Token token : bytes("assistant\n")) expected.push_back(token);
    const auto said = chat->render(std::vector<ChatMessage>{{ChatMessage::Role::user, "hi"}});
    ASSERT_TRUE(said);
    EXPECT_EQ(tokenizer->encode(*said, true), expected);
}

// ---- SentencePiece -----------------------------------------------------------------------------

TEST(SentencePiece, TheHighestScoreIsJoinedFirst) {
    // ab would come first from the left, but bc counts more.
    const auto tokenizer = make(sentencepiece({{"\u2581", -9},
                                               {"a", -9},
                                               {"b", -9},
                                               {"c", -9},
                                               {"ab", -2},
                                               {"bc", -1},
                                               {"\u2581abc", -3}}));
    EXPECT_THAT(tokenizer->encode("abc", false, false), ElementsAre(259, 260, 264));
    EXPECT_THAT(tokenizer->encode("ab", false, false), ElementsAre(259, 263));
}

TEST(SentencePiece, EqualScoresAreJoinedFromTheLeft) {
    const auto tokenizer = make(sentencepiece({{"\u2581", 0}, {"a", 0}, {"aa", 0}}));
    EXPECT_THAT(tokenizer->encode("aaa", false, false), ElementsAre(259, 261, 260));
}

TEST(SentencePiece, OnlyTheBeginningGetsASpace) {
    Description what = sentencepiece({{"\u2581", 0}, {"a", 0}, {"\u2581a", 1}});
    EXPECT_THAT(make(what)->encode("a", true, false), ElementsAre(1, 261));
    EXPECT_THAT(make(what)->encode("a a", true, false), ElementsAre(1, 261, 261));
    EXPECT_THAT(make(what)->encode("a</s>a", true, true), ElementsAre(1, 261, 2, 260));
    EXPECT_THAT(make(what)->encode(" a", true, false), ElementsAre(1, 259, 261));
    what.flags = {{"add_space_prefix", false}};
    EXPECT_THAT(make(what)->encode("a", true, false), ElementsAre(1, 260));
    what.flags = {{"add_bos_token", false}};
    EXPECT_THAT(make(what)->encode("a", true, false), ElementsAre(261));
    EXPECT_THAT(make(what)->encode("", true, false), IsEmpty());
}

TEST(SentencePiece, UnknownCharactersAreWrittenInBytes) {
    const auto tokenizer = make(sentencepiece({{"\u2581", 0}, {"a", 0}, {"\u00E9", 0}}));
    EXPECT_THAT(tokenizer->encode("\u00E9\u00FC", false, false),
                ElementsAre(259, 261, 3 + 0xC3, 3 + 0xBC));
    // A broken character takes nothing of what follows.
    EXPECT_THAT(tokenizer->encode("\xE2"
                                  "a\xFF",
                                  false, false),
                ElementsAre(259, 3 + 0xE2, 260, 3 + 0xFF));
}

TEST(SentencePiece, WithoutBytesTheyAreUnknown) {
    const auto tokenizer = make(sentencepiece({{"\u2581", 0}, {"a", 0}}, false));
    EXPECT_THAT(tokenizer->encode("az", false, false), ElementsAre(3, 4, 0));
}

TEST(SentencePiece, EveryTextComesBackBehindItsSpace) {
    const auto tokenizer = make(sentencepiece({{"\u2581", 0}, {"a", 0}, {"\u2581a", 1}}));
    const std::string text = "a  a\n\u4E2D \xFF\xC3(\t";
    EXPECT_EQ(decoded(*tokenizer, tokenizer->encode(text, true, false)), " " + text);
    EXPECT_EQ(tokenizer->decode(0) + tokenizer->decode(1) + tokenizer->decode(2), "");
}

TEST(SentencePiece, LettersDoNotBecomeAControlToken) {
    // Every step towards the names is a piece, and the names have the highest scores of all.
    const auto tokenizer = make(sentencepiece({{"\u2581", -9},
                                               {"<", -9},
                                               {"/", -9},
                                               {"s", -9},
                                               {">", -9},
                                               {"</", -1},
                                               {"s>", -1},
                                               {"</s", -2},
                                               {"<u", -1},
                                               {"nk>", -1},
                                               {"<0x", -1},
                                               {"41>", -1}}));
    for (const char* name : {"</s>", "<unk>", "<0x41>"}) {
        const auto tokens = tokenizer->encode(name, false);
        EXPECT_GT(tokens.size(), 1u) << name;
        EXPECT_EQ(decoded(*tokenizer, tokens), std::string(" ") + name);
    }
    EXPECT_THAT(tokenizer->encode("</s>", false, true), ElementsAre(2));
}

// ---- ends and refusals -------------------------------------------------------------------------

TEST(Vocabulary, KnowsWhatEndsAText) {
    Description what = byte_pairs({"a b"});
    what.tokens = {{"eos_token_id", byte('!')}, {"eot_token_id", byte('?')}};
    const auto tokenizer = make(what);
    for (const Token token : {Token{0}, Token{2}, byte('!'), byte('?')}) {
        EXPECT_TRUE(tokenizer->vocabulary().ends_text(token)) << token;
    }
    for (const Token token : {kNoToken, Token{1}, byte('a')}) {
        EXPECT_FALSE(tokenizer->vocabulary().ends_text(token)) << token;
    }
}

TEST(Vocabulary, ThatMakesNoSenseIsRefused) {
    const auto refusal = [](const Description& what) {
        const auto tokenizer = read(what);
        EXPECT_FALSE(tokenizer);
        return tokenizer ? std::string() : tokenizer.error().message;
    };
    Description what = byte_pairs({"a b"});
    what.tokens = {{"bos_token_id", 260}};
    EXPECT_THAT(refusal(what), HasSubstr("a special token is number 260, the vocabulary has 260"));
    what.tokens = {{"eos_token_id", 0xFFFFFF00u}};
    EXPECT_THAT(refusal(what), HasSubstr("a special token is number"));
    what = byte_pairs({"a b"});
    what.model = "signs";
    EXPECT_THAT(refusal(what), HasSubstr("a tokenizer of the kind 'signs'"));
    what = byte_pairs({"a b"}, "loom");
    EXPECT_THAT(refusal(what), HasSubstr("splits text like 'loom'"));
    what = byte_pairs({});
    EXPECT_THAT(refusal(what), HasSubstr("tokenizer.ggml.merges"));
}

}  // namespace
}  // namespace heddle::tool
