#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>

#include "model_test.hpp"

/// Prompts and chat templates that nobody in their right mind would give, and pipes that break.
namespace heddle::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Hostile : public ModelTest {};

TEST_F(Hostile, AnyBytesAreAPrompt) {
    const std::string prompts[] = {
        std::string("a\0b", 3), "\xff\xfe\x80", "\xc3",   "\xed\xa0\x80",
        "\xf0\x9f\x92\xa9",     "\x1b[2J",      "\r\n\t", "</s><s><unk>"};
    for (const std::string& prompt : prompts) {
        write_content(directory_.path("prompt"), prompt);
        for (const std::string& model : {model_, kTales}) {
            const Outcome outcome =
                heddle({"run", model, "-f", directory_.path("prompt"), "-n", "2", "--json"});
            ASSERT_EQ(outcome.status, 0) << outcome.err;
            const json said = json::parse(outcome.out, nullptr, false);
            ASSERT_TRUE(said.is_object()) << "JSON is UTF-8, whatever was given: " << outcome.out;
            EXPECT_LE(said["ids"].size(), 2u) << "a tale may be at its end";
        }
        // Every byte has a token of its own in the small model: none is lost, none is made up.
        const Outcome read =
            heddle({"run", model_, "-f", directory_.path("prompt"), "-n", "0", "-q"});
        EXPECT_EQ(read.out, prompt + "\n");
    }
}

TEST_F(Hostile, APromptThatIsFarTooLongIsRefusedInGoodTime) {
    write_content(directory_.path("long"), std::string(1 << 20, 'a'));
    write_content(directory_.path("words"), [] {
        std::string text;
        while (text.size() < (1 << 20)) text += "once upon a time there was ";
        return text;
    }());
    for (const char* name : {"long", "words"}) {
        for (const std::string& model : {model_, kTales}) {
            const auto began = std::chrono::steady_clock::now();
            const Outcome outcome = heddle({"run", model, "-f", directory_.path(name), "-n", "1"});
            EXPECT_EQ(outcome.status, 1);
            EXPECT_THAT(outcome.err, HasSubstr(" tokens long, the context has room for "));
            EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << name;
        }
    }
    const Outcome endless = heddle({"run", model_, "-f", "/dev/zero"});
    EXPECT_EQ(endless.status, 1);
    EXPECT_EQ(endless.err,
              "heddle run: /dev/zero: is longer than 64.0 MiB, the most that is read\n");
}

TEST_F(Hostile, AFileThatIsNoPromptIsNamed) {
    const auto refusal = [&](const std::string& file) {
        const Outcome outcome = heddle({"run", model_, "-f", file});
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.out, "");
        return outcome.err;
    };
    EXPECT_EQ(refusal("/nowhere"),
              "heddle run: /nowhere: cannot be opened: No such file or directory\n");
    EXPECT_THAT(refusal(directory_.path("")), HasSubstr("cannot be read: Is a directory\n"));
}

TEST_F(Hostile, AClosedStandardInputIsASentence) {
    const auto closed = [] { close(STDIN_FILENO); };
    const Outcome read = heddle_after(closed, {"run", model_, "-n", "1"});
    EXPECT_EQ(read.status, 1);
    EXPECT_THAT(read.err, HasSubstr("standard input: cannot be read: Bad file descriptor"));
    const Outcome given = heddle_after(closed, {"run", model_, "-p", "a", "-n", "1", "-q"});
    EXPECT_EQ(given.status, 0) << given.err;
    EXPECT_EQ(heddle_after(closed, {"run", model_, "-i"}).status, 0) << "nobody says anything";
}

/// As `heddle run ... | head -1` ends.
TEST_F(Hostile, AReaderThatLeavesEndsTheProgramQuietly) {
    const auto abandoned = [] {
        int ends[2];
        if (pipe(ends) != 0) _exit(127);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        std::signal(SIGPIPE, SIG_DFL);
    };
    for (const Words& words : std::vector<Words>{
             {"run", kTales, "-p", "Once", "-n", "1000"},
             {"run", kTales, "-p", "Once", "-n", "1000", "--json-lines"},
             {"run", kTales, "-p", "Once", "-n", "100", "--html", directory_.path("page.html")},
             {"inspect", kTales, "--verbose"},
             {"devices", "-v"}}) {
        const Outcome outcome = heddle_after(abandoned, words);
        EXPECT_EQ(outcome.status, 128 + SIGPIPE) << words[0];
        EXPECT_EQ(outcome.err, "") << words[0];
    }
    EXPECT_EQ(directory_.files(), Words{"model.gguf"}) << "nothing half-written stays";
}

/// A template that cannot be used costs a line; who insists on it gets a failure. Either is quick.
TEST_F(Hostile, TemplatesThatUseUpEverythingAreStopped) {
#ifdef HEDDLE_SANITIZED
    constexpr std::chrono::seconds kLongest{120};
#else
    constexpr std::chrono::seconds kLongest{30};
#endif
    std::string deep = "{{ ", nested;
    for (int i = 0; i < 5000; ++i) deep += "(";
    for (int i = 0; i < 5000; ++i) nested += "{% if messages %}";
    const std::pair<std::string, const char*> cases[] = {
        {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep"},
        {"{% for a in range(9999) %}{{ 'a' * 99999 }}{% endfor %}", ""},
        {"{{ 'a' * 999999999999 }}", "repeated 999999999999 times; the most is 4294967296"},
        {"{{ [1] * 999999999 }}", ""},
        {deep, ""},
        {nested, ""},
        {"{% for m in messages %}", ""},
        {"{{ messages[99].content }}", ""},
        {"\xff\xfe{{ x", ""},
        {"{{ raise_exception('\x1b[2J') }}", "?[2J"},
        {std::string(2 << 20, 'x'), "the most is 1048576"}};
    for (const auto& [source, says] : cases) {
        const std::string model = with_template(source);
        const auto began = std::chrono::steady_clock::now();
        const Outcome text = heddle({"run", model, "-p", "a", "-n", "1", "-q"});
        EXPECT_EQ(text.status, 0) << text.err;
        EXPECT_THAT(text.err, HasSubstr("its chat template cannot be used: "));
        EXPECT_THAT(text.err, HasSubstr("; the text is continued as it stands]"));
        EXPECT_THAT(text.err, HasSubstr(says));
        EXPECT_LT(text.err.size(), 600u);
        EXPECT_THAT(text.out, testing::StartsWith("a"));
        const Outcome chat = heddle({"run", model, "-p", "a", "-n", "1", "--chat"});
        EXPECT_EQ(chat.status, 1);
        EXPECT_THAT(chat.err, testing::StartsWith("heddle run: "));
        EXPECT_EQ(chat.out, "");
        EXPECT_LT(std::chrono::steady_clock::now() - began, kLongest);
        EXPECT_LT(text.peak_bytes, std::size_t{1} << 30);
    }
}

/// One that is fine at first and fails later ends its turn, not the conversation.
TEST_F(Hostile, ATemplateThatFailsInMidConversationEndsItsTurn) {
    const std::string model = with_template(
        "{% for m in messages %}{% if m.content == 'boom' %}{{ raise_exception('No.') }}{% endif %}"
        "<{{ m.content }}>{% endfor %}");
    const Outcome outcome = heddle({"run", model, "-i", "-n", "1", "-q"}, "a\nboom\nb\n");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, HasSubstr("No."));
    EXPECT_THAT(outcome.err, HasSubstr("lines without an answer: 1\n"));
    EXPECT_EQ(std::ranges::count(outcome.out, '\n'), 2) << "two lines are answered";
}

TEST_F(Hostile, ATemplateOfAnotherTypeIsASentence) {
    const std::string file = path("number.gguf");
    copy_changed(model_, file, [](gguf_context* keys, ggml_context*) {
        gguf_set_val_u32(keys, "tokenizer.chat_template", 7);
    });
    const Outcome outcome = heddle({"run", file, "-p", "a", "-n", "1", "-q"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("'tokenizer.chat_template' is of type u32, not text"));
}

}  // namespace
}  // namespace heddle::cli_test
