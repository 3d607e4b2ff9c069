#pragma once

#include <CLI/CLI.hpp>

/// The benchmarks: each adds itself below `heddle bench`.
namespace heddle::tool::bench {

void add_ceilings(CLI::App& bench, int& status);
void add_ops(CLI::App& bench, int& status);
void add_model(CLI::App& bench, int& status);
void add_sched(CLI::App& bench, int& status);
void add_compare(CLI::App& bench, int& status);
void add_cluster(CLI::App& bench, int& status);

}  // namespace heddle::tool::bench
