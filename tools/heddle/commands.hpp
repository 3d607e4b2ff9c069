#pragma once

#include <CLI/CLI.hpp>

/// The commands of the program. Each adds itself to the command line; what it returns is the exit
/// status: 0 fine, 1 something failed, 2 the command line was wrong.
namespace heddle::tool {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

void add_bench(CLI::App& app, int& status);
void add_completion(CLI::App& app, int& status);
void add_conform(CLI::App& app, int& status);
void add_devices(CLI::App& app, int& status);
void add_explain(CLI::App& app, int& status);
void add_imatrix(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_launch(CLI::App& app, int& status);
void add_perplexity(CLI::App& app, int& status);
void add_quantize(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_worker(CLI::App& app, int& status);

}  // namespace heddle::tool
