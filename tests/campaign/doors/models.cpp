// Damaged models through the loader of the program, in process: a sentence, or a model that can be
// run.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/generator.hpp"
#include "tests/campaign/doors/gguf_draft.hpp"
#include "tests/campaign/doors/misuse.hpp"
#include "tests/campaign/doors/small_model.hpp"
#include "tests/campaign/settings.hpp"

namespace heddle::campaign {
namespace {

/// Loads a model and lets it read a few tokens; gives what it says.
std::string read_with(const std::string& path, Choices& choices, Trace& trace) {
    tool::Generator::Options options;
    options.threads = 1;
    options.mapped = choices.below(2) == 1;
    options.batch = choices.pick<std::size_t>({512, 1, 2});
    const auto file = tool::open_model(path);
    if (!file) {
        trace.line("refused: ", file.error().message);
        return file.error().message.empty() ? "a model is refused without a sentence" : "";
    }
    const auto generator = tool::Generator::load(*file, options);
    if (!generator) {
        trace.line("refused: ", generator.error().message);
        return generator.error().message.empty() ? "a model is refused without a sentence" : "";
    }
    const auto tokens = (*generator)->tokenizer().encode("a b", true);
    if (tokens.empty()) return {};
    const auto logits = (*generator)->read(tokens);
    if (!logits) {
        trace.line("not read: ", logits.error().message);
        return logits.error().message.empty() ? "tokens are refused without a sentence" : "";
    }
    const auto words = static_cast<std::size_t>((*generator)->model().shape().words);
    return logits->size() == words ? "" : "as many logits as there are no words";
}

}  // namespace

std::string run_models(Choices& choices, Trace& trace) {
    prepare_for_misuse();
    const std::string path = settings().scratch + "/damaged.gguf";
    GgufDraft file = small_model();
    if (choices.below(16) != 0) damage(file, choices, trace);
    {
        std::ofstream out(path, std::ios::binary);
        out.write(reinterpret_cast<const char*>(file.bytes.data()),
                  static_cast<std::streamsize>(file.bytes.size()));
    }
    std::string wrong = read_with(path, choices, trace);
    std::filesystem::remove(path);
    return wrong;
}

}  // namespace heddle::campaign
