#include <fmt/core.h>

#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/onednn.hpp"
#include "bench/output.hpp"
#include "bench/workload.hpp"
#include "console.hpp"
#include "ggml/ops_reduce.h"
#include "interrupt.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

namespace heddle::tool::bench {
namespace {

struct CompareOptions {
    Common common;
    std::string on = "CPU", against = "BLAS";
};

std::vector<ProductSize> sizes(bool quick) {
    if (quick) return {{256, 256, 64}, {512, 512, 128}};
    return {{1024, 1024, 1024}, {4096, 4096, 32},  {4096, 4096, 128},
            {4096, 4096, 512},  {2048, 5632, 512}, {1280, 1280, 1500}};
}

Case product(const ProductSize& size) {
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

/// All in turns, so that what disturbs one disturbs the others. The best of each.
Result<std::vector<Seconds>> in_turns(const std::vector<std::function<Result<>()>>& contenders,
                                      bool quick) {
    const int turns = quick ? 1 : 3;
    const Effort whole = Effort::of(quick), part{whole.seconds / turns, 2};
    std::vector<Seconds> found(contenders.size());
    for (int turn = 0; turn < turns; ++turn) {
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            HEDDLE_TRY_ASSIGN(const Seconds seconds, measure(part, contenders[i]));
            if (turn == 0 || seconds.best < found[i].best) found[i] = seconds;
        }
    }
    return found;
}

/// A device, another one, and oneDNN if the program has it.
class Comparison {
public:
    Comparison(const CompareOptions& options, const Target& on, const Target& against)
        : options_(options),
          on_(on),
          against_(against),
          onednn_(onednn_name()),
          ceilings_(options.common.quick, memory_to_use(options.common.quick)),
          report_("compare", columns()) {}

    Result<> run() {
        const auto counts = options_.common.thread_counts();
        const auto all = sizes(options_.common.quick);
        Progress progress("measuring", counts.size() * all.size());
        options_.common.output.start(report_, {"MUL_MAT", "f32", product(all.back()).shape});
        for (const int threads : counts) {
            on_.stream().set_threads(threads);
            against_.stream().set_threads(threads);
            for (const ProductSize& size : all) {
                if (is_interrupted()) break;
                progress.step(product(size).shape);
                HEDDLE_TRY(measure_size(size, threads));
            }
        }
        for (const int threads : counts) {
            report_.add_figure("P, multiply-add f32", threads, ceilings_.peak_f32(threads) * 1e-9,
                               "GFLOP/s");
        }
        report_.add_note("the same product on all, in turns: " + described(on_) + ", " +
                         described(against_) +
                         (onednn_.empty() ? "; built without oneDNN" : ", and " + onednn_));
        return ok();
    }

    Report& report() { return report_; }

private:
    static std::string described(const Target& target) {
        return target.name() + " is " + target.device().description();
    }

    std::vector<Report::Column> columns() const {
        std::vector<Report::Column> all{
            {"op", "op", 0, 1, true},
            {"type", "type", 0, 1, true},
            {"shape", "shape", 0, 1, true},
            {"threads", "threads"},
            {"flops_per_second", on_.name() + " GFLOP/s", 1, 1e-9},
            {"other_flops_per_second", against_.name() + " GFLOP/s", 1, 1e-9}};
        if (!onednn_.empty()) {
            all.push_back({"onednn_flops_per_second", "oneDNN GFLOP/s", 1, 1e-9});
        }
        all.push_back({"share_of_peak", "of P", 2});
        all.push_back({"other_share_of_peak", "of P", 2});
        if (!onednn_.empty()) all.push_back({"onednn_share_of_peak", "of P", 2});
        all.push_back({"ratio", "ratio", 2});
        if (!onednn_.empty()) all.push_back({"onednn_ratio", "ratio", 2});
        return all;
    }

    Result<> measure_size(const ProductSize& size, int threads) {
        const Case what = product(size);
        HEDDLE_TRY_ASSIGN(Workload first, Workload::make(what, on_, 0));
        HEDDLE_TRY_ASSIGN(Workload second, Workload::make(what, against_, 0));
        if (first.is_declined() || second.is_declined()) {
            return failure(Errc::unsupported, first.is_declined() ? on_.name() : against_.name(),
                           " declines MUL_MAT f32 ", what.shape);
        }
        std::vector<std::function<Result<>()>> contenders{[&] { return first.run(); },
                                                          [&] { return second.run(); }};
        std::unique_ptr<OneDnnProduct> third;
        if (!onednn_.empty()) {
            HEDDLE_TRY_ASSIGN(third, make_onednn_product(size));
            contenders.emplace_back([&]() -> Result<> {
                for (int i = 0; i < first.times(); ++i) HEDDLE_TRY(third->run(threads));
                return ok();
            });
        }
        HEDDLE_TRY_ASSIGN(const auto seconds, in_turns(contenders, options_.common.quick));
        add_row(what, threads, first.work().flops * first.times(), seconds);
        return ok();
    }

    void add_row(const Case& what, int threads, double flops, const std::vector<Seconds>& seconds) {
        ceilings_.measure_peak_f32(threads);
        const double peak = ceilings_.peak_f32(threads);
        std::vector<double> speeds;
        for (const Seconds& each : seconds) {
            speeds.push_back(flops / each.chosen(options_.common.by_median));
        }
        std::vector<Report::Value> row{what.op, what.type, what.shape, std::int64_t{threads}};
        for (const double speed : speeds) row.emplace_back(speed);
        for (const double speed : speeds) row.emplace_back(speed / peak);
        for (std::size_t i = 1; i < speeds.size(); ++i) row.emplace_back(speeds[0] / speeds[i]);
        report_.add(std::move(row));
    }

    const CompareOptions& options_;
    const Target &on_, &against_;
    std::string onednn_;
    Ceilings ceilings_;
    Report report_;
};

Result<> run(const CompareOptions& options) {
    HEDDLE_TRY(options.common.output.check());
    HEDDLE_TRY_ASSIGN(const Target on, Target::open(options.on));
    HEDDLE_TRY_ASSIGN(const Target against, Target::open(options.against));
    Comparison comparison(options, on, against);
    HEDDLE_TRY(comparison.run());
    return options.common.output.show(comparison.report());
}

}  // namespace

void add_compare(CLI::App& bench, int& status) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App* command = bench.add_subcommand(
        "compare", "Matrix products of f32: ours and those of other libraries, alternately");
    add_shared(*command, shared::kOn, options->on)->capture_default_str();
    add_shared(*command, shared::kAgainst, options->against)->capture_default_str();
    command->footer(
        "The BLAS device is there if Heddle was built with a BLAS library, and oneDNN beside it\n"
        "if that was installed.");
    options->common.add_options(*command, false);
    options->common.add_median(*command);
    command->callback(
        [options, &status] { status = report_outcome("bench compare", run(*options)); });
}

}  // namespace heddle::tool::bench
