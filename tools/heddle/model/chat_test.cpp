#include "model/chat.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/test_support.hpp"

namespace heddle::tool {
namespace {

using testing::HasSubstr;
using Role = ChatMessage::Role;

ChatTemplate made_of(std::string_view source) {
    auto made = ChatTemplate::of(source, "model.gguf", "<s>", "</s>");
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
}

Passages rendered(const ChatTemplate& chat, const std::vector<ChatMessage>& messages) {
    auto made = chat.render(messages);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : Passages();
}

std::string text_of(const Passages& passages) {
    std::string text;
    for (const Passage& passage : passages) text += passage.text;
    return text;
}

/// A template in the manner of a family of models, and a conversation as these read it.
struct Rendered {
    std::string_view name;
    std::string_view text;
    friend void PrintTo(const Rendered& rendered, std::ostream* out) { *out << rendered.name; }
};

class ChatTemplates : public testing::TestWithParam<Rendered> {
protected:
    ChatTemplate chat() const {
        std::ifstream in(std::filesystem::path(HEDDLE_TEST_DATA) / "templates" /
                         (std::string(GetParam().name) + ".jinja"));
        return made_of(std::string(std::istreambuf_iterator<char>(in), {}));
    }
};

TEST_P(ChatTemplates, AreRenderedAsModelsHaveLearnedThem) {
    EXPECT_EQ(text_of(rendered(chat(), {{Role::system, "Be kind."},
                                        {Role::user, "Hello"},
                                        {Role::assistant, "{answer}"},
                                        {Role::user, "More"}})),
              GetParam().text);
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
    const ChatTemplate made = chat();
    for (const Description& what : {byte_pairs({}), sentencepiece({})}) {
        const auto tokenizer = make(with_names(what));
        // Control tokens in the order they come in, and the text of all others.
        const auto read = [&](const std::string& user, const std::string& system) {
            std::vector<Token> control;
            std::string text;
            const Passages said = rendered(made, {{Role::system, system},
                                                  {Role::user, user},
                                                  {Role::assistant, user},
                                                  {Role::user, user}});
            for (const Token token : tokenizer->encode(said, false)) {
                const auto kind = tokenizer->vocabulary().kind_of(token);
                if (kind == Vocabulary::Kind::control) control.push_back(token);
                text += tokenizer->decode(token);
            }
            return std::pair(control, text);
        };
        const auto [marks, words] = read("[user]", "[system]");
        EXPECT_EQ(read(names, names).first, marks);
        EXPECT_THAT(read(names, names).second, HasSubstr(names));
        // Half a name that the template's words would complete is none either.
        EXPECT_EQ(read("<", "<|im_end").first, marks);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Families, ChatTemplates,
    testing::Values(
        Rendered{"chatml",
                 "<|im_start|>system\nBe kind.<|im_end|>\n"
                 "<|im_start|>user\nHello<|im_end|>\n"
                 "<|im_start|>assistant\n{answer}<|im_end|>\n"
                 "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"},
        Rendered{"llama3",
                 "<s><|start_header_id|>system<|end_header_id|>\n\n"
                 "Be kind.<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n{answer}<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nMore<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n"},
        Rendered{"phi3",
                 "<|system|>\nBe kind.<|end|>\n<|user|>\nHello<|end|>\n"
                 "<|assistant|>\n{answer}<|end|>\n<|user|>\nMore<|end|>\n<|assistant|>\n"},
        Rendered{"zephyr",
                 "<|system|>\nBe kind.</s>\n<|user|>\nHello</s>\n"
                 "<|assistant|>\n{answer}</s>\n<|user|>\nMore</s>\n<|assistant|>\n"},
        Rendered{"gemma",
                 "<s><start_of_turn>user\nBe kind.\n\nHello<end_of_turn>\n"
                 "<start_of_turn>model\n{answer}<end_of_turn>\n"
                 "<start_of_turn>user\nMore<end_of_turn>\n<start_of_turn>model\n"},
        Rendered{"llama2",
                 "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHello [/INST]"
                 " {answer} </s><s>[INST] More [/INST]"},
        Rendered{"mistral", "<s>[INST]Hello[/INST] {answer}</s>[INST]Be kind.\n\nMore[/INST]"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ChatTemplate, MayHaveASystemMessageOfItsOwn) {
    const ChatTemplate chat = made_of(
        "{% if messages[0].role != 'system' %}[Be brief.]{% endif %}"
        "{% for m in messages %}{{ m.content }};{% endfor %}");
    EXPECT_EQ(text_of(rendered(chat, {{Role::user, "Hello"}})), "[Be brief.]Hello;");
    EXPECT_EQ(text_of(rendered(chat, {{Role::system, "Be kind."}, {Role::user, "Hello"}})),
              "Be kind.;Hello;");
}

TEST(ChatTemplate, ThatForgetsTheSystemMessageHasTheUserSayIt) {
    const ChatTemplate chat =
        made_of("{% for m in messages if m.role == 'user' %}<{{ m.content }}>{% endfor %}");
    EXPECT_EQ(text_of(rendered(chat, {{Role::system, "Be kind."}, {Role::user, "Hello"}})),
              "<Be kind.\n\nHello>");
}

TEST(ChatTemplate, MayWantAListOfParts) {
    const ChatTemplate chat = made_of(
        "{% for m in messages %}{% for p in m.content if p.type == 'text' %}<{{ p.text }}>"
        "{% endfor %}{% endfor %}");
    EXPECT_EQ(text_of(rendered(chat, {{Role::user, "Hello"}})), "<Hello>");
}

TEST(ChatTemplate, ThatCannotBeUsedIsRefused) {
    const auto refusal = [](std::string_view source) {
        const auto chat = ChatTemplate::of(source, "model.gguf");
        EXPECT_FALSE(chat);
        return chat ? "" : chat.error().message;
    };
    EXPECT_EQ(refusal("### Instruction:"),
              "model.gguf: its chat template cannot be used: it leaves out what the user says");
    EXPECT_EQ(refusal("one\n{{ messages | shuffle }}"),
              "model.gguf: its chat template cannot be used: line 2: there is no filter 'shuffle'");
    EXPECT_EQ(refusal("{% include 'x' %}"),
              "model.gguf: its chat template cannot be used: line 1: there is no tag 'include' "
              "here");
    EXPECT_EQ(refusal("{{ raise_exception('Never.') }}"),
              "model.gguf: its chat template cannot be used: line 1: Never.");
}

}  // namespace
}  // namespace heddle::tool
