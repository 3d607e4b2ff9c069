#include "model/chat.hpp"

namespace heddle::tool {

/// The words around what is said.
struct ChatTemplate::Form {
    std::string_view name;
    std::string_view mark;  ///< what a template of this form contains
    std::string_view before_system, after_system;
    std::string_view before_user, after_user;  ///< the answer follows
    std::string_view after_answer;             ///< the next user's words follow
    bool system_is_inside = false;             ///< the first user's words, at their beginning
};

// The first whose mark is found is taken: marks of some occur in templates of others.
const ChatTemplate::Form ChatTemplate::kForms[] = {
    {"chatml", "<|im_start|>", "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n",
     "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n"},
    {"llama3", "<|start_header_id|>", "<|start_header_id|>system<|end_header_id|>\n\n",
     "<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
    {"phi3", "<|end|>", "<|system|>\n", "<|end|>\n", "<|user|>\n", "<|end|>\n<|assistant|>\n",
     "<|end|>\n"},
    {"zephyr", "<|user|>", "<|system|>\n", "</s>\n", "<|user|>\n", "</s>\n<|assistant|>\n",
     "</s>\n"},
    {"gemma", "<start_of_turn>", "", "\n\n", "<start_of_turn>user\n",
     "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>\n", true},
    {"llama2", "<<SYS>>", "<<SYS>>\n", "\n<</SYS>>\n\n", "[INST] ", " [/INST]", " </s><s>", true},
    {"mistral", "[INST]", "", "\n\n", "[INST] ", " [/INST]", "</s>", true},
};

namespace {

/// Line ends stand in a template as they are, or as two characters.
std::string with_line_ends(std::string_view source) {
    std::string made;
    for (std::size_t i = 0; i < source.size(); ++i) {
        const bool escaped = source.substr(i, 2) == "\\n";
        made += escaped ? '\n' : source[i];
        if (escaped) ++i;
    }
    return made;
}

/// A system message that `source` has in full. Elsewhere between the same words there is code: the
/// end of the quotes, or a brace.
std::string own_system(std::string_view source, std::string_view before, std::string_view after) {
    const std::string text = with_line_ends(source);
    for (std::size_t at = text.find(before); at != text.npos && !before.empty();
         at = text.find(before, at + 1)) {
        const std::size_t begin = at + before.size(), end = text.find(after, begin);
        if (end == text.npos) break;
        const std::string message = text.substr(begin, end - begin);
        const char quote =
            at > 0 && (text[at - 1] == '\'' || text[at - 1] == '"') ? text[at - 1] : '{';
        const bool is_code =
            message.find(quote) != message.npos || message.find('{') != message.npos;
        if (!message.empty() && !is_code) return message;
    }
    return {};
}

/// Words of the template itself.
Passage own(std::string_view words) { return {std::string(words), true}; }

}  // namespace

Result<ChatTemplate> ChatTemplate::of(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string source, file.text("tokenizer.chat_template"));
    return of(source, file.path());
}

Result<ChatTemplate> ChatTemplate::of(std::string_view source, std::string_view whose) {
    std::string known;
    for (const Form& form : kForms) {
        if (source.find(form.mark) != source.npos) {
            return ChatTemplate(form, own_system(source, form.before_system, form.after_system));
        }
        known.append(known.empty() ? "" : ", ").append(form.name);
    }
    return failure(Errc::unsupported, whose, ": its chat template is none of ", known);
}

std::string_view ChatTemplate::name() const { return form_->name; }

Passages ChatTemplate::first(std::string_view user, std::string_view system) const {
    const Passage message =
        system.empty() ? Passage{own_system_, true} : Passage{std::string(system), false};
    Passages opening;
    if (!message.text.empty()) {
        opening = {own(form_->before_system), message, own(form_->after_system)};
    }
    Passages said{own(form_->before_user)};
    said.insert(form_->system_is_inside ? said.end() : said.begin(), opening.begin(),
                opening.end());
    said.push_back({std::string(user)});
    said.push_back(own(form_->after_user));
    return said;
}

Passages ChatTemplate::next(std::string_view user) const {
    return {own(form_->after_answer),
            own(form_->before_user),
            {std::string(user)},
            own(form_->after_user)};
}

}  // namespace heddle::tool
