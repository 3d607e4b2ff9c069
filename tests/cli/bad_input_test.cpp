#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "program.hpp"
#include "refusals.hpp"
#include "small_model.hpp"

/// Bad input gets one line that says what is wrong, and leaves nothing behind.
namespace heddle::cli_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Files to be refused, and a good one beside them.
class BadInput : public RefusalTest {
protected:
    void SetUp() override {
        SmallModel().write(path("good.gguf"));
        const std::string good = content_of(path("good.gguf"));
        write_content(path("cut.gguf"), good.substr(0, good.size() - 1000));
        write_content(path("head.gguf"), good.substr(0, 100));
        write_content(path("empty.gguf"), "");
        write_content(path("foreign.gguf"), std::string(5000, 'x'));
        SmallModel{.architecture = "loom"}.write(path("unknown.gguf"));
        SmallModel{.architecture = "llamaZx"}.write(path("nul.gguf"));
        std::string with_nul = content_of(path("nul.gguf"));
        with_nul[with_nul.find("llamaZx") + 5] = '\0';
        write_content(path("nul.gguf"), with_nul);
        SmallModel{.up_hidden = 96}.write(path("shape.gguf"));
        SmallModel{.left_out = "blk.1.ffn_down.weight"}.write(path("missing-tensor.gguf"));
        SmallModel{.tokenizer = "signs"}.write(path("tokenizer.gguf"));
        SmallModel{.chat_template = "### Instruction: {{ x }}"}.write(path("template.gguf"));
        remember_files();
    }
};

/// Every command that reads a model, as it is called with the file `name`.
std::vector<std::vector<std::string>> calls_with(const std::string& name) {
    return {{"inspect", name},
            {"quantize", name, "@new.gguf", "Q8_0"},
            {"run", name, "-p", "a", "-n", "2"},
            {"explain", name},
            {"verify", name, "--on", "CPU"}};
}

/// Those that know what the tensors mean.
std::vector<std::vector<std::string>> model_calls_with(const std::string& name) {
    auto calls = calls_with(name);
    return {calls.begin() + 2, calls.end()};
}

TEST_F(BadInput, MissingFile) {
    for (const auto& call : calls_with("@nowhere.gguf")) {
        refuses(call, "nowhere.gguf: cannot be opened");
    }
}

TEST_F(BadInput, FileThatEndsInTheMiddleOfATensor) {
    for (const auto& call : calls_with("@cut.gguf")) refuses(call, "cut.gguf");
}

TEST_F(BadInput, FileThatEndsInTheMiddleOfItsHead) {
    for (const auto& call : calls_with("@head.gguf")) refuses(call, "head.gguf");
}

TEST_F(BadInput, EmptyFile) {
    for (const auto& call : calls_with("@empty.gguf")) refuses(call, "empty.gguf");
}

TEST_F(BadInput, ForeignFile) {
    for (const auto& call : calls_with("@foreign.gguf")) refuses(call, "foreign.gguf");
}

TEST_F(BadInput, Directory) {
    for (const auto& call : calls_with("@")) refuses(call, "is not a file");
}

TEST_F(BadInput, UnknownArchitecture) {
    for (const auto& call : model_calls_with("@unknown.gguf")) {
        refuses(call, "a model of the architecture 'loom'");
    }
}

TEST_F(BadInput, ArchitectureWhoseNameGoesOnBehindANul) {
    for (const auto& call : model_calls_with("@nul.gguf")) {
        refuses(call, "a model of the architecture 'llama?x'");
    }
}

TEST_F(BadInput, RopeFactorsOfTheWrongShapeOrType) {
    const auto expect_refused = [&](const SmallModel& model, const std::string& sentence) {
        model.write(path("rope.gguf"));
        remember_files();
        for (auto call : model_calls_with("@rope.gguf")) {
            refuses(call, sentence);
            if (call[0] != "run") continue;
            call.insert(call.end(), {"--device", "sim"});
            refuses(call, sentence);
        }
    };
    const std::string name = "'rope_freqs.weight' has ";
    expect_refused({.rope_extents = {4, 0}}, name + "0 elements in dimension 1");
    expect_refused({.rope_extents = {4, 1, 1, 0}}, name + "0 elements in dimension 3");
    expect_refused({.rope_extents = {4, 2}}, name + "2 elements in dimension 1");
    expect_refused({.rope_extents = {3}}, name + "3 elements in dimension 0, the model needs 4");
    expect_refused({.rope_extents = {0}}, name + "0 elements in dimension 0, the model needs 4");
    expect_refused({.rope_extents = {4}, .rope_type = GGML_TYPE_F16},
                   "'rope_freqs.weight' is of type f16, not f32");
    SmallModel{.rope_extents = {4}}.write(path("rope.gguf"));
    const Outcome good = run({"run", "@rope.gguf", "-p", "a", "-n", "2"});
    EXPECT_EQ(good.status, 0) << good.err;
}

TEST_F(BadInput, TensorOfTheWrongShape) {
    for (const auto& call : model_calls_with("@shape.gguf")) {
        refuses(call, "'blk.1.ffn_up.weight' has 96 elements in dimension 1, the model needs 64");
    }
}

TEST_F(BadInput, MissingTensor) {
    for (const auto& call : model_calls_with("@missing-tensor.gguf")) {
        refuses(call, "has no tensor 'blk.1.ffn_down.weight'");
    }
}

TEST_F(BadInput, UnknownTokenizer) {
    refuses({"run", "@tokenizer.gguf", "-p", "a"}, "a tokenizer of the kind 'signs'");
    refuses({"verify", "@tokenizer.gguf", "--on", "CPU"}, "a tokenizer of the kind 'signs'");
}

TEST_F(BadInput, UnknownDevice) {
    refuses({"run", "@good.gguf", "-p", "a", "-d", "LOOM7"}, "no device is called 'LOOM7'");
    refuses({"explain", "@good.gguf", "-d", "LOOM7"}, "no device is called 'LOOM7'");
    refuses({"verify", "@good.gguf", "--on", "LOOM7"}, "no device is called 'LOOM7'");
    refuses({"verify", "@good.gguf", "--on", "CPU", "--against", "LOOM7"},
            "no device is called 'LOOM7'");
    refuses({"verify", "@good.gguf", "--on", "CPU", "-p", "a", "-p", "b"},
            "2 prompts, but the nodes of one graph are compared; --tokens compares texts");
    refuses({"verify", "--device", "LOOM7"}, "no device is called 'LOOM7'; available: ");
    refuses({"verify", "--op", "ADD,WEAVE"}, "there are no cases of 'WEAVE'");
}

TEST_F(BadInput, BadBudget) {
    const std::vector<std::string> calls[] = {{"run", "@good.gguf", "-p", "a", "-n", "1"},
                                              {"explain", "@good.gguf"}};
    for (const auto& call : calls) {
        const auto with = [&](const std::string& budget) {
            auto words = call;
            words.insert(words.end(), {"-d", "sim:devices=1", "--budget", budget});
            return words;
        };
        refuses(with("SIM0=4K"), "the budget of SIM0 is 4.0 KiB");
        refuses(with("SIM0=much"), "'much' is not a number of bytes");
        refuses(with("SIM0"), "give a device and a size, such as CUDA0=2G");
        refuses(with("LOOM7=1G"), "no device is called 'LOOM7'");
        refuses(with("CPU=1G"), "no layers are placed on CPU");
    }
}

TEST_F(BadInput, UnwritableOutput) {
    refuses({"quantize", "@good.gguf", "@no/such/place.gguf", "Q8_0"}, "place.gguf");
    refuses({"explain", "@good.gguf", "--html", "@no/such/page.html"}, "cannot be written");
    refuses({"explain", "@good.gguf", "--dot", "@no/such/graph.dot"}, "cannot be written");
    refuses({"explain", "@good.gguf", "--run", "--trace", "@no/such/trace.json"},
            "cannot be written");
    const Outcome run_page =
        run({"run", "@good.gguf", "-p", "a", "-n", "1", "-q", "--html", "@no/such/page.html"});
    EXPECT_EQ(run_page.status, 1);
    EXPECT_THAT(run_page.err, HasSubstr("cannot be written"));
}

TEST_F(BadInput, Quantize) {
    refuses({"quantize", "@good.gguf", "@new.gguf", "Q99"}, "Q99");
    refuses({"quantize", "@good.gguf", "@good.gguf", "Q8_0"}, "is the input itself");
    refuses({"quantize", "@good.gguf", "@new.gguf", "Q8_0", "--imatrix", "@nowhere.gguf"},
            "nowhere.gguf: cannot be opened");
}

TEST_F(BadInput, Prompts) {
    // 200 letters, what begins the text, and the three bytes of a space.
    refuses({"run", "@good.gguf", "-p", std::string(200, 'a'), "-n", "8"},
            "the prompt is 204 tokens long, the context has room for 64: shorten it, or give "
            "--context 212");
    refuses({"run", "@good.gguf", "-i", "-p", std::string(200, 'a')}, "the prompt is 204 tokens");
    refuses({"run", "@good.gguf", "--chat", "-p", "a"}, "chat");
    refuses({"run", "@template.gguf", "--chat", "-p", "a"},
            "its chat template cannot be used: it leaves out what the user says");
    const Outcome as_text = run({"run", "@template.gguf", "-p", "a", "-n", "1", "-q"});
    EXPECT_EQ(as_text.status, 0);
    EXPECT_THAT(as_text.err, HasSubstr("; the text is continued as it stands]"));
    refuses({"run", "@good.gguf", "-f", "@nowhere.txt"}, "nowhere.txt: cannot be opened");
    refuses({"explain", "@good.gguf", "--read", "65"}, "65 tokens at a time, but room for 64");
}

TEST_F(BadInput, WrongCommandLines) {
    is_misuse({"weave"});
    is_misuse({"devices", "--loom"});
    is_misuse({"devices", "more"});
    is_misuse({"devices", "--json=perhaps"});
    is_misuse({"inspect"});
    is_misuse({"inspect", "@good.gguf", "more"});
    is_misuse({"quantize", "@good.gguf", "@new.gguf"});
    is_misuse({"quantize", "@good.gguf", "@new.gguf", "Q8_0", "-t", "0"});
    is_misuse({"run"});
    is_misuse({"run", "@good.gguf", "--policy", "chance"});
    is_misuse({"run", "@good.gguf", "--top-p", "2"});
    is_misuse({"explain"});
    is_misuse({"explain", "@good.gguf", "--tokens", "0"});
    is_misuse({"explain", "@good.gguf", "--trace", "@trace.json"});
    is_misuse({"verify", "--on", "CPU"});
    is_misuse({"verify", "@good.gguf", "--on", "CPU", "--batch", "8"});
    is_misuse({"verify", "--cases", "0"});
    is_misuse({"verify", "--golden", "@nowhere"});
    is_misuse({"completion"});
    is_misuse({"completion", "tcsh"});
    is_misuse({"completion", "bash", "zsh"});
    is_misuse({"manual", "more"});
    is_misuse({"manual", "--loom"});
    is_misuse({"manual", "--json"});
}

}  // namespace
}  // namespace heddle::cli_test
