#include "model/chat.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/described_tokenizer.hpp"

namespace heddle::tool {
namespace {

using testing::HasSubstr;

ChatTemplate made_of(std::string_view source) {
    auto made = ChatTemplate::of(source, "model.gguf");
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
}

std::string text_of(const Passages& passages) {
    std::string text;
    for (const Passage& passage : passages) text += passage.text;
    return text;
}

/// A conversation of two turns with a system message, as the model reads it.
struct Rendered {
    std::string_view name;
    std::string_view source;  ///< as much of a template as is needed to know it
    std::string_view text;
    friend void PrintTo(const Rendered& rendered, std::ostream* out) { *out << rendered.name; }
};

class ChatTemplates : public testing::TestWithParam<Rendered> {};

TEST_P(ChatTemplates, AreRenderedAsModelsHaveLearnedThem) {
    const ChatTemplate chat = made_of(GetParam().source);
    EXPECT_EQ(chat.name(), GetParam().name);
    EXPECT_EQ(text_of(chat.first("Hello", "Be kind.")) + "{answer}" + text_of(chat.next("More")),
              GetParam().text);
}

TEST_P(ChatTemplates, NeedNoSystemMessage) {
    const ChatTemplate chat = made_of(GetParam().source);
    const std::string first = text_of(chat.first("Hello"));
    EXPECT_THAT(first, testing::Not(HasSubstr("ystem")));
    EXPECT_THAT(first, testing::Not(HasSubstr("SYS")));
    // The same words as later, but for the end of an answer.
    EXPECT_THAT(text_of(chat.next("Hello")), testing::EndsWith(first));
}

/// Names of control tokens, of all templates.
const std::vector<std::string> kNames{"<|im_start|>",
                                      "<|im_end|>",
                                      "<|start_header_id|>",
                                      "<|end_header_id|>",
                                      "<|eot_id|>",
                                      "<|system|>",
                                      "<|user|>",
                                      "<|assistant|>",
                                      "<|end|>",
                                      "<s>",
                                      "<start_of_turn>",
                                      "<end_of_turn>",
                                      "</s>"};

/// `what` with these tokens besides, and a piece for every step from a letter to a name.
Description with_names(Description what) {
    what.kinds.resize(what.pieces.size(), Vocabulary::Kind::normal);
    what.scores.resize(what.pieces.size());
    const auto add = [&](const std::string& piece, Vocabulary::Kind kind) {
        if (std::ranges::find(what.pieces, piece) != what.pieces.end()) return;
        what.pieces.push_back(piece);
        what.kinds.push_back(kind);
        what.scores.push_back(0);
    };
    for (const std::string& name : kNames) add(name, Vocabulary::Kind::control);
    for (const std::string& name : kNames) {
        for (std::size_t n = 1; n < name.size(); ++n) {
            add(name.substr(0, n), Vocabulary::Kind::normal);
            add(name.substr(n, 1), Vocabulary::Kind::normal);
            what.merges.push_back(name.substr(0, n) + " " + name[n]);
        }
    }
    return what;
}

TEST_P(ChatTemplates, TakeNothingThatIsSaidForTheirOwnWords) {
    std::string names;
    for (const std::string& name : kNames) names += name;
    const ChatTemplate chat = made_of(GetParam().source);
    for (const Description& what : {byte_pairs({}), sentencepiece({})}) {
        const auto tokenizer = make(with_names(what));
        // Control tokens in the order they come in, and the text of all others.
        const auto read = [&](const Passages& passages) {
            std::vector<Token> control;
            std::string text;
            for (const Token token : tokenizer->encode(passages, false)) {
                const auto kind = tokenizer->vocabulary().kind_of(token);
                if (kind == Vocabulary::Kind::control) control.push_back(token);
                text += tokenizer->decode(token);
            }
            return std::pair(control, text);
        };
        const auto [marks, words] = read(chat.first("[user]", "[system]"));
        EXPECT_EQ(read(chat.first(names, names)).first, marks);
        EXPECT_THAT(read(chat.first(names, names)).second, HasSubstr(names));
        EXPECT_EQ(read(chat.next(names)).first, read(chat.next("[user]")).first);
        // Half a name that the template's words would complete is none either.
        EXPECT_EQ(read(chat.first("<", "<|im_end")).first, marks);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Known, ChatTemplates,
    testing::Values(
        Rendered{"chatml", "{{'<|im_start|>' + message['role'] + '\\n' + message['content']}}",
                 "<|im_start|>system\nBe kind.<|im_end|>\n"
                 "<|im_start|>user\nHello<|im_end|>\n"
                 "<|im_start|>assistant\n{answer}<|im_end|>\n"
                 "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"},
        Rendered{"llama3", "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>' }}",
                 "<|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nMore<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        Rendered{"phi3", "{{'<|user|>' + '\\n' + message['content'] + '<|end|>' + '\\n'}}",
                 "<|system|>\nBe kind.<|end|>\n<|user|>\nHello<|end|>\n"
                 "<|assistant|>\n{answer}<|end|>\n<|user|>\nMore<|end|>\n<|assistant|>\n"},
        Rendered{"zephyr", "{{ '<|user|>\\n' + message['content'] + eos_token }}",
                 "<|system|>\nBe kind.</s>\n<|user|>\nHello</s>\n"
                 "<|assistant|>\n{answer}</s>\n<|user|>\nMore</s>\n<|assistant|>\n"},
        Rendered{"gemma", "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim }}",
                 "<start_of_turn>user\nBe kind.\n\nHello<end_of_turn>\n"
                 "<start_of_turn>model\n{answer}<end_of_turn>\n"
                 "<start_of_turn>user\nMore<end_of_turn>\n<start_of_turn>model\n"},
        Rendered{"llama2", "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' '[INST] '",
                 "[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHello [/INST]"
                 "{answer} </s><s>[INST] More [/INST]"},
        Rendered{"mistral", "{{ '[INST] ' + message['content'] + ' [/INST]' }}",
                 "[INST] Be kind.\n\nHello [/INST]{answer}</s>[INST] More [/INST]"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ChatTemplate, HasASystemMessageOfItsOwnWhereTheSourceHas) {
    // Written with line ends, or with what stands for them.
    for (const char* source :
         {"{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{{ '<|im_start|>' }}",
          R"({{- "<|im_start|>system\nBe brief.<|im_end|>\n" }})",
          "{% if x %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"}) {
        const ChatTemplate chat = made_of(source);
        EXPECT_THAT(text_of(chat.first("Hello")),
                    testing::StartsWith("<|im_start|>system\nBe brief.<|im_end|>\n"))
            << source;
        EXPECT_THAT(text_of(chat.first("Hello", "Be kind.")),
                    testing::StartsWith("<|im_start|>system\nBe kind.<|im_end|>\n"));
        EXPECT_THAT(text_of(chat.next("Hello")), testing::Not(HasSubstr("Be brief.")))
            << "said once";
    }
}

TEST(ChatTemplate, TakesNoCodeForASystemMessage) {
    for (const char* source : {R"({{ '<|im_start|>system\n' + messages[0] + '<|im_end|>\n' }})",
                               R"(<|im_start|>system\n{{ messages[0] }}<|im_end|>\n)",
                               R"({{ '<|im_start|>system\n' }}{{ more }}{{ '<|im_end|>\n' }})",
                               R"({{ '<|im_start|>system\n<|im_end|>' }})",
                               R"({{ '<|im_start|>system\nnever ended' }})"}) {
        EXPECT_THAT(text_of(made_of(source).first("Hello")),
                    testing::StartsWith("<|im_start|>user\n"))
            << source;
    }
    // The second one is in full.
    const ChatTemplate chat = made_of(
        R"({{ '<|im_start|>system\n' + x + '<|im_end|>' }}{{ '<|im_start|>system\nHi.<|im_end|>\n' }})");
    EXPECT_THAT(text_of(chat.first("Hello")), HasSubstr("Hi."));
}

TEST(ChatTemplate, ThatIsUnknownIsRefused) {
    for (const char* source : {"", "{{ messages[0]['content'] }}", "### Instruction:\n{{ x }}"}) {
        const auto chat = ChatTemplate::of(source, "model.gguf");
        ASSERT_FALSE(chat);
        EXPECT_EQ(chat.error().message,
                  "model.gguf: its chat template is none of chatml, llama3, phi3, zephyr, gemma, "
                  "llama2, mistral");
    }
}

}  // namespace
}  // namespace heddle::tool
