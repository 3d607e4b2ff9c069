#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "model/chat.hpp"
#include "model/vocabulary.hpp"

/// Tokenizers of small files whose every piece is known.
namespace heddle::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Vocabulary::Kind;

/// What a file says of its tokenizer.
struct Description {
    std::string model = "gpt2", pre = "gpt-2";
    std::vector<std::string> pieces;
    std::vector<Kind> kinds = {};  ///< of the first pieces; the others are normal
    std::vector<float> scores = {};
    std::vector<std::string> merges = {};
    std::vector<std::pair<const char*, std::uint32_t>> tokens = {};
    std::vector<std::pair<const char*, bool>> flags = {};
};

void set_texts(gguf_context* file, const char* key, const std::vector<std::string>& texts) {
    std::vector<const char*> pointers;
    for (const std::string& each : texts) pointers.push_back(each.c_str());
    gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

Result<std::unique_ptr<Tokenizer>> read(const Description& what) {
    const gguf_context_ptr file(gguf_init_empty());
    const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
    gguf_set_val_str(file.get(), key("model").c_str(), what.model.c_str());
    gguf_set_val_str(file.get(), key("pre").c_str(), what.pre.c_str());
    set_texts(file.get(), key("tokens").c_str(), what.pieces);
    if (!what.merges.empty()) set_texts(file.get(), key("merges").c_str(), what.merges);
    std::vector<std::int32_t> kinds(what.pieces.size(), static_cast<std::int32_t>(Kind::normal));
    for (std::size_t i = 0; i < what.kinds.size(); ++i) {
        kinds[i] = static_cast<std::int32_t>(what.kinds[i]);
    }
    gguf_set_arr_data(file.get(), key("token_type").c_str(), GGUF_TYPE_INT32, kinds.data(),
                      kinds.size());
    if (!what.scores.empty()) {
        gguf_set_arr_data(file.get(), key("scores").c_str(), GGUF_TYPE_FLOAT32, what.scores.data(),
                          what.scores.size());
    }
    for (const auto& [name, token] : what.tokens) {
        gguf_set_val_u32(file.get(), key(name).c_str(), token);
    }
    for (const auto& [name, flag] : what.flags) {
        gguf_set_val_bool(file.get(), key(name).c_str(), flag);
    }
    const std::string path = testing::TempDir() + "tokenizer-" + std::to_string(getpid()) + ".gguf";
    EXPECT_TRUE(gguf_write_to_file(file.get(), path.c_str(), true));
    HEDDLE_TRY_ASSIGN(const ModelFile opened, ModelFile::open(path));
    auto tokenizer = Tokenizer::of(opened);
    std::filesystem::remove(path);
    return tokenizer;
}

std::unique_ptr<Tokenizer> make(const Description& what) {
    auto tokenizer = read(what);
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer ? *std::move(tokenizer) : nullptr;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    std::string text;
    for (const Token token : tokens) text += tokenizer.decode(token);
    return text;
}

// ---- byte pairs --------------------------------------------------------------------------------

/// Special tokens, the 256 bytes as they are written in files, then what pairs of them become.
Description byte_pairs(const std::vector<std::string>& merges, const std::string& pre = "gpt-2") {
    Description what;
    what.pre = pre;
    what.pieces = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    what.kinds = {Kind::control, Kind::control, Kind::control};
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool as_it_is = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        const int code = as_it_is ? byte : next++;
        std::string piece;
        if (code < 128) {
            piece = static_cast<char>(code);
        } else {
            piece = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
        }
        what.pieces.push_back(piece);
    }
    what.merges = merges;
    for (std::string merge : merges) {
        merge.erase(merge.find(' '), 1);
        what.pieces.push_back(merge);
    }
    return what;
}

constexpr Token kFirstByte = 3, kFirstMerge = 3 + 256;

Token byte(char c) { return kFirstByte + static_cast<unsigned char>(c); }
Token merge(int number) { return kFirstMerge + number; }

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
    const auto chat = ChatTemplate::of("<|im_start|>", "here");
    ASSERT_TRUE(chat);
    const auto bytes = [](std::string_view text) {
        std::vector<Token> tokens;
        for (const char c : text) tokens.push_back(byte(c));
        return tokens;
    };
    std::vector<Token> expected{1, merge(4), byte('\n'), merge(0), 2, byte('\n'), 1};
    for (const Token token : bytes("assistant\n")) expected.push_back(token);
    EXPECT_EQ(tokenizer->encode(chat->first("hi"), true, true), expected);
    // The answer's end comes before.
    expected[3] = merge(1);
    expected.insert(expected.begin(), {2, byte('\n')});
    EXPECT_EQ(tokenizer->encode(chat->next("yo"), false, true), expected);
}

// ---- SentencePiece -----------------------------------------------------------------------------

/// <unk> <s> </s>, the bytes, then pieces with their scores.
Description sentencepiece(const std::vector<std::pair<std::string, float>>& pieces,
                          bool with_bytes = true) {
    Description what;
    what.model = "llama";
    what.pieces = {"<unk>", "<s>", "</s>"};
    what.kinds = {Kind::unknown, Kind::control, Kind::control};
    for (int i = 0; i < 256 && with_bytes; ++i) {
        constexpr char kDigits[] = "0123456789ABCDEF";
        what.pieces.push_back(std::string("<0x") + kDigits[i / 16] + kDigits[i % 16] + ">");
        what.kinds.push_back(Kind::byte);
    }
    what.scores.assign(what.pieces.size(), 0);
    for (const auto& [piece, score] : pieces) {
        what.pieces.push_back(piece);
        what.scores.push_back(score);
    }
    what.tokens = {{"unknown_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}};
    return what;
}

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
