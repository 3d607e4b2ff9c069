#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/output.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "outcome.hpp"

namespace heddle::tool::bench {
namespace {

std::vector<std::size_t> working_sets(std::size_t most) {
    std::vector<std::size_t> sizes;
    for (std::size_t bytes = std::size_t{32} << 10; bytes < most; bytes *= 8) {
        sizes.push_back(bytes);
    }
    sizes.push_back(most);
    return sizes;
}

Result<> run(const Common& options) {
    HEDDLE_TRY(options.output.check());
    Ceilings ceilings(options.quick, memory_to_use(options.quick));
    const auto sizes = working_sets(ceilings.memory_bytes());
    const auto counts = options.thread_counts();
    Report report("ceilings", {{"ceiling", "ceiling", 0, 1, true},
                               {"threads", "threads"},
                               {"working_set", "working set", 0, 1, false, true},
                               {"value", "most", 1, 1e-9},
                               {"unit", "", 0, 1, true}});
    Roofline roofline{"What this machine can do at most", {}, {}};
    Progress progress("measuring", counts.size() * (2 + 2 * sizes.size()));
    const auto add = [&](const char* what, int threads, Report::Value bytes, double value,
                         const char* unit) {
        report.add({what, std::int64_t{threads}, std::move(bytes), value, unit});
        progress.step(what);
    };
    options.output.start(report, {"multiply-add f32", "", "", "", "GFLOP/s"});
    for (const int threads : counts) {
        if (is_interrupted()) break;
        add("multiply-add f32", threads, {}, ceilings.peak_f32(threads), "GFLOP/s");
        add("multiply-add i8", threads, {}, ceilings.peak_i8(threads), "GOP/s");
        for (const bool copy : {false, true}) {
            for (const std::size_t bytes : sizes) {
                if (is_interrupted()) break;
                add(copy ? "copy" : "read", threads, static_cast<std::int64_t>(bytes),
                    copy ? ceilings.copy(threads, bytes) : ceilings.read(threads, bytes), "GB/s");
            }
        }
        if (is_interrupted()) break;
        roofline.roofs.push_back({threads, ceilings.peak_f32(threads), ceilings.memory(threads)});
    }
    return options.output.show(report, roofline);
}

}  // namespace

void add_ceilings(CLI::App& bench, int& status) {
    auto options = std::make_shared<Common>();
    CLI::App* command =
        bench.add_subcommand("ceilings", "What the processor can compute, read and copy at most");
    command->footer(
        "Best of repeated runs. Multiplications with their additions count as two operations.\n"
        "Reading and copying go over arrays from 32 KiB to 1 GiB, shared out over the threads;\n"
        "a copy counts the bytes it reads and those it writes.");
    options->add_options(*command, true);
    command->callback(
        [options, &status] { status = report_outcome("bench ceilings", run(*options)); });
}

}  // namespace heddle::tool::bench
