#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "ggml-cpp.h"
#include "ggml.h"
#include "gguf.h"
#include "model_test.hpp"

/// The program where its surroundings are hostile: output that cannot be written, no more threads,
/// models and options that make no sense.
namespace heddle::cli_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class Surroundings : public ModelTest {
protected:
    /// The small model with some keys set, or tensors added, by `change`.
    std::string changed(const std::function<void(gguf_context*, ggml_context*)>& change) const {
        copy_changed(model_, path("changed.gguf"), change);
        return path("changed.gguf");
    }

    static Outcome run(const std::string& file, const Words& more = {}) {
        Words words{"run", file, "-p", "a", "-n", "2", "-q"};
        words.insert(words.end(), more.begin(), more.end());
        return heddle(words);
    }

    static void refuses(const Outcome& outcome, const std::string& says, int status = 1) {
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_THAT(outcome.err, HasSubstr(says));
        EXPECT_EQ(outcome.out, "");
    }

    /// All commands, as they are called when all is well.
    std::vector<Words> every_command() const {
        return {{"--help"},
                {"--version"},
                {"run", "--help"},
                {"devices"},
                {"devices", "--json"},
                {"inspect", model_},
                {"inspect", model_, "--json"},
                {"explain", model_},
                {"explain", model_, "--json"},
                {"quantize", model_, path("q8.gguf"), "Q8_0"},
                {"run", model_, "-p", "a", "-n", "2", "-q"},
                {"run", model_, "-p", "a", "-n", "2", "--json"},
                {"verify", "--op", "ADD", "--cases", "1"},
                {"verify", model_, "--on", "sim"},
                {"bench", "ops", "ADD", "--quick", "-t", "1"},
                {"completion", "bash"},
                {"manual"}};
    }
};

TEST_F(Surroundings, EveryCommandNoticesThatItsOutputIsLost) {
    const auto full = [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); };
    const auto closed = [] { close(STDOUT_FILENO); };
    for (const Words& words : every_command()) {
        SCOPED_TRACE(testing::PrintToString(words));
        const Outcome on_full = heddle_after(full, words), on_closed = heddle_after(closed, words);
        EXPECT_EQ(on_full.status, 1);
        EXPECT_THAT(on_full.err, HasSubstr("standard output cannot be written"));
        EXPECT_EQ(on_closed.status, 1);
        EXPECT_THAT(on_closed.err, HasSubstr("standard output cannot be written"));
    }
}

TEST_F(Surroundings, WhatIsPrintedNeverGoesIntoAFileThatIsWritten) {
    ASSERT_EQ(heddle({"quantize", model_, path("right.gguf"), "Q8_0"}).status, 0);
    heddle_after([] { close(STDOUT_FILENO), close(STDIN_FILENO), close(STDERR_FILENO); },
                 {"quantize", model_, path("q8.gguf"), "Q8_0"});
    EXPECT_TRUE(content_of(path("q8.gguf")) == content_of(path("right.gguf")));
}

TEST_F(Surroundings, AClosedStandardErrorIsNoFailure) {
    const auto closed = [] { close(STDERR_FILENO); };
    const Outcome outcome = heddle_after(closed, {"run", model_, "-p", "a", "-n", "2"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_THAT(outcome.out, testing::StartsWith("a"));
    EXPECT_EQ(heddle_after(closed, {"run", path("none.gguf")}).status, 1);
}

TEST_F(Surroundings, QuantizeLeavesWholeNumbersAndF64AsTheyAre) {
    const ggml_type types[] = {GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_I64,
                               GGML_TYPE_F64};
    const std::string file = changed([&](gguf_context* to, ggml_context* context) {
        for (const ggml_type type : types) {
            ggml_tensor* tensor = ggml_new_tensor_2d(context, type, 64, 64);
            ggml_format_name(tensor, "%s.weight", ggml_type_name(type));
            gguf_add_tensor(to, tensor);
        }
    });
    for (const char* type : {"Q4_0", "F16", "Q8_0"}) {
        const Outcome outcome = heddle({"quantize", file, path("out.gguf"), type, "-t", "4"});
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_THAT(outcome.out, AllOf(HasSubstr("15 of 25 tensors changed"),
                                       HasSubstr("; 5 of whole numbers or f64 left as they are")));
        const std::string text = heddle({"inspect", path("out.gguf")}).out;
        for (const ggml_type kept : types) {
            EXPECT_THAT(text, testing::ContainsRegex(std::string(ggml_type_name(kept)) +
                                                     "\\.weight +" + ggml_type_name(kept)));
        }
    }
}

#ifndef HEDDLE_SANITIZED  // sanitizers need address space of their own

/// No more than three threads can be started.
void few_threads() {
    const rlimit stack{std::size_t{256} << 20, std::size_t{256} << 20},
        all{std::size_t{1} << 30, std::size_t{1} << 30};
    setrlimit(RLIMIT_STACK, &stack);  // of each thread
    setrlimit(RLIMIT_AS, &all);
}

TEST_F(Surroundings, ThreadsThatCannotBeStartedAreASentence) {
    const Outcome bench = heddle_after(few_threads, {"bench", "ceilings", "--quick", "-t", "8"});
    EXPECT_EQ(bench.status, 1);
    EXPECT_THAT(bench.err,
                testing::ContainsRegex("^heddle bench ceilings: thread [2-4] of 8 cannot be "
                                       "started: Resource temporarily unavailable\n$"));
    const Outcome run = heddle_after(
        few_threads, {"run", model_, "-p", "a", "-n", "2", "-q", "-d", "sim:devices=3"});
    EXPECT_EQ(run.status, 0) << run.err;  // the work is done by the threads there are
}

TEST_F(Surroundings, QuantizeGoesOnWithTheThreadsThereAre) {
    ASSERT_EQ(heddle({"quantize", model_, path("right.gguf"), "Q4_0", "-t", "1"}).status, 0);
    const Outcome outcome =
        heddle_after(few_threads, {"quantize", model_, path("q4.gguf"), "Q4_0", "-t", "64"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(content_of(path("q4.gguf")) == content_of(path("right.gguf")));
}

#endif

TEST_F(Surroundings, RunRefusesParametersOfTheWrongTypeOrSize) {
    using Change = std::function<void(gguf_context*)>;
    const float scores[] = {1, 2, 3};
    const std::int32_t kinds[300] = {};
    const std::pair<Change, const char*> cases[] = {
        {[](auto* f) { gguf_set_val_u32(f, "llama.rope.freq_base", 10000); },
         "'llama.rope.freq_base' is of type u32, not f32 or f64"},
        {[](auto* f) { gguf_set_val_f32(f, "llama.rope.freq_base", 0); },
         "'llama.rope.freq_base' is 0; a number above 0 is needed"},
        {[](auto* f) { gguf_set_val_f32(f, "llama.rope.freq_base", std::nanf("")); },
         "'llama.rope.freq_base' is nan; a number above 0 is needed"},
        {[](auto* f) { gguf_set_val_str(f, "llama.attention.layer_norm_rms_epsilon", "1e-5"); },
         "'llama.attention.layer_norm_rms_epsilon' is of type str, not f32 or f64"},
        {[](auto* f) { gguf_set_val_u32(f, "llama.rope.scaling.type", 1); },
         "'llama.rope.scaling.type' is of type u32, not text"},
        {[&](auto* f) {
             gguf_set_arr_data(f, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores, 3);
         },
         "'tokenizer.ggml.scores' has 3 elements, the vocabulary 259"},
        {[&](auto* f) {
             gguf_set_arr_data(f, "tokenizer.ggml.scores", GGUF_TYPE_INT32, kinds, 259);
         },
         "'tokenizer.ggml.scores' is of type arr, not a list of f32"},
        {[&](auto* f) {
             gguf_set_arr_data(f, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, kinds, 300);
         },
         "'tokenizer.ggml.token_type' has 300 elements, the vocabulary 259"},
        {[](auto* f) { gguf_set_val_u64(f, "tokenizer.ggml.eos_token_id", 1ull << 32); },
         "a special token is number 4294967296, the vocabulary has 259"},
        {[](auto* f) { gguf_set_val_str(f, "tokenizer.ggml.add_bos_token", "yes"); },
         "'tokenizer.ggml.add_bos_token' is of type str, not true or false"}};
    for (const auto& [change, sentence] : cases) {
        const auto& apply = change;  // clang 14 captures no bindings
        refuses(run(changed([&](gguf_context* file, ggml_context*) { apply(file); })), sentence);
    }
}

TEST_F(Surroundings, RunSaysThatResultsAreNoNumbers) {
    const std::string file = changed([](gguf_context* to, ggml_context* context) {
        ggml_tensor* norm = ggml_new_tensor_1d(context, GGML_TYPE_F32, SmallModel::kWidth);
        for (std::int64_t i = 0; i < ggml_nelements(norm); ++i) {
            static_cast<float*>(norm->data)[i] = std::numeric_limits<float>::quiet_NaN();
        }
        gguf_set_tensor_data(to, "output_norm.weight", norm->data);
    });
    for (const char* temperature : {"0", "1"}) {
        const Outcome outcome = run(file, {"--temperature", temperature});
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err,
                  "heddle run: the model's result for token 0 is not a number: its weights or "
                  "parameters are broken\n");
    }
}

TEST_F(Surroundings, RunRefusesOptionsThatAreNoNumbers) {
    const std::pair<Words, const char*> cases[] = {
        {{"--temperature", "nan"}, "'nan' is not a number from 0 to 1000000"},
        {{"--temperature", "-1"}, "'-1' is not a number from 0 to 1000000"},
        {{"--top-p", "nan"}, "'nan' is not a number from 0 to 1"},
        {{"--min-p", "1.5"}, "'1.5' is not a number from 0 to 1"},
        {{"--top-k", "-1"}, "--top-k"},
        {{"--seed", "18446744073709551616"},
         "is not a whole number from 0 to 18446744073709551615"},
        {{"--seed", "-1"}, "'-1' is not a whole number"}};
    for (const auto& [words, sentence] : cases) {
        const Outcome outcome = run(model_, words);
        refuses(outcome, sentence, 2);
        EXPECT_LT(outcome.err.size(), 300u) << outcome.err;
    }
    refuses(run(model_, {"--device", ""}), "--device '': names no device");
    refuses(run(model_, {"--device", ","}), "--device ',': names no device");
    EXPECT_EQ(run(model_, {"--seed", "18446744073709551615"}).status, 0);
}

TEST_F(Surroundings, MalformedParametersOfADeviceAreNamed) {
    for (const char* words : {"sim:mem=-1", "sim:mem=", "sim:loom=1", "sim:devices=0"}) {
        const Outcome outcome = run(model_, {"--device", words});
        refuses(outcome, "does not accept the parameters");
        EXPECT_THAT(outcome.err, Not(HasSubstr("no device is called")));
    }
}

TEST_F(Surroundings, ALineThatDoesNotFitEndsItsTurnOnly) {
    const Outcome outcome = heddle({"run", model_, "-i", "-n", "1", "-q", "--temperature", "0"},
                                   std::string(200, 'a') + "\nb\n");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("the prompt is 204 tokens long"),
                                   HasSubstr("heddle run: lines without an answer: 1\n")));
    EXPECT_NE(outcome.out, "") << "the second line was answered";
}

TEST_F(Surroundings, AFifoIsNoModelAndIsNotWaitedFor) {
    ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
    for (const Words& words :
         {Words{"inspect", path("fifo")}, Words{"quantize", path("fifo"), path("o.gguf"), "Q8_0"},
          Words{"run", path("fifo"), "-p", "a"}, Words{"explain", path("fifo")}}) {
        refuses(heddle(words), "fifo: is not a file");
    }
}

TEST_F(Surroundings, NamesFromFilesDoNotSteerATerminal) {
    const std::string file = changed([](gguf_context* to, ggml_context* context) {
        ggml_tensor* tensor = ggml_new_tensor_1d(context, GGML_TYPE_F32, 4);
        ggml_set_name(tensor, "a\x1b[2J\x9b\nb");
        gguf_add_tensor(to, tensor);
        gguf_set_val_str(to, "k\x1b]0;x\x07", "value\x1b[1m");
    });
    const Outcome shown = heddle({"inspect", file});
    EXPECT_EQ(shown.status, 0) << shown.err;
    EXPECT_THAT(shown.out, AllOf(HasSubstr("a?[2J??b "), HasSubstr("k?]0;x? "),
                                 Not(HasSubstr("\x1b")), Not(HasSubstr("\x9b"))));
    const std::string other = changed([](gguf_context* to, ggml_context*) {
        gguf_set_val_str(to, "general.architecture", "\x1b[2Jloom\xc2\x9b");
    });
    const Outcome refused = run(other);
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("a model of the architecture '?[2Jloom?"));
}

TEST_F(Surroundings, AMappedModelThatIsCutShortIsASentence) {
    const std::string file = path("mapped.gguf");
    SmallModel{.hidden = 4096, .up_hidden = 4096}.write(file);
    int lines[2];
    ASSERT_EQ(pipe(lines), 0);
    // What the program writes after its first line says that the model is mapped by now.
    ASSERT_EQ(mkfifo(path("answers").c_str(), 0600), 0);
    std::string first(1, ' ');
    const auto prepare = [&] {
        dup2(lines[0], STDIN_FILENO);
        close(lines[1]);
    };
    ASSERT_EQ(write(lines[1], "a\n", 2), 2);
    ASSERT_EQ(fcntl(lines[1], F_SETFD, FD_CLOEXEC), 0);
    Outcome outcome;
    std::thread program([&] {
        outcome = heddle_after(
            [&] {
                prepare();
                dup2(open(path("answers").c_str(), O_WRONLY), STDOUT_FILENO);
            },
            {"run", file, "--mapped", "-i", "-n", "1", "-q", "--temperature", "0", "-d", "CPU"});
    });
    const int answers = open(path("answers").c_str(), O_RDONLY);
    EXPECT_EQ(read(answers, first.data(), 1), 1);
    EXPECT_EQ(truncate(file.c_str(), 4096), 0);
    EXPECT_EQ(write(lines[1], "b\n", 2), 2);
    close(lines[1]);
    while (read(answers, first.data(), 1) > 0) continue;
    program.join();
    close(answers);
    close(lines[0]);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "heddle: a mapped file was cut short by another program while it was in use\n");
}

}  // namespace
}  // namespace heddle::cli_test
