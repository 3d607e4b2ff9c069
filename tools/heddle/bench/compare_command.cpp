#include <fmt/core.h>

#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/output.hpp"
#include "bench/workload.hpp"
#include "console.hpp"
#include "outcome.hpp"

namespace heddle::tool::bench {
namespace {

struct CompareOptions {
    Common common;
    std::string on = "CPU", against = "BLAS";
};

struct Size {
    std::int64_t rows, columns, n;
};

std::vector<Size> sizes(bool quick) {
    if (quick) return {{256, 256, 64}, {512, 512, 128}};
    return {{1024, 1024, 1024}, {4096, 4096, 32},  {4096, 4096, 128},
            {4096, 4096, 512},  {2048, 5632, 512}, {1280, 1280, 1500}};
}

Case product(const Size& size) {
    return {.op = "MUL_MAT",
            .type = "f32",
            .main_type = GGML_TYPE_F32,
            .shape = fmt::format("{}x{} n={}", size.rows, size.columns, size.n),
            .build = [size](Inputs& inputs) {
                ggml_tensor* a = inputs.input(GGML_TYPE_F32, {size.columns, size.rows});
                return ggml_mul_mat(inputs.context(), a,
                                    inputs.input(GGML_TYPE_F32, {size.columns, size.n}));
            }};
}

/// Both in turns, so that what disturbs one disturbs the other.
Result<std::pair<Seconds, Seconds>> in_turns(Workload& one, Workload& other, bool quick) {
    const int turns = quick ? 1 : 3;
    const Effort whole = Effort::of(quick), part{whole.seconds / turns, 2};
    std::pair<Seconds, Seconds> found;
    for (int i = 0; i < turns; ++i) {
        HEDDLE_TRY_ASSIGN(const Seconds first, measure(part, [&] { return one.run(); }));
        HEDDLE_TRY_ASSIGN(const Seconds second, measure(part, [&] { return other.run(); }));
        if (i == 0 || first.best < found.first.best) found.first = first;
        if (i == 0 || second.best < found.second.best) found.second = second;
    }
    return found;
}

Result<> run(const CompareOptions& options) {
    HEDDLE_TRY(options.common.output.check());
    HEDDLE_TRY_ASSIGN(const Target on, Target::open(options.on));
    HEDDLE_TRY_ASSIGN(const Target against, Target::open(options.against));
    const bool quick = options.common.quick, by_median = options.common.by_median;
    Ceilings ceilings(quick, memory_to_use(quick));
    Report report("compare", {{"op", "op", 0, 1, true},
                              {"type", "type", 0, 1, true},
                              {"shape", "shape", 0, 1, true},
                              {"threads", "threads"},
                              {"flops_per_second", on.name() + " GFLOP/s", 1, 1e-9},
                              {"other_flops_per_second", against.name() + " GFLOP/s", 1, 1e-9},
                              {"share_of_peak", "of P", 2},
                              {"other_share_of_peak", "of P", 2},
                              {"ratio", "ratio", 2}});
    const auto counts = options.common.thread_counts();
    const auto all = sizes(quick);
    Progress progress("measuring", counts.size() * all.size());
    for (const int threads : counts) {
        on.set_threads(threads);
        against.set_threads(threads);
        for (const Size& size : all) {
            const Case what = product(size);
            progress.step(what.shape);
            HEDDLE_TRY_ASSIGN(Workload first, Workload::make(what, on, 0));
            HEDDLE_TRY_ASSIGN(Workload second, Workload::make(what, against, 0));
            if (first.is_declined() || second.is_declined()) {
                return failure(Errc::unsupported, first.is_declined() ? on.name() : against.name(),
                               " declines MUL_MAT f32 ", what.shape);
            }
            HEDDLE_TRY_ASSIGN(const auto seconds, in_turns(first, second, quick));
            const double peak = ceilings.measure_peak_f32(threads);
            const double flops = first.work().flops * first.times();
            const double mine = flops / seconds.first.chosen(by_median);
            const double other = flops / seconds.second.chosen(by_median);
            report.add({what.op, what.type, what.shape, std::int64_t{threads}, mine, other,
                        mine / peak, other / peak, mine / other});
        }
    }
    for (const int threads : counts) {
        report.add_figure("P, multiply-add f32", threads, ceilings.peak_f32(threads) * 1e-9,
                          "GFLOP/s");
    }
    report.add_note("the same graph on both, in turns: " + on.name() + " is " +
                    ggml_backend_dev_description(on.device()) + ", " + against.name() + " is " +
                    ggml_backend_dev_description(against.device()));
    return options.common.output.show(report);
}

}  // namespace

void add_compare(CLI::App& bench, int& status) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command = bench.add_subcommand(
        "compare",
        "Matrix products of f32 on two devices in turns: ours beside the BLAS library's");
    command->add_option("--on", options->on, "Device to measure")
        ->type_name("DEVICE")
        ->capture_default_str();
    command->add_option("--against", options->against, "Device to compare with")
        ->type_name("DEVICE")
        ->capture_default_str();
    command->footer("The BLAS device is there if Heddle was built with a BLAS library.");
    options->common.add_options(*command, false);
    command->callback(
        [options, &status] { status = report_outcome("bench compare", run(*options)); });
}

}  // namespace heddle::tool::bench
