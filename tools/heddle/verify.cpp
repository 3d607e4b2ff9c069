#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "device_origin.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "verify_cases.hpp"
#include "verify_model.hpp"
#include "verify_report.hpp"
#include "verify_worker.hpp"

/// `heddle verify`: what devices compute, case by case or on a model.
namespace heddle::tool {
namespace {

struct Options {
    CaseOptions cases;
    ModelCheck model;
    WorkerJob worker;
    std::vector<std::string> devices;
    double case_limit = kCaseLimit;  ///< seconds
    bool json = false, verbose = false;
    bool isolate = false, no_isolate = false;

    Child::Seconds limit() const { return Child::Seconds(case_limit); }
};

constexpr std::size_t kRoughGroupCount = 100;  // ops; only the progress bar needs to know

/// Whether the device computes in a process of its own: those of others do, as nobody here knows
/// how they end.
bool is_isolated(const Options& options, const api::Device& device) {
    return !options.no_isolate && (options.isolate || !is_ours(device.c()));
}

/// Counts what happens in this process.
class CountingObserver : public RunObserver {
public:
    CountingObserver(const CaseOptions& options, DeviceReport& report, Progress& progress)
        : options_(options), report_(report), progress_(progress) {}

    void begin_group(const std::string& name, std::size_t) override {
        progress_.step(name);
        tally_ = &report_.tallies[name];
        tally_->is_named = options_.names(name);
    }
    void begin_run(const std::string& what) override { run_ = what; }
    void end_run(const Outcome& outcome) override { tally_->add(outcome, run_); }

private:
    const CaseOptions& options_;
    DeviceReport& report_;
    Progress& progress_;
    Tally* tally_ = nullptr;
    std::string run_;
};

Result<DeviceReport> verify_here(const CaseOptions& options, const std::string& name,
                                 Progress& progress) {
    HEDDLE_TRY_ASSIGN(const Target target, Target::open(name));
    DeviceReport report;
    report.device = target.name();
    CountingObserver observer(options, report, progress);
    HEDDLE_TRY(run_cases(options, target, {}, observer));
    return report;
}

Result<DeviceReport> verify_device(const Options& options, const std::string& name) {
    HEDDLE_TRY_ASSIGN(const api::Device device, find_device(name));
    Progress progress("verify " + device.name(), kRoughGroupCount);
    if (!is_isolated(options, device)) return verify_here(options.cases, name, progress);
    return verify_in_worker(options.cases, name, options.limit(),
                            [&](const std::string& group) { progress.step(group); });
}

/// Runs the command; false if something failed.
Result<bool> verify(const Options& options) {
    HEDDLE_TRY(check_cases(options.cases));
    for (const std::string& name : options.devices) HEDDLE_TRY(find_device(name));
    std::vector<DeviceReport> reports;
    for (const std::string& name : options.devices) {
        HEDDLE_TRY_ASSIGN(DeviceReport report, verify_device(options, name));
        if (!options.json) print_report(report, options.verbose);
        reports.push_back(std::move(report));
    }
    if (options.json) {
        nlohmann::json all{{"devices", nlohmann::json::object()}};
        for (const DeviceReport& report : reports) {
            all["devices"][report.device] = report_json(report);
        }
        add_summary(reports, all);
        print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        print_summary(reports);
    }
    return std::ranges::none_of(reports, &DeviceReport::has_failed);
}

/// The first device that is not the trusted one.
Result<std::string> other_device(const std::string& trusted) {
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        const std::string name = ggml_backend_dev_name(ggml_backend_dev_get(i));
        if (name != trusted) return name;
    }
    return failure(Errc::not_found, "there is no device but ", trusted,
                   "; name one to compare it with, such as --on sim");
}

Result<bool> verify_a_model(const Options& options) {
    for (const std::string& name : {options.model.on, options.model.against}) {
        const auto device = find_device(name);
        if (!device) continue;  // the check has its own words for it
        if (is_isolated(options, *device)) {
            return verify_model_in_worker(options.model, options.limit());
        }
    }
    return verify_model(options.model);
}

/// A model may be given instead of cases.
void add_model_options(CLI::App& command, ModelCheck& check) {
    command.option_defaults()->group("A model");
    CLI::Option* model =
        command
            .add_option("model", check.model,
                        "GGUF file of the llama family: compare its nodes on two devices")
            ->type_name("FILE");
    for (const char* other : {"--golden", "--cases", "--seed", "--device", "--threads", "--isa",
                              "--op", "--no-fusion"}) {
        model->excludes(command.get_option(other));
    }
    add_shared(command, shared::kOn, check.on)->default_str("the first other one")->needs(model);
    add_shared(command, shared::kAgainst, check.against)->capture_default_str()->needs(model);
    add_shared(command, shared::kPrompt, check.prompts, "; with --tokens there may be several")
        ->default_str(check.prompts.front())
        ->needs(model);
    command.add_option("--tolerance", check.tolerance, "Largest error of a node (NMSE)")
        ->capture_default_str()
        ->check(real_number(0))
        ->needs(model);
    command.add_option("--worst", check.shown, "Nodes to show")
        ->capture_default_str()
        ->check(whole_number(0, 1000000))
        ->needs(model);
    command.add_flag("--drift", check.drift, "Let errors add up from node to node")->needs(model);
    add_shared(command, shared::kTokens, check.tokens, ", and to compare instead of nodes")
        ->check(whole_number(1, 100000))
        ->needs(model);
    add_shared(command, shared::kBatch, check.batch, ", with --tokens")
        ->capture_default_str()
        ->check(whole_number(1, 100000))
        ->needs(command.get_option("--tokens"));
}

void add_case_options(CLI::App& command, CaseOptions& cases) {
    command.option_defaults()->group("Cases");
    CLI::Option* recorded =
        command.add_option("--golden", cases.golden_directory, "Directory of recorded cases")
            ->default_str("cases are generated")
            ->type_name("DIR")
            ->check(CLI::ExistingDirectory);
    command
        .add_option("--cases", cases.cases,
                    "Random cases of each kind of each op, besides a plain one")
        ->check(whole_number(1, 10000))
        ->excludes(recorded);
    add_shared(command, shared::kSeed, cases.seed)
        ->capture_default_str()
        ->check(whole_number())
        ->excludes(recorded);
    add_shared(command, shared::kThreads, cases.threads, kSeveralThreads)
        ->default_str("1")
        ->delimiter(',')
        ->check(whole_number(1, kMostThreads));
    add_shared(command, shared::kIsa, cases.instruction_set, "; all: one after the other")
        ->capture_default_str();
    command
        .add_option("--op", cases.ops,
                    "Only cases of these ops or graph files, such as ADD,MUL_MAT; fails if one is "
                    "not computed at all")
        ->type_name("OP")
        ->delimiter(',')
        ->allow_extra_args(false);
    add_shared_flag(command, shared::kNoFusion, cases.no_fusion);
}

void add_isolation_options(CLI::App& command, Options& options) {
    command.option_defaults()->group("Processes");
    command
        .add_option("--timeout", options.case_limit,
                    "Seconds that a case may take in a process of its own")
        ->capture_default_str()
        ->check(real_number(0.1, 1e6));
    CLI::Option* isolate =
        command.add_flag("--isolate", options.isolate,
                         "Every device in a process of its own, not only those of plug-ins that "
                         "are not Heddle's");
    command
        .add_flag("--no-isolate", options.no_isolate, "All devices in this process, to debug one")
        ->excludes(isolate);
    options.worker.add_options(command);
}

/// All devices that lists name; a file of a plug-in stands for its devices.
Result<std::vector<std::string>> named_devices(const std::vector<std::string>& lists) {
    std::vector<std::string> devices;
    for (const std::string& list : lists) {
        const auto names = device_names(list);
        if (names.empty()) return invalid("--device '", list, "': names no device");
        for (const std::string& name : names) {
            if (!is_plugin_file(name)) {
                devices.push_back(name);
                continue;
            }
            HEDDLE_TRY_ASSIGN(const auto all, plugin_devices(name));
            devices.insert(devices.end(), all.begin(), all.end());
        }
    }
    if (devices.empty()) devices.emplace_back("CPU");
    return devices;
}

Result<bool> run(Options& options) {
    const bool is_worker = !options.worker.device.empty();
    if (is_worker) become_child();
    ggml_backend_load_all();
    options.model.json = options.json;
    HEDDLE_TRY_ASSIGN(options.devices, named_devices(options.devices));
    if (options.model.model.empty()) {
        if (is_worker) serve_cases(options.cases, options.worker);
        return verify(options);
    }
    if (options.model.on.empty()) {
        HEDDLE_TRY_ASSIGN(options.model.on, other_device(options.model.against));
    }
    if (is_worker) serve_model(options.model);
    return verify_a_model(options);
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("verify", "Compare what devices compute with known results");
    add_case_options(*command, options->cases);
    add_shared(*command, shared::kDevice, options->devices, "; or files of plug-ins")
        ->default_str("CPU");
    add_isolation_options(*command, *options);
    command->option_defaults()->group("Output");
    add_shared_flag(*command, shared::kVerbose, options->verbose,
                    ": reasons for declining, and all that failed processes printed");
    add_shared_flag(*command, shared::kJson, options->json);
    add_model_options(*command, options->model);
    command->callback([options, &status] {
        const auto passed = run(*options);
        if (!passed) tell_failure("verify", passed.error().message);
        status = passed && *passed ? kSuccess : kFailure;
    });
}

}  // namespace heddle::tool
