#include <fmt/core.h>

#include <algorithm>

#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/device_ceilings.hpp"
#include "bench/measure.hpp"
#include "bench/op_choice.hpp"
#include "bench/output.hpp"
#include "bench/workload.hpp"
#include "console.hpp"
#include "interrupt.hpp"
#include "model/weight_memory.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"

namespace heddle::tool::bench {
namespace {

/// What is known of a case once it has run.
struct Measured {
    const Case* what;
    int threads;
    Seconds seconds;  ///< of one time
    Work work;
    double memory = 0;  ///< bytes per second that memory gave at the time; 0: not known

    double flops(bool by_median) const { return work.flops / seconds.chosen(by_median); }
    double bytes(bool by_median) const { return work.bytes / seconds.chosen(by_median); }
};

/// What a case is compared with.
struct Limit {
    double share = 0;
    std::string of;  ///< empty: nothing is known that it could be compared with
};

class OpsBench {
public:
    OpsBench(const OpsOptions& options, const Target& target, ggml_backend_buffer_type_t weights_in)
        : options_(options),
          target_(target),
          weights_in_(weights_in),
          counts_(options.common.thread_counts()),
          ceilings_(options.common.quick, memory_to_use(options.common.quick)),
          device_ceilings_(target, options.common.quick),
          // What works in the processor's memory is compared with the processor.
          is_host_(ggml_backend_buft_is_host(target.device().buffer_type())) {
        if (!target.stream().set_threads(1)) counts_ = {counts_.back()};
    }

    Result<> run(const std::vector<Case>& cases) {
        Progress progress("measuring", cases.size() * counts_.size());
        options_.common.output.start(report_, widest(cases));
        for (const Case& each : cases) {
            if (is_interrupted()) break;
            HEDDLE_TRY(measure_case(each, progress));
        }
        if (is_interrupted() && measured_.empty()) return ok();
        if (declined_ == cases.size()) {
            return failure(Errc::unsupported, target_.name(), " declines all ", cases.size(),
                           " cases that are asked for");
        }
        // Only now are the ceilings the best that were ever seen.
        if (is_host_) {
            add_ceilings();
        } else {
            HEDDLE_TRY(add_device_ceilings());
        }
        for (const Measured& each : measured_) HEDDLE_TRY(add_row(each));
        explain_shares();
        if (declined_ > 0) {
            report_.add_note(fmt::format("{} of {} cases are declined by {}", declined_,
                                         cases.size(), target_.name()));
        }
        if (weights_ > 0) {
            report_.add_note(
                fmt::format("n below 8, q=1: weights and caches are read from memory, at "
                            "least {} of them",
                            bytes_text(weights_)));
        }
        return ok();
    }

    Report& report() { return report_; }
    const Roofline& roofline() const { return roofline_; }

private:
    void add_ceilings() {
        for (const int threads : counts_) {
            roofline_.roofs.push_back(
                {threads, ceilings_.peak_f32(threads), ceilings_.memory(threads)});
        }
        for (const auto& roof : roofline_.roofs) {
            report_.add_figure("P, multiply-add f32", roof.threads, roof.peak * 1e-9, "GFLOP/s");
        }
        for (const auto& roof : roofline_.roofs) {
            report_.add_figure("B, read " + bytes_text(ceilings_.memory_bytes()), roof.threads,
                               roof.bandwidth * 1e-9, "GB/s");
        }
    }

    Result<> add_device_ceilings() {
        HEDDLE_TRY_ASSIGN(const double peak, device_ceilings_.product());
        HEDDLE_TRY_ASSIGN(const double memory, device_ceilings_.memory());
        roofline_.roofs.push_back({counts_.back(), peak, memory});
        report_.add_figure("P, product of f16", counts_.back(), peak * 1e-9, "GFLOP/s");
        report_.add_figure("B, copy " + bytes_text(device_ceilings_.memory_bytes()), counts_.back(),
                           memory * 1e-9, "GB/s");
        return ok();
    }

    Result<> measure_case(const Case& what, Progress& progress) {
        // A little more than what the ceiling was measured with.
        const std::size_t memory = ceilings_.memory_bytes() / 16 * 17;
        HEDDLE_TRY_ASSIGN(Workload workload, Workload::make(what, target_, memory, weights_in_));
        if (workload.is_declined()) ++declined_;
        if (what.from_memory && !workload.is_declined()) {
            weights_ = weights_ == 0 ? workload.weight_bytes()
                                     : std::min(weights_, workload.weight_bytes());
        }
        for (const int threads : counts_) {
            if (is_interrupted()) break;
            progress.step(what.op + " " + what.type);
            if (workload.is_declined()) continue;
            target_.stream().set_threads(threads);
            const double before = measure_memory(what, workload.work(), threads);
            HEDDLE_TRY_ASSIGN(Seconds seconds, measure(Effort::of(options_.common.quick),
                                                       [&] { return workload.run(); }));
            seconds.best /= workload.times();
            seconds.median /= workload.times();
            const double after = measure_memory(what, workload.work(), threads);
            measured_.push_back(
                {&what, threads, seconds, workload.work(), std::max(before, after)});
            if (is_host_) measure_ceilings(measured_.back());
            HEDDLE_TRY_ASSIGN(const auto row, row_of(measured_.back()));
            report_.preview(row);
        }
        return ok();
    }

    /// What is read again and again; caches hold it if it is little.
    static std::size_t bytes_read(const Measured& measured) {
        return static_cast<std::size_t>(measured.work.bytes);
    }

    /// What memory gives to a case whose operands are there; 0: a cache may hold them. It may
    /// change by half from one minute to the next where machines share a memory, so it is never
    /// taken from another time.
    double measure_memory(const Case& what, const Work& work, int threads) {
        constexpr double kMostCached = 16 << 20;
        if (!is_host_) return 0;
        if (what.from_memory) return ceilings_.measure_read(threads, ceilings_.memory_bytes());
        if (!what.beside_copy || work.bytes <= kMostCached) return 0;
        return ceilings_.measure_copy(threads, static_cast<std::size_t>(work.bytes));
    }

    /// Beside the case, so that what disturbs one disturbs the other.
    void measure_ceilings(const Measured& beside) {
        const bool beside_copy = beside.what->beside_copy;
        if (!beside_copy) ceilings_.measure_peak_f32(beside.threads);
        if (beside.memory > 0) return;
        if (beside_copy) {
            ceilings_.measure_copy(beside.threads, static_cast<std::size_t>(beside.work.bytes));
        } else {
            ceilings_.measure_read(beside.threads, bytes_read(beside));
        }
    }

    /// Of a device with memory of its own.
    Result<Limit> device_limit_of(const Measured& measured) {
        const bool by_median = options_.common.by_median;
        HEDDLE_TRY_ASSIGN(const double peak, device_ceilings_.product());
        HEDDLE_TRY_ASSIGN(const double copy, measured.what->from_memory
                                                 ? device_ceilings_.memory()
                                                 : device_ceilings_.copy(bytes_read(measured)));
        const Work& work = measured.work;
        const bool is_product = !measured.what->beside_copy && !measured.what->from_memory;
        if (is_product && work.flops * copy > work.bytes * peak && peak > 0) {
            return Limit{measured.flops(by_median) / peak, "P"};
        }
        if (copy == 0) return Limit{};
        return Limit{measured.bytes(by_median) / copy, measured.what->from_memory ? "B" : "copy"};
    }

    Limit limit_of(const Measured& measured) {
        const bool by_median = options_.common.by_median;
        const double bytes = measured.bytes(by_median), flops = measured.flops(by_median);
        const int threads = measured.threads;
        if (measured.what->beside_copy) {
            const auto touched = static_cast<std::size_t>(measured.work.bytes);
            const double copy =
                measured.memory > 0 ? measured.memory : ceilings_.copy(threads, touched);
            return copy > 0 ? Limit{bytes / copy, "copy"} : Limit{};
        }
        const double peak = ceilings_.peak_f32(threads);
        const double memory = measured.what->from_memory
                                  ? measured.memory
                                  : ceilings_.read(threads, bytes_read(measured));
        const bool waits_for_memory =
            measured.what->from_memory || measured.work.flops * memory < measured.work.bytes * peak;
        if (!waits_for_memory) return {flops / peak, "P"};
        return {bytes / memory, measured.what->from_memory ? "B" : "read"};
    }

    /// The widest words of each column.
    static std::vector<std::string> widest(const std::vector<Case>& cases) {
        std::vector<std::string> words(3);
        const auto keep = [](std::string& longest, const std::string& word) {
            if (word.size() > longest.size()) longest = word;
        };
        for (const Case& each : cases) {
            keep(words[0], each.op);
            keep(words[1], each.type);
            keep(words[2], each.shape);
        }
        return words;
    }

    void explain_shares() {
        if (!is_host_) return;
        const std::size_t of = 9;
        const auto is_of_peak = [](const std::vector<Report::Value>& row) {
            return std::get<std::string>(row[of]) == "P";
        };
        report_.explain_above_one(
            "share",
            "shares of P above 1: weights in blocks are multiplied by instructions for 8-bit "
            "integers, which do more at a time than the multiply-adds of f32 that P counts",
            is_of_peak);
        report_.explain_above_one(
            "share",
            "shares of B, read and copy above 1: caches held more of the operands than of the "
            "ceiling's array, or memory gave less when the ceiling was measured",
            [&](const std::vector<Report::Value>& row) { return !is_of_peak(row); });
    }

    Result<std::vector<Report::Value>> row_of(const Measured& measured) {
        const Case& what = *measured.what;
        const bool by_median = options_.common.by_median;
        Limit limit;
        if (is_host_) {
            limit = limit_of(measured);
        } else {
            HEDDLE_TRY_ASSIGN(limit, device_limit_of(measured));
        }
        const double flops = measured.flops(by_median);
        const Report::Value none;
        return std::vector<Report::Value>{what.op,
                                          what.type,
                                          what.shape,
                                          std::int64_t{measured.threads},
                                          measured.seconds.best,
                                          measured.seconds.median,
                                          flops > 0 ? Report::Value(flops) : none,
                                          measured.bytes(by_median),
                                          limit.of.empty() ? none : Report::Value(limit.share),
                                          limit.of.empty() ? none : Report::Value(limit.of)};
    }

    Result<> add_row(const Measured& measured) {
        const Case& what = *measured.what;
        const double flops = measured.flops(options_.common.by_median);
        HEDDLE_TRY_ASSIGN(std::vector<Report::Value> row, row_of(measured));
        report_.add(std::move(row));
        if (measured.threads != counts_.back() || flops == 0) return ok();
        roofline_.points.push_back({what.op + " " + what.type + " " + what.shape,
                                    measured.work.flops / measured.work.bytes, flops});
        return ok();
    }

    const OpsOptions& options_;
    const Target& target_;
    ggml_backend_buffer_type_t weights_in_;  ///< null: where everything else is
    std::vector<int> counts_;
    Ceilings ceilings_;
    DeviceCeilings device_ceilings_;
    bool is_host_;
    std::size_t declined_ = 0, weights_ = 0;
    std::vector<Measured> measured_;
    Report report_{"ops",
                   {{"op", "op", 0, 1, true},
                    {"type", "type", 0, 1, true},
                    {"shape", "shape", 0, 1, true},
                    {"threads", "threads"},
                    {"seconds", "best us", 1, 1e6},
                    {"median_seconds", "median us", 1, 1e6},
                    {"flops_per_second", "GFLOP/s", 1, 1e-9},
                    {"bytes_per_second", "GB/s", 1, 1e-9},
                    {"share", "share", 2},
                    {"of", "of", 0, 1, true}}};
    Roofline roofline_{"Ops beside what the machine can do at most", {}, {}};
};

Result<> run(const OpsOptions& options) {
    HEDDLE_TRY(options.common.output.check());
    HEDDLE_TRY_ASSIGN(const std::vector<Case> cases, cases_for(options));
    HEDDLE_TRY_ASSIGN(const Target target, Target::open(options.device));
    HEDDLE_TRY(choose_instruction_set(target, options.instruction_set));
    const auto weights_in = options.repacked ? repacking_type_of(target.device()) : nullptr;
    if (options.repacked && weights_in == nullptr) {
        return failure(Errc::unsupported, target.name(), " has no layout of its own for weights");
    }
    OpsBench bench(options, target, weights_in);
    HEDDLE_TRY(bench.run(cases));
    return options.common.output.show(bench.report(), bench.roofline());
}

}  // namespace

void add_ops(CLI::App& bench, int& status) {
    auto options = std::make_shared<OpsOptions>();
    CLI::App* command =
        bench.add_subcommand("ops", "Speed of each op, as a share of what the machine can do");
    command
        ->add_option("op", options->names,
                     "Ops such as MUL_MAT or SOFT_MAX; the usual ones if left out")
        ->type_name("OP");
    command->add_flag("--all", options->all, "All ops, with weights of all types");
    add_shared(*command, shared::kType, options->types, "; several with commas, or all")
        ->default_str("the usual ones")
        ->delimiter(',');
    command->add_option("--shapes", options->shapes, "Shapes of which kind of model")
        ->default_str("llm, or that which has the op")
        ->check(CLI::IsMember({"llm", "speech", "vision", kEveryModel}));
    add_shared(*command, shared::kDevice, options->device, "; one only")->capture_default_str();
    command->add_flag("--repacked", options->repacked,
                      "Weights in the layout that the device has for them, where it has one");
    add_instruction_set(*command, options->instruction_set);
    command->footer(
        "'share' compares with P (multiply-adds in registers), B (reading memory), read (reading\n"
        "as many bytes, which caches may hold) or, for ops that only pass over their operands,\n"
        "with a plain copy of as many bytes. On a device with memory of its own P is a product of\n"
        "large f16 matrices, and B a copy of 1 GiB.\n"
        "Products of few columns read other weights each time, more than 1 GiB of them.");
    options->common.add_options(*command, true);
    options->common.add_median(*command);
    command->callback([options, &status] { status = report_outcome("bench ops", run(*options)); });
}

}  // namespace heddle::tool::bench
