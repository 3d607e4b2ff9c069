#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "bench/ceilings.hpp"
#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/output.hpp"
#include "bench/workload.hpp"
#include "console.hpp"
#include "model/weight_memory.hpp"
#include "outcome.hpp"

namespace heddle::tool::bench {
namespace {

struct OpsOptions {
    Common common;
    std::vector<std::string> names, types;
    std::string device = "CPU", instruction_set = "best";
    std::string shapes;  ///< empty: of language models, or of those that have the op
    bool all = false, repacked = false;
};

constexpr const char* kEveryModel = "all";

Result<std::vector<ggml_type>> types_of(const std::vector<std::string>& names) {
    std::vector<ggml_type> types;
    for (const std::string& name : names) {
        if (name == "all") {
            for (int i = 0; i < GGML_TYPE_COUNT; ++i) types.push_back(static_cast<ggml_type>(i));
            // No weights have these; the last two hold what products are computed from.
            std::erase_if(types, [](ggml_type type) {
                return ggml_blck_size(type) == 0 || type == GGML_TYPE_Q8_1 ||
                       type == GGML_TYPE_Q8_K ||
                       (!ggml_is_quantized(type) && type != GGML_TYPE_F32 &&
                        type != GGML_TYPE_F16 && type != GGML_TYPE_BF16);
            });
            continue;
        }
        HEDDLE_TRY_ASSIGN(const ggml_type type, find_type(name));
        types.push_back(type);
    }
    return types;
}

/// The cases of all ops, for each model that `shapes` names.
std::vector<Case> cases_of_models(const std::string& shapes, const std::vector<ggml_type>& types,
                                  bool quick) {
    std::vector<Case> cases;
    for (const char* model : kModels) {
        if (shapes != model && shapes != kEveryModel) continue;
        std::ranges::move(all_cases({model, types, quick}), std::back_inserter(cases));
    }
    return cases;
}

std::set<std::string> ops_of(const std::string& shapes) {
    std::set<std::string> ops;
    for (const Case& each : cases_of_models(shapes, {}, true)) ops.insert(each.op);
    return ops;
}

/// The names as cases have them. Fails if a name is none of `known`.
Result<std::set<std::string>> find_ops(const std::vector<std::string>& names,
                                       const std::set<std::string>& known) {
    std::set<std::string> found;
    for (const std::string& name : names) {
        std::string upper = name;
        std::ranges::transform(upper, upper.begin(),
                               [](unsigned char c) { return std::toupper(c); });
        if (known.contains(upper)) {
            found.insert(upper);
            continue;
        }
        std::string list;
        for (const std::string& op : known) list += (list.empty() ? "" : ", ") + op;
        return failure(Errc::not_found, "no op '", name, "' among those that are measured: ", list);
    }
    return found;
}

/// The cases of the ops that are asked for; if none is, of those that matter most, or of all.
Result<std::vector<Case>> cases_for(const OpsOptions& options) {
    std::vector<std::string> type_names = options.types;
    if (options.all && type_names.empty()) type_names = {"all"};
    HEDDLE_TRY_ASSIGN(const auto types, types_of(type_names));
    const bool quick = options.common.quick;
    const bool any_model = options.shapes.empty();
    const std::string shapes = any_model ? kModels.front() : options.shapes;
    HEDDLE_TRY_ASSIGN(const auto wanted,
                      find_ops(options.names, ops_of(any_model ? kEveryModel : shapes)));
    std::vector<Case> cases = cases_of_models(shapes, types, quick);
    if (any_model && !wanted.empty()) {
        // Ops that language models lack, at the shapes of those that have them.
        const std::set<std::string> common = ops_of(shapes);
        for (Case& each : cases_of_models(kEveryModel, types, quick)) {
            if (!common.contains(each.op)) cases.push_back(std::move(each));
        }
    }
    std::erase_if(cases, [&](const Case& each) {
        return wanted.empty() ? !each.usual && !options.all : !wanted.contains(each.op);
    });
    if (cases.empty()) return failure(Errc::not_found, "no op is measured with these types");
    return cases;
}

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
          // What works in the processor's memory is compared with the processor.
          is_host_(ggml_backend_buft_is_host(ggml_backend_dev_buffer_type(target.device()))) {
        if (!target.set_threads(1)) counts_ = {counts_.back()};
    }

    Result<> run(const std::vector<Case>& cases) {
        Progress progress("measuring", cases.size() * counts_.size());
        for (const Case& each : cases) HEDDLE_TRY(measure_case(each, progress));
        if (declined_ == cases.size()) {
            return failure(Errc::unsupported, target_.name(), " declines all ", cases.size(),
                           " cases that are asked for");
        }
        // Only now are the ceilings the best that were ever seen.
        if (is_host_) add_ceilings();
        for (const Measured& each : measured_) add_row(each);
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

    const Report& report() const { return report_; }
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
            progress.step(what.op + " " + what.type);
            if (workload.is_declined()) continue;
            target_.set_threads(threads);
            const double before = measure_memory(what, workload.work(), threads);
            HEDDLE_TRY_ASSIGN(Seconds seconds, measure(Effort::of(options_.common.quick),
                                                       [&] { return workload.run(); }));
            seconds.best /= workload.times();
            seconds.median /= workload.times();
            const double after = measure_memory(what, workload.work(), threads);
            measured_.push_back(
                {&what, threads, seconds, workload.work(), std::max(before, after)});
            if (is_host_) measure_ceilings(measured_.back());
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

    Limit limit_of(const Measured& measured) {
        if (!is_host_) return {};
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

    void add_row(const Measured& measured) {
        const Case& what = *measured.what;
        const bool by_median = options_.common.by_median;
        const Limit limit = limit_of(measured);
        const double flops = measured.flops(by_median);
        const Report::Value none;
        report_.add({what.op, what.type, what.shape, std::int64_t{measured.threads},
                     measured.seconds.best, measured.seconds.median,
                     flops > 0 ? Report::Value(flops) : none, measured.bytes(by_median),
                     limit.of.empty() ? none : Report::Value(limit.share),
                     limit.of.empty() ? none : Report::Value(limit.of)});
        if (measured.threads != counts_.back() || flops == 0) return;
        roofline_.points.push_back({what.op + " " + what.type + " " + what.shape,
                                    measured.work.flops / measured.work.bytes, flops});
    }

    const OpsOptions& options_;
    const Target& target_;
    ggml_backend_buffer_type_t weights_in_;  ///< null: where everything else is
    std::vector<int> counts_;
    Ceilings ceilings_;
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
    command->add_option("op", options->names,
                        "Ops such as MUL_MAT or SOFT_MAX; the usual ones if left out");
    command->add_flag("--all", options->all, "All ops, with weights of all types");
    command
        ->add_option("--type", options->types,
                     "Types of weights such as Q4_0,F16, or all; the usual ones if left out")
        ->delimiter(',')
        ->allow_extra_args(false);
    command
        ->add_option("--shapes", options->shapes,
                     "Shapes of which kind of model; llm if left out, or that which has the op")
        ->check(CLI::IsMember({"llm", "speech", "vision", kEveryModel}));
    command->add_option("-d,--device", options->device, "Device to measure")
        ->type_name("DEVICE")
        ->capture_default_str();
    command->add_flag("--repacked", options->repacked,
                      "Weights in the layout that the device has for them, where it has one");
    add_instruction_set(*command, options->instruction_set);
    command->footer(
        "'share' compares with P (multiply-adds in registers), B (reading memory), read (reading\n"
        "as many bytes, which caches may hold) or, for ops that only pass over their operands,\n"
        "with a plain copy of as many bytes.\n"
        "Products of few columns read other weights each time, more than 1 GiB of them.");
    options->common.add_options(*command, true);
    command->callback([options, &status] { status = report_outcome("bench ops", run(*options)); });
}

}  // namespace heddle::tool::bench
