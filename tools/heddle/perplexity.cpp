#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "commands.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "model/generator.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "run_options.hpp"
#include "shared_options.hpp"
#include "text_input.hpp"

/// `heddle perplexity`: how well a model predicts a text.
namespace heddle::tool {
namespace {

struct PerplexityOptions {
    std::string model, text;
    RunsOn on;
    std::size_t batch = 512;
    bool json = false;
};

/// Logarithms of probabilities that the model gave to tokens of the text.
class Losses {
public:
    void add(std::span<const float> logits, Token token) {
        const double most = *std::ranges::max_element(logits);
        double sum = 0;
        for (const float logit : logits) sum += std::exp(logit - most);
        const double loss = std::log(sum) + most - logits[static_cast<std::size_t>(token)];
        ++count_, sum_ += loss, squares_ += loss * loss;
    }
    std::size_t count() const { return count_; }
    double perplexity() const { return std::exp(mean()); }
    /// Of the perplexity.
    double standard_error() const {
        if (count_ < 2) return 0;
        const double n = static_cast<double>(count_);
        const double variance = std::max(0.0, squares_ / n - mean() * mean());
        return perplexity() * std::sqrt(variance / (n - 1));
    }

private:
    double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

    std::size_t count_ = 0;
    double sum_ = 0, squares_ = 0;
};

/// Windows of the text that are read one by one, each without knowledge of those before. Its first
/// half is for the model to find its way; the second counts.
class Windows {
public:
    Windows(Generator& generator, std::vector<Token> tokens, std::size_t batch)
        : generator_(generator), tokens_(std::move(tokens)), batch_(batch) {
        size_ = std::min(tokens_.size(), static_cast<std::size_t>(generator.model().context()));
    }
    std::size_t size() const { return size_; }
    std::size_t count() const { return tokens_.size() / size_; }

    Result<> score(std::size_t number, Losses& losses) {
        std::vector<Token> window(
            tokens_.begin() + static_cast<std::ptrdiff_t>(number * size_),
            tokens_.begin() + static_cast<std::ptrdiff_t>((number + 1) * size_));
        const Vocabulary& vocabulary = generator_.tokenizer().vocabulary();
        if (vocabulary.add_bos && vocabulary.bos >= 0) window.front() = vocabulary.bos;
        generator_.forget();
        const auto words = static_cast<std::size_t>(generator_.model().shape().words);
        for (std::size_t begin = 0; begin + 1 < size_; begin += batch_) {
            const std::size_t count = std::min(batch_, size_ - begin);
            HEDDLE_TRY_ASSIGN(const std::span<const float> logits,
                              generator_.read(std::span(window).subspan(begin, count)));
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t next = begin + i + 1;
                if (next < std::max<std::size_t>(size_ / 2, 1) || next >= size_) continue;
                const auto row = logits.subspan(i * words, words);
                if (std::ranges::any_of(row, [](float x) { return std::isnan(x); })) {
                    return failure(Errc::corrupt, "the model's result for token ", next,
                                   " is not a number: its weights or parameters are broken");
                }
                losses.add(row, window[next]);
            }
        }
        return ok();
    }

private:
    Generator& generator_;
    std::vector<Token> tokens_;
    std::size_t batch_, size_ = 0;
};

void print_perplexity(const PerplexityOptions& options, const Windows& windows, std::size_t done,
                      const Losses& losses, double seconds) {
    if (options.json) {
        print("{}\n", json_text({{"model", options.model},
                                 {"text", options.text},
                                 {"perplexity", losses.perplexity()},
                                 {"standard_error", losses.standard_error()},
                                 {"tokens", losses.count()},
                                 {"windows", done},
                                 {"window_tokens", windows.size()},
                                 {"seconds", seconds}}));
        return;
    }
    print("perplexity {:.4f} ± {:.4f}: {} tokens of {} {} of {}, {:.1f} tokens/s\n",
          losses.perplexity(), losses.standard_error(), losses.count(), done,
          done == 1 ? "window" : "windows", windows.size(),
          static_cast<double>(done * windows.size()) / seconds);
}

Result<> measure_perplexity(PerplexityOptions& options) {
    using Clock = std::chrono::steady_clock;
    expect_files_cut_short();
    HEDDLE_TRY_ASSIGN(const std::string text, text_of(options.text));
    HEDDLE_TRY_ASSIGN(const SharedModelFile file, open_model(options.model));
    HEDDLE_TRY_ASSIGN(const DeviceChoice devices, options.on.choose(*file));
    HEDDLE_TRY_ASSIGN(const Shape shape, Shape::read(*file));
    constexpr std::int64_t kUsual = 512;  // as other programs have it, so that figures compare
    const std::int64_t context =
        options.on.context > 0 ? options.on.context : std::min(kUsual, shape.context);
    HEDDLE_TRY_ASSIGN(const auto generator,
                      Generator::load(file, {.rooms = devices.rooms,
                                             .helpers = devices.helpers,
                                             .threads = options.on.threads,
                                             .context = context,
                                             .batch = options.batch,
                                             .policy = options.on.scheduler_policy(),
                                             .on_tensor = {},
                                             .mapped = options.on.mapped,
                                             .no_fusion = options.on.no_fusion,
                                             .every_token = true}));
    const std::vector<Token> tokens = generator->tokenizer().encode(text, true);
    if (tokens.size() < 4) {
        return invalid(options.text, ": has ", tokens.size(), " tokens; at least 4 are needed");
    }
    Windows windows(*generator, tokens, options.batch);
    Losses losses;
    watch_interrupts();
    const auto begin = Clock::now();
    std::size_t done = 0;
    {
        Progress progress("reading", windows.count());
        for (; done < windows.count() && !is_interrupted(); ++done) {
            HEDDLE_TRY(windows.score(done, losses));
            progress.step(fmt::format("perplexity {:.2f}", losses.perplexity()));
        }
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (done > 0) print_perplexity(options, windows, done, losses, seconds);
    if (take_interrupt()) {
        print_note(
            fmt::format("[stopped by Ctrl-C after {} of {} windows]", done, windows.count()));
        end_by_interrupt();
    }
    return ok();
}

}  // namespace

void add_perplexity(CLI::App& app, int& status) {
    auto options = std::make_shared<PerplexityOptions>();
    CLI::App* command = app.add_subcommand(
        "perplexity", "Measure how well a model predicts a text: less is better");
    command->add_option("model", options->model, "GGUF file of the llama family")
        ->type_name("FILE")
        ->required();
    command->add_option("text", options->text, "Text file; -: standard input")
        ->type_name("FILE")
        ->required();
    options->on.add_options(*command);
    command->get_option("--context")->default_str("512");
    add_shared(*command, shared::kBatch, options->batch)
        ->capture_default_str()
        ->check(whole_number(std::size_t{1}, std::size_t{1} << 20));
    command->option_defaults()->group("Output");
    add_shared_flag(*command, shared::kJson, options->json);
    command->footer(
        "The text is read in windows of --context tokens, each without knowledge of those before.\n"
        "The first half of a window is for the model to find its way, the second half counts.");
    command->callback([options, &status] {
        status = report_outcome("perplexity", measure_perplexity(*options));
    });
}

}  // namespace heddle::tool
