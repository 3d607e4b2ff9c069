#include "model/chat.hpp"

namespace heddle::tool {

Result<ChatTemplate> ChatTemplate::of(const ModelFile& file) {
    HEDDLE_TRY_ASSIGN(const std::string source, file.text("tokenizer.chat_template"));
    const auto has = [&](std::string_view mark) { return source.find(mark) != std::string::npos; };
    ChatTemplate chat;
    chat.user_ = "user", chat.system_ = "system", chat.assistant_ = "assistant";
    if (has("<|im_start|>")) {
        chat.name_ = "chatml";
        chat.before_ = "<|im_start|>", chat.between_ = "\n", chat.after_ = "<|im_end|>\n";
        chat.answer_ = "<|im_start|>assistant\n";
    } else if (has("<|start_header_id|>")) {
        chat.name_ = "llama3";
        chat.before_ = "<|start_header_id|>", chat.between_ = "<|end_header_id|>\n\n";
        chat.after_ = "<|eot_id|>";
        chat.answer_ = "<|start_header_id|>assistant<|end_header_id|>\n\n";
    } else if (has("<|user|>")) {
        chat.name_ = "zephyr";
        chat.before_ = "<|", chat.between_ = "|>\n", chat.after_ = "</s>\n";
        chat.answer_ = "<|assistant|>\n";
    } else if (has("<start_of_turn>")) {
        chat.name_ = "gemma";
        chat.assistant_ = "model", chat.system_ = "user";
        chat.before_ = "<start_of_turn>", chat.between_ = "\n", chat.after_ = "<end_of_turn>\n";
        chat.answer_ = "<start_of_turn>model\n";
    } else if (has("[INST]")) {
        chat.name_ = "mistral";
    } else {
        return failure(Errc::unsupported, file.path(),
                       ": its chat template is none of chatml, llama3, zephyr, gemma, mistral");
    }
    return chat;
}

std::string ChatTemplate::wrap(const Message& message, bool first) const {
    const std::string begin = first ? begin_ : "";
    if (before_.empty()) {  // marks stand around what the user says; roles have no names
        if (message.role == "assistant") return begin + ' ' + message.text + "</s>";
        return begin + "[INST] " + message.text + " [/INST]";
    }
    const std::string& role = message.role == "user"     ? user_
                              : message.role == "system" ? system_
                                                         : assistant_;
    return begin + before_ + role + between_ + message.text + after_;
}

}  // namespace heddle::tool
