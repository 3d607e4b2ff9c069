#include "model/unicode.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace heddle::tool {
namespace {

TEST(FirstCharacter, IsDecoded) {
    struct Case {
        std::string text;
        char32_t code;
        std::size_t length;
    };
    for (const Case& each :
         {Case{"az", 'a', 1}, Case{"\xC3\xA9x", 0xE9, 2}, Case{"\xE2\x82\xACx", 0x20AC, 3},
          Case{"\xF0\x9F\x98\x80", 0x1F600, 4}, Case{std::string("\0", 1), 0, 1}}) {
        EXPECT_EQ(first_character(each.text).code, each.code) << each.text;
        EXPECT_EQ(first_character(each.text).length, each.length) << each.text;
    }
}

TEST(FirstCharacter, WhatIsNoUtf8IsTakenAByteAtATime) {
    const std::vector<std::string> broken{"\x80",              // continues nothing
                                          "\xC3",              // ends too early
                                          "\xC3z",             // is not continued
                                          "\xE2\x82",          //
                                          "\xE2\x82z",         //
                                          "\xF0\x9F\x98",      //
                                          "\xC0\xAF",          // longer than needed
                                          "\xE0\x80\xAF",      //
                                          "\xF0\x80\x80\x80",  //
                                          "\xED\xA0\x80",      // half of a surrogate pair
                                          "\xF4\x90\x80\x80",  // behind the last character
                                          "\xF5\x80\x80\x80",  //
                                          "\xFF"};
    for (const std::string& text : broken) {
        EXPECT_EQ(first_character(text).code, kNoCharacter) << testing::PrintToString(text);
        EXPECT_EQ(first_character(text).length, 1u) << testing::PrintToString(text);
    }
}

TEST(CharacterClasses, AreThoseOfUnicode) {
    const auto all_are = [](std::u32string_view codes, CharacterClass kind) {
        for (const char32_t code : codes) {
            EXPECT_EQ(class_of(code), kind) << std::hex << static_cast<std::uint32_t>(code);
        }
    };
    all_are(U"azAZ\u00AA\u00B5\u00E9\u03A9\u0416\u05D0\u0E01\u4E2D\uAC00\U0001D400",
            CharacterClass::letter);
    all_are(U"09\u00B2\u00BD\u0663\u0967\u2167\u3007\U0001D7D8", CharacterClass::number);
    all_are(U"\t\n\v\f\r \u0085\u00A0\u1680\u2003\u2028\u202F\u3000", CharacterClass::space);
    all_are(U"!_~\u00A1\u00D7\u0301\u20AC\u200B\uFFFD\U0001F600\0", CharacterClass::other);
    EXPECT_EQ(class_of(0x10FFFF), CharacterClass::other);
    EXPECT_EQ(class_of(0), CharacterClass::other);
}

}  // namespace
}  // namespace heddle::tool
