#include "text_windows.hpp"

#include <algorithm>

#include "console.hpp"
#include "interrupt.hpp"
#include "number_checks.hpp"
#include "shared_options.hpp"
#include "text_input.hpp"

namespace heddle::tool {

void ReadsText::add_options(CLI::App& command) {
    command.add_option("model", model, "GGUF file of the llama family")
        ->type_name("FILE")
        ->required();
    command.add_option("text", text, "Text file; -: standard input")->type_name("FILE")->required();
    on.add_options(command);
    command.get_option("--context")->default_str("512");
    add_shared(command, shared::kBatch, batch)
        ->capture_default_str()
        ->check(whole_number(std::size_t{1}, std::size_t{1} << 20));
}

Result<std::unique_ptr<Generator>> ReadsText::load() const {
    HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(model));
    HEDDLE_TRY_ASSIGN(Generator::Options wanted, on.generator_options(*file));
    HEDDLE_TRY_ASSIGN(const Shape shape, Shape::read(*file));
    constexpr std::int64_t kUsual = 512;
    if (wanted.context == 0) wanted.context = std::min(kUsual, shape.context);
    wanted.batch = batch;
    wanted.every_token = true;
    return Generator::load(file, wanted);
}

TextWindows::TextWindows(Generator& generator, std::vector<Token> tokens, std::size_t batch)
    : generator_(generator),
      tokens_(std::move(tokens)),
      batch_(batch),
      size_(std::min(tokens_.size(), static_cast<std::size_t>(generator.model().context()))) {}

Result<TextWindows> TextWindows::of(Generator& generator, const ReadsText& options) {
    constexpr std::size_t kLeast = 4;
    HEDDLE_TRY_ASSIGN(const std::string text, text_of(options.text));
    std::vector<Token> tokens = generator.tokenizer().encode(text, true);
    if (tokens.size() < kLeast || generator.model().context() < static_cast<std::int64_t>(kLeast)) {
        return invalid(options.text, ": at least ", kLeast, " tokens are needed; the text has ",
                       tokens.size(), ", the context room for ", generator.model().context());
    }
    return TextWindows(generator, std::move(tokens), options.batch);
}

Result<> TextWindows::read(std::size_t number, const Look& look) {
    const auto begin = tokens_.begin() + static_cast<std::ptrdiff_t>(number * size_);
    std::vector<Token> window(begin, begin + static_cast<std::ptrdiff_t>(size_));
    const Vocabulary& vocabulary = generator_.tokenizer().vocabulary();
    if (vocabulary.add_bos && vocabulary.bos >= 0) window.front() = vocabulary.bos;
    generator_.forget();
    for (std::size_t first = 0; first < size_; first += batch_) {
        const auto batch = std::span(window).subspan(first, std::min(batch_, size_ - first));
        HEDDLE_TRY_ASSIGN(const std::span<const float> logits, generator_.read(batch));
        HEDDLE_TRY(look(first, logits, window));
    }
    return ok();
}

Result<std::size_t> TextWindows::read_all(const Look& look,
                                          const std::function<std::string()>& note) {
    watch_interrupts();
    Progress progress("reading", count());
    std::size_t done = 0;
    for (; done < count() && !is_interrupted(); ++done) {
        HEDDLE_TRY(read(done, look));
        progress.step(note());
    }
    return done;
}

}  // namespace heddle::tool
