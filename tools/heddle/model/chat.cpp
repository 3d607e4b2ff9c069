#include "model/chat.hpp"

namespace heddle::tool {

const ChatTemplate::Form ChatTemplate::kForms[] = {
    {"chatml", "<|im_start|>", "<|im_start|>", "\n", "<|im_end|>\n"},
    {"llama3", "<|start_header_id|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"},
    {"zephyr", "<|user|>", "<|", "|>\n", "</s>\n"},
    {"gemma", "<start_of_turn>", "<start_of_turn>", "\n", "<end_of_turn>\n", "user", "model"},
    {"mistral", "[INST]", "", "",
     ""},  // marks stand around what the user says; roles have no names
};

Result<ChatTemplate> ChatTemplate::of(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string source, file.text("tokenizer.chat_template"));
    std::string known;
    for (const Form& form : kForms) {
        if (source.find(form.mark) != std::string::npos) return ChatTemplate(form);
        known.append(known.empty() ? "" : ", ").append(form.name);
    }
    return failure(Errc::unsupported, file.path(), ": its chat template is none of ", known);
}

std::string ChatTemplate::wrap(const Message& message) const {
    if (form_->before.empty()) {
        if (message.role == "assistant") return ' ' + message.text + "</s>";
        return "[INST] " + message.text + " [/INST]";
    }
    const std::string_view role = message.role == "system"      ? form_->system
                                  : message.role == "assistant" ? form_->assistant
                                                                : "user";
    return text(form_->before, role, form_->between, message.text, form_->after);
}

std::string ChatTemplate::answer() const {
    if (form_->before.empty()) return {};
    return text(form_->before, form_->assistant, form_->between);
}

}  // namespace heddle::tool
