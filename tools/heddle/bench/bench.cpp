#include "bench/commands.hpp"
#include "commands.hpp"

namespace heddle::tool {

void add_bench(CLI::App& app, int& status) {
    CLI::App* command =
        app.add_subcommand("bench", "Measure this machine, ops, models and the scheduler");
    command->require_subcommand(1);
    bench::add_ceilings(*command, status);
    bench::add_ops(*command, status);
    bench::add_model(*command, status);
    bench::add_sched(*command, status);
    bench::add_compare(*command, status);
    bench::add_cluster(*command, status);
    // Commands that are added later would show it, too.
    command->footer(
        "Speeds are shown beside what the machine can do at most, measured in the same run.\n"
        "'heddle bench ceilings --quick' is a good beginning.");
}

}  // namespace heddle::tool
