#include "core/printable.hpp"

#include <gtest/gtest.h>

#include "core/last_error.hpp"
#include "core/test_support.hpp"

namespace heddle {
namespace {

TEST(Printable, LeavesTextAsItIs) {
    for (const char* text : {"", "blk.0.attn_q.weight", "Größe 漢字 \U0001F9F5 ~"}) {
        EXPECT_EQ(printable(text), text);
    }
}

TEST(Printable, TakesControlCharactersOut) {
    EXPECT_EQ(printable("\x1b[2Ja\nb\tc\rd\x7f"), "?[2Ja?b?c?d?");
    EXPECT_EQ(printable("a\nb\tc\rd", "\n\t"), "a\nb\tc?d");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
    EXPECT_EQ(printable("\xC2\x9B"
                        "2J \xC2\xA0"),
              "??2J \xC2\xA0")
        << "a control character of two bytes";
}

TEST(Printable, TakesOutWhatIsNoUtf8) {
    EXPECT_EQ(printable("\x9B"
                        "2J"),
              "?2J");
    EXPECT_EQ(printable("a\xE6\xBC"), "a??");
    EXPECT_EQ(printable("\xC0\xAF \xE0\x80\x80 \xED\xA0\x80 \xF5\x80\x80\x80"), "?? ??? ??? ????");
}

TEST(Printable, KnowsWhereACharacterIsCutInTwo) {
    const std::string text = "a漢";
    EXPECT_EQ(whole_characters(text), 4u);
    EXPECT_EQ(whole_characters(text.substr(0, 3)), 1u);
    EXPECT_EQ(whole_characters(text.substr(0, 2)), 1u);
    EXPECT_EQ(whole_characters("\x80\x80\x80\x80"), 4u) << "no character, whatever follows";
    EXPECT_EQ(whole_characters(""), 0u);
}

TEST(Printable, SentencesAndDescriptionsAre) {
    keep_sentence("tensor '\x1b]0;x\x07' and\na line");
    EXPECT_STREQ(last_sentence(), "tensor '?]0;x?' and\na line");
    forget_sentence();
    TestContext context;
    Tensor* tensor = context.tensor(GGML_TYPE_F32, {3}, "a\x1b[2J\nb");
    EXPECT_EQ(describe(*tensor), "'a?[2J?b' f32[3,1,1,1]");
}

}  // namespace
}  // namespace heddle
