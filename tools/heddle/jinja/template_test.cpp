#include "jinja/template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

/// What Python's Jinja gives is compared in reference_test.py; here is what hostile templates get.
namespace heddle::tool::jinja {
namespace {

using testing::HasSubstr;

Result<Text> rendered(std::string_view source, const Limits& limits = {}) {
    HEDDLE_TRY_ASSIGN(const Template made, Template::parse(source));
    return made.render({{"said", said_text("S")}, {"a", own_text("a")}}, limits);
}

std::string refusal(std::string_view source, const Limits& limits = {}) {
    const auto made = rendered(source, limits);
    EXPECT_FALSE(made) << source.substr(0, 200);
    return made ? "" : made.error().message;
}

TEST(Jinja, RunsOutOfSteps) {
    EXPECT_EQ(refusal("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}"
                      "{% endfor %}"),
              "line 1: the template takes more than 4000000 steps");
    EXPECT_THAT(refusal("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}"),
                HasSubstr("deep in each other"));
    EXPECT_THAT(refusal("{% for i in range(9) %}{{ i }}{% endfor %}", {.steps = 20}),
                HasSubstr("more than 20 steps"));
}

TEST(Jinja, TextsHaveAnEnd) {
    EXPECT_EQ(refusal("{{ 'a' * 99999999999 }}"),
              "line 1: repeated 99999999999 times; the most is 4294967296");
    EXPECT_THAT(refusal("{{ 'a' * 999999999 }}"), HasSubstr("a text of 999999999 bytes"));
    EXPECT_THAT(refusal("{% set ns = namespace(t='abcdefgh') %}{% for i in range(60) %}"
                        "{% set ns.t = ns.t + ns.t %}{% endfor %}"),
                HasSubstr("the most is 16777216"));
    EXPECT_THAT(refusal("{{ ('a' * 4000).replace('a', 'b' * 9000) }}"), HasSubstr("bytes"));
    EXPECT_THAT(refusal("{% for i in range(99) %}{{ 'a' * 200000 }}{% endfor %}"),
                HasSubstr("a text of"));
    EXPECT_THAT(refusal("{{ 'a' | indent(9999) }}"), HasSubstr("9999 spaces; the most is 1000"));
    EXPECT_THAT(refusal("{{ [0] * 99999999 }}"), HasSubstr("steps"));
}

TEST(Jinja, ValuesThatShareTheirPartsAreNotPrintedForEver) {
    const std::string doubled =
        "{% set ns = namespace(l=['xxxxxxxx']) %}{% for i in range(60) %}"
        "{% set ns.l = [ns.l, ns.l] %}{% endfor %}";
    for (const char* use : {"{{ ns.l }}", "{{ ns.l | tojson }}", "{{ ns.l == [ns.l[0], ns.l[1]] }}",
                            "{{ ns.l | string | length }}"}) {
        refusal(doubled + use);
    }
}

TEST(Jinja, NothingIsTooDeepForTheStack) {
    const auto nested = [](const std::string& open, const std::string& close, int times) {
        std::string made = "{{ ";
        for (int i = 0; i < times; ++i) made += open;
        made += "a";
        for (int i = 0; i < times; ++i) made += close;
        return made + " }}";
    };
    constexpr int kMany = 20000;
    for (const auto& [open, close] :
         std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                          {"[", "]"},
                                                          {"not ", ""},
                                                          {"-", ""},
                                                          {"a if ", " else a"},
                                                          {"", "+a"},
                                                          {"", "|upper"},
                                                          {"", ".b"},
                                                          {"", "[0]"},
                                                          {"", " is string"},
                                                          {"", " or a"},
                                                          {"", "()"},
                                                          {"", "**a"},
                                                          {"{'a':", "}"}}) {
        EXPECT_THAT(refusal(nested(open, close, kMany)),
                    HasSubstr("more than 150 expressions or tags in each other"))
            << open << close;
    }
    std::string tags;
    for (int i = 0; i < kMany; ++i) tags += "{% if a %}";
    EXPECT_THAT(refusal(tags), HasSubstr("more than 150"));
    // Chains in brackets that begin chains.
    std::string heavy = "a";
    for (int i = 0; i < 70; ++i) {
        heavy = "(" + heavy + ")";
        for (int j = 0; j < 70; ++j) heavy += "~a";
    }
    EXPECT_THAT(refusal("{{ " + heavy + " }}"), HasSubstr("deep in each other"));
    EXPECT_THAT(refusal("{% set ns = namespace(l=[]) %}{% for i in range(9999) %}"
                        "{% set ns.l = [ns.l] %}{% endfor %}"),
                HasSubstr("more than 100 deep"));
}

TEST(Jinja, NothingHoldsItself) {
    EXPECT_THAT(refusal("{% set ns = namespace() %}{% set ns.x = ns %}"),
                HasSubstr("a namespace cannot be put into another value"));
    EXPECT_THAT(refusal("{% set ns = namespace() %}{{ [ns] }}"), HasSubstr("a namespace"));
    EXPECT_THAT(refusal("{% set ns = namespace(x=namespace()) %}"), HasSubstr("a namespace"));
    EXPECT_THAT(refusal("{{ [a.upper] }}"), HasSubstr("a function cannot be put"));
}

TEST(Jinja, SearchesThatTakeLongAreRefused) {
    const auto begin = std::chrono::steady_clock::now();
    refusal(
        "{% set hay = 'a' * 9999999 %}{% set needle = 'a' * 4999999 + 'b' %}"
        "{% for i in range(9999) %}{{ needle in hay }}{% endfor %}");
    refusal("{% set t = 'a' * 9999999 %}{% for i in range(99999) %}{{ t == t }}{% endfor %}");
    refusal("{{ ([('b' * 9999999)] * 9999) | sort }}");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Jinja, NumbersDoNotWrap) {
    EXPECT_THAT(refusal("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("{{ 9223372036854775808 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("{{ 10 ** 30 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("{{ (-9223372036854775807 - 1) // -1 }}"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("{{ (-9223372036854775807 - 1) | abs }}"), HasSubstr("64 bits"));
    EXPECT_TRUE(
        rendered("{{ 1e308 * 10 }}{{ 'nan' | float }}{{ '1e999' | int }}{{ a[::9999999] }}"));
    EXPECT_TRUE(rendered("{{ a[-9223372036854775807:9223372036854775807:9223372036854775807] }}"));
    EXPECT_TRUE(rendered("{{ range(9223372036854775806, 9223372036854775807, 5) | list }}"));
}

TEST(Jinja, TimesAreToldByKnownFormats) {
    EXPECT_TRUE(rendered("{{ strftime_now('%d %b %Y') }}"));
    EXPECT_THAT(refusal("{{ strftime_now('%q') }}"), HasSubstr("no such format"));
    EXPECT_THAT(refusal("{{ strftime_now('%') }}"), HasSubstr("no such format"));
    EXPECT_THAT(refusal("{{ strftime_now('%Y' * 99) }}"), HasSubstr("198 bytes"));
}

TEST(Jinja, EveryByteKnowsWhoSaidIt) {
    for (const char* source :
         {"[{{ said }}]", "[{{ said | trim | upper }}]", "{{ '[' ~ said ~ ']' }}",
          "{{ '[%]' .replace('%', said) }}", "{{ ['[', ']'] | join(said) }}",
          "{% set x %}[{{ said }}]{% endset %}{{ x }}", "{{ ('[' + said + ']')[0:3] }}",
          "{% macro m(t) %}[{{ t }}]{% endmacro %}{{ m(said) }}",
          "{{ ('[' + said + ']').split('x')[0] }}"}) {
        const auto made = rendered(source);
        ASSERT_TRUE(made) << source << made.error().message;
        ASSERT_EQ(made->bytes(), "[S]") << source;
        EXPECT_EQ(made->origin(0), Text::Origin::of_template) << source;
        EXPECT_EQ(made->origin(1), Text::Origin::said) << source;
        EXPECT_EQ(made->origin(2), Text::Origin::of_template) << source;
    }
}

TEST(Jinja, AnyBytesAreATemplateOrRefused) {
    constexpr std::string_view kParts[] = {
        "{{",   "}}",     "{%",   "%}",     "{#",  "#}",      "-",         "+",
        " ",    "\n",     "a",    "said",   "if",  "else",    "endif",     "for",
        "in",   "endfor", "set",  "=",      ".",   "|",       "upper",     "join",
        "(",    ")",      "[",    "]",      "{",   "}",       ":",         ",",
        "'x'",  "1",      "2.5",  "not",    "is",  "defined", "macro",     "endmacro",
        "loop", "range",  "~",    "'",      "raw", "endraw",  "namespace", "break",
        "\\",   "\xc3",   "\xa9", "tojson", "*",   "//",      "and"};
    std::mt19937 random(7);
    const Limits few{.steps = 20000, .depth = 100, .bytes = 1U << 16U};
    for (int i = 0; i < 20000; ++i) {
        std::string source;
        for (auto n = random() % 24; n > 0; --n) {
            source += kParts[random() % std::size(kParts)];
            if (random() % 2 == 0) source += ' ';
        }
        const auto made = rendered(source, few);
        EXPECT_TRUE(made || !made.error().message.empty());
    }
}

}  // namespace
}  // namespace heddle::tool::jinja
