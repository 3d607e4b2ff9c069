#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "commands.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "json_text.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "text_windows.hpp"

/// `heddle perplexity`: how well a model predicts a text.
namespace heddle::tool {
namespace {

struct PerplexityOptions {
    ReadsText reads;
    bool json = false;
};

/// Of tokens of a text, by the probabilities that the model gave them.
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

/// The first half of a window is for the model to find its way; tokens of the second count.
Result<> add_losses(std::size_t first, std::span<const float> logits, std::span<const Token> window,
                    std::size_t words, Losses& losses) {
    for (std::size_t i = 0; i < logits.size() / words; ++i) {
        const std::size_t next = first + i + 1;
        if (next < window.size() / 2 || next >= window.size()) continue;
        const auto row = logits.subspan(i * words, words);
        if (std::ranges::any_of(row, [](float x) { return std::isnan(x); })) {
            return failure(Errc::corrupt, "the model's result for token ", next,
                           " is not a number: its weights or parameters are broken");
        }
        losses.add(row, window[next]);
    }
    return ok();
}

void print_perplexity(const PerplexityOptions& options, const TextWindows& windows,
                      std::size_t done, const Losses& losses, double seconds) {
    if (options.json) {
        print("{}\n", json_text({{"model", options.reads.model},
                                 {"text", options.reads.text},
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

Result<> measure_perplexity(const PerplexityOptions& options) {
    using Clock = std::chrono::steady_clock;
    expect_files_cut_short();
    HEDDLE_TRY_ASSIGN(const auto generator, options.reads.load());
    HEDDLE_TRY_ASSIGN(TextWindows windows, TextWindows::of(*generator, options.reads));
    const auto words = static_cast<std::size_t>(generator->model().shape().words);
    Losses losses;
    const auto begin = Clock::now();
    HEDDLE_TRY_ASSIGN(
        const std::size_t done,
        windows.read_all(
            [&](std::size_t first, std::span<const float> logits, std::span<const Token> window) {
                return add_losses(first, logits, window, words, losses);
            },
            [&] { return fmt::format("perplexity {:.2f}", losses.perplexity()); }));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (done > 0) print_perplexity(options, windows, done, losses, seconds);
    if (!take_interrupt()) return ok();
    print_note(fmt::format("[stopped by Ctrl-C after {} of {} windows]", done, windows.count()));
    end_by_interrupt();
}

}  // namespace

void add_perplexity(CLI::App& app, int& status) {
    auto options = std::make_shared<PerplexityOptions>();
    CLI::App* command = app.add_subcommand(
        "perplexity", "Measure how well a model predicts a text: less is better");
    options->reads.add_options(*command);
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
