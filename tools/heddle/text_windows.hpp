#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device_choice.hpp"
#include "model/generator.hpp"

/// Long texts that a model reads for the sake of what it computes.
namespace heddle::tool {

/// A model and a text for it, as several commands are told.
struct ReadsText {
    std::string model, text;
    RunsOn on;
    std::size_t batch = 512;

    void add_options(CLI::App& command);

    /// Gives logits of every token. Without `--context` it has room for 512 tokens, as other
    /// programs have, so that figures compare.
    Result<std::unique_ptr<Generator>> load() const;
};

/// The text in pieces as long as the context, which the model reads one by one, each without
/// knowledge of those before. What is left at the end is not read.
class TextWindows {
public:
    /// Fails if the text is too short to say anything.
    static Result<TextWindows> of(Generator& generator, const ReadsText& options);

    std::size_t size() const { return size_; }  ///< tokens of each
    std::size_t count() const { return tokens_.size() / size_; }

    /// Is given the number of the first of some tokens that were read together, and a row of
    /// logits for each.
    using Look = std::function<Result<>(std::size_t first, std::span<const float> logits,
                                        std::span<const Token> window)>;
    Result<> read(std::size_t number, const Look& look);

    /// Reads all, with a bar that shows `note()`, until Ctrl-C; how many were read.
    Result<std::size_t> read_all(const Look& look, const std::function<std::string()>& note);

private:
    TextWindows(Generator& generator, std::vector<Token> tokens, std::size_t batch);

    Generator& generator_;
    std::vector<Token> tokens_;
    std::size_t batch_, size_;
};

}  // namespace heddle::tool
