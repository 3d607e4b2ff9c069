#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bench/report.hpp"
#include "bench/roofline.hpp"
#include "heddle/result.hpp"
#include "target.hpp"

namespace heddle::tool::bench {

/// How results are to be shown.
struct Output {
    bool json = false, csv = false;
    std::string svg, html;  ///< where pictures go; empty: nowhere

    void add_options(CLI::App& command, bool with_picture);

    /// Fails if a picture could not be written: to be known before hours have gone by. From now on
    /// Ctrl-C ends the measurements, not what is told of them.
    Result<> check() const;

    /// Rows of a table are printed as they come.
    void start(Report& report, std::vector<std::string> widest = {}) const {
        if (!json && !csv) report.print_as_they_come(std::move(widest));
    }

    /// Writes the pictures, then prints. After Ctrl-C the program ends.
    Result<> show(Report& report, const Roofline& roofline = {}) const;
};

/// Options that all benchmarks have.
struct Common {
    Output output;
    std::vector<int> threads;  ///< empty: 1, 2, 4, ... and all there are
    bool quick = false, by_median = false;

    void add_options(CLI::App& command, bool with_picture);
    void add_median(CLI::App& command);  ///< for those that run the same thing several times
    std::vector<int> thread_counts() const;
};

/// For commands that compute on the processor: another instruction set than the best.
void add_instruction_set(CLI::App& command, std::string& name);
Result<> choose_instruction_set(const Target& target, const std::string& name);

/// 1 GiB, or a quarter of what is free if that is less; little if it is to be quick.
std::size_t memory_to_use(bool quick);

}  // namespace heddle::tool::bench
