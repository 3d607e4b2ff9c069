#pragma once

#include "model/generator.hpp"
#include "run_options.hpp"
#include "writer.hpp"

namespace heddle::tool {

/// What is told of a run afterwards.
struct RunReport {
    Generator& generator;
    const RunOptions& options;
    const Writer& writer;
    const std::vector<Token>& prompt;
    double load_seconds = 0;
};

/// Text as it comes: to people, to a script a line at a time, or not at all.
void show_text(const RunOptions& options, std::string_view text, std::span<const Token> tokens);

/// One object, or the last line.
void print_json(const RunReport& report);

/// Speeds, why it ended, and who did it.
void print_closing_line(const RunReport& report);

}  // namespace heddle::tool
