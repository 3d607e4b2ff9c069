#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "generated.hpp"
#include "golden_runner.hpp"
#include "ops/catalogue.hpp"
#include "verify_model.hpp"

namespace heddle::tool {
namespace {

struct Options {
    std::string golden_directory;  ///< empty: cases are generated
    std::uint64_t seed = 1;
    int cases = 4;
    std::vector<std::string> devices;
    std::vector<int> threads{1};
    std::string instruction_set = "best";
    std::vector<std::string> ops;
    bool json = false, no_fusion = false;
};

/// How the cases of one op went on one device, over all thread counts and instruction sets.
struct Tally {
    std::size_t passed = 0, failed = 0, declined = 0;
    double worst_share = 0;  ///< the largest error, as a share of its limit
    double worst_error = 0, worst_limit = 0;
    std::vector<std::string> failures;

    void add(const Outcome& outcome, const std::string& where) {
        switch (outcome.kind) {
            case Outcome::Kind::passed:
                ++passed;
                break;
            case Outcome::Kind::failed:
                ++failed;
                break;
            case Outcome::Kind::declined:
                ++declined;
                break;
        }
        if (outcome.kind == Outcome::Kind::failed) failures.push_back(where + ": " + outcome.what);
        const double share = outcome.limit > 0 ? outcome.error / outcome.limit : outcome.error;
        if (share >= worst_share) {
            worst_share = share, worst_error = outcome.error, worst_limit = outcome.limit;
        }
    }
};

constexpr std::size_t kRoughGroupCount = 100;  // ops; only the progress bar needs to know

using Tallies = std::map<std::string, Tally>;  // by op or graph file

/// One way of running all cases: on a device, with a number of threads, in an instruction set.
struct Setting {
    const Target* target;
    int threads;
    std::string instruction_set;  ///< empty: there is no choice

    std::string describe() const {
        std::string text = target->name();
        if (threads > 0) text += fmt::format(", {} threads", threads);
        if (!instruction_set.empty()) text += ", " + instruction_set;
        return text;
    }
};

Result<std::vector<Setting>> settings_of(const Target& target, const Options& options) {
    std::vector<std::string> sets = target.instruction_sets();
    if (!sets.empty() && options.instruction_set == "best") sets.resize(1);
    if (!sets.empty() && options.instruction_set != "all" && options.instruction_set != "best") {
        sets = {options.instruction_set};
    }
    if (sets.empty()) sets = {""};
    std::vector<Setting> settings;
    for (const std::string& set : sets) {
        for (const int threads : options.threads) {
            const bool has_threads = target.set_threads(threads);
            settings.push_back({&target, has_threads ? threads : 0, set});
            if (!has_threads) break;
        }
    }
    return settings;
}

Result<> apply(const Setting& setting) {
    if (setting.threads > 0) setting.target->set_threads(setting.threads);
    if (setting.instruction_set.empty()) return ok();
    return setting.target->use_instruction_set(setting.instruction_set);
}

bool is_same(const std::string& a, const std::string& b) {
    const auto upper = [](unsigned char c) { return std::toupper(c); };
    return std::ranges::equal(a, b, {}, upper, upper);
}

bool is_wanted(const Options& options, const std::string& op) {
    return options.ops.empty() || std::ranges::any_of(options.ops, [&](const std::string& wanted) {
               return is_same(wanted, op);
           });
}

/// Fails if an op is wanted that is none of `known`: nothing would be checked, and nothing fail.
Result<> check_wanted(const Options& options, const std::vector<std::string>& known) {
    for (const std::string& wanted : options.ops) {
        const auto is_it = [&](const std::string& name) { return is_same(wanted, name); };
        if (std::ranges::none_of(known, is_it)) {
            return failure(Errc::not_found, "there are no cases of '", wanted, "'");
        }
    }
    return ok();
}

/// A golden case that the CPU declines has failed: the CPU does everything.
Outcome strict(Outcome outcome, const Target& target) {
    if (outcome.kind == Outcome::Kind::declined && target.is_cpu()) {
        outcome.kind = Outcome::Kind::failed;
        outcome.what = "declined: " + outcome.what;
    }
    return outcome;
}

/// Cases that belong together: a file of recorded ones, or the generated ones of an op.
struct Group {
    std::string name;
    golden::CaseFile cases;
};

/// The groups one after the other, each read when its turn comes; `visit` may fail.
Result<> for_each_recorded(const Options& options, const std::function<Result<>(Group)>& visit) {
    HEDDLE_TRY_ASSIGN(const auto files, golden::list_case_files(options.golden_directory));
    if (files.empty()) return failure(Errc::not_found, "no cases in ", options.golden_directory);
    std::vector<std::string> stems;
    stems.reserve(files.size());
    for (const std::string& file : files) {
        stems.push_back(std::filesystem::path(file).stem().string());
    }
    HEDDLE_TRY(check_wanted(options, stems));
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (!is_wanted(options, stems[i])) continue;
        auto cases = golden::read_case_file(files[i]);
        if (!cases) return std::move(cases).error().within(files[i]);
        HEDDLE_TRY(visit({stems[i], *std::move(cases)}));
    }
    return ok();
}

Result<> for_each_generated(const Options& options, const std::function<Result<>(Group)>& visit) {
    std::vector<std::string> names;
    for (const Op op : generated_ops()) names.emplace_back(find_op(op)->name);
    HEDDLE_TRY(check_wanted(options, names));
    for (const std::string& name : names) {
        if (!is_wanted(options, name)) continue;
        HEDDLE_TRY_ASSIGN(auto cases, generate_cases(options.seed, options.cases, {&name, 1}));
        HEDDLE_TRY(visit({name, {std::move(cases), {}}}));
    }
    return ok();
}

Result<Tallies> run_all(const Options& options, const Target& target) {
    HEDDLE_TRY_ASSIGN(const auto settings, settings_of(target, options));
    Tallies tallies;
    Progress progress("verify " + target.name(), kRoughGroupCount * settings.size());
    const auto run_group = [&](const Group& group) -> Result<> {
        for (const Setting& setting : settings) {
            progress.step(group.name);
            HEDDLE_TRY(apply(setting));
            const auto run_each = [&](const auto& list, const char* how = "") {
                for (const auto& golden : list) {
                    tallies[group.name].add(strict(run_case(golden, target), target),
                                            golden.name + " on " + setting.describe() + how);
                }
            };
            run_each(group.cases.ops);
            // Graphs are small: nodes are computed together where they can be, then each by itself.
            const bool has_choice = target.set_fusion(HEDDLE_CPU_FUSION_ALWAYS);
            if (!has_choice || !options.no_fusion) run_each(group.cases.graphs);
            if (!target.set_fusion(HEDDLE_CPU_FUSION_OFF)) continue;
            run_each(group.cases.graphs, ", without fusion");
            target.set_fusion(HEDDLE_CPU_FUSION_ON);
        }
        return ok();
    };
    HEDDLE_TRY(options.golden_directory.empty() ? for_each_generated(options, run_group)
                                                : for_each_recorded(options, run_group));
    return tallies;
}

void print_table(const Target& target, const Tallies& tallies) {
    Table table({target.name(), "passed", "failed", "declined", "error", "limit"});
    for (const auto& [name, tally] : tallies) {
        table.add({name, std::to_string(tally.passed), std::to_string(tally.failed),
                   std::to_string(tally.declined), fmt::format("{:.1e}", tally.worst_error),
                   fmt::format("{:.1e}", tally.worst_limit)},
                  tally.failed > 0 ? Colour::red : Colour::plain);
    }
    table.print();
    constexpr std::size_t kShown = 5;
    for (const auto& [name, tally] : tallies) {
        for (std::size_t i = 0; i < std::min(kShown, tally.failures.size()); ++i) {
            fmt::print("{}\n", coloured(tally.failures[i], Colour::red));
        }
        if (tally.failures.size() > kShown) {
            fmt::print("{}: and {} more\n", name, tally.failures.size() - kShown);
        }
    }
    fmt::print("\n");
}

nlohmann::json tallies_json(const Tallies& tallies) {
    nlohmann::json all = nlohmann::json::object();
    for (const auto& [name, tally] : tallies) {
        all[name] = {{"passed", tally.passed},           {"failed", tally.failed},
                     {"declined", tally.declined},       {"worst_error", tally.worst_error},
                     {"worst_limit", tally.worst_limit}, {"failures", tally.failures}};
    }
    return all;
}

/// Runs the command; gives the number of failures.
Result<std::size_t> verify(const Options& options) {
    std::size_t passed = 0, failed = 0;
    nlohmann::json report = nlohmann::json::object();
    for (const std::string& name : options.devices) {
        HEDDLE_TRY_ASSIGN(const Target target, Target::open(name));
        HEDDLE_TRY_ASSIGN(const Tallies tallies, run_all(options, target));
        for (const auto& [op, tally] : tallies) {
            passed += tally.passed;
            failed += tally.failed;
        }
        if (options.json) {
            report[target.name()] = tallies_json(tallies);
        } else {
            print_table(target, tallies);
        }
    }
    if (options.json) {
        fmt::print(
            "{}\n",
            nlohmann::json{{"devices", report}, {"passed", passed}, {"failed", failed}}.dump(2));
    } else {
        fmt::print("{} passed, {} failed\n", passed, failed);
    }
    return failed;
}

/// A model may be given instead of cases.
void add_model_options(CLI::App& command, ModelCheck& check) {
    CLI::Option* model =
        command
            .add_option("model", check.model,
                        "GGUF file of the llama family: compare its nodes on two devices")
            ->type_name("FILE");
    for (const char* other : {"--golden", "--cases", "--seed", "--device", "--threads", "--isa",
                              "--op", "--no-fusion"}) {
        model->excludes(command.get_option(other));
    }
    CLI::Option* on =
        command.add_option("--on", check.on, "Device to check with the model")->type_name("DEVICE");
    on->needs(model);
    model->needs(on);
    command.add_option("--against", check.against, "Device that is trusted")
        ->type_name("DEVICE")
        ->capture_default_str()
        ->needs(model);
    command.add_option("-p,--prompt", check.prompt, "Text whose graph is run")
        ->capture_default_str()
        ->needs(model);
    command.add_option("--tolerance", check.tolerance, "Largest error of a node (NMSE)")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber)
        ->needs(model);
    command.add_option("--worst", check.shown, "Nodes to show")
        ->capture_default_str()
        ->needs(model);
    command.add_flag("--drift", check.drift, "Let errors add up from node to node")->needs(model);
}

int run_model_check(const ModelCheck& check) {
    const auto passed = verify_model(check);
    if (!passed) fmt::print(stderr, "heddle verify: {}\n", passed.error().message);
    return passed && *passed ? kSuccess : kFailure;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("verify", "Compares what devices compute with known results");
    CLI::Option* recorded =
        command
            ->add_option("--golden", options->golden_directory,
                         "Directory of recorded cases (default: cases are generated)")
            ->type_name("DIR")
            ->check(CLI::ExistingDirectory);
    command->add_option("--cases", options->cases, "Generated cases of each kind of each op")
        ->check(CLI::Range(1, 10000))
        ->excludes(recorded);
    command->add_option("--seed", options->seed, "What generated cases are made from")
        ->excludes(recorded);
    command
        ->add_option("--device", options->devices,
                     "Device to check; may be given again (default: CPU)")
        ->type_name("DEVICE");
    command->add_option("--threads", options->threads, "Numbers of threads to try, such as 1,2,5")
        ->delimiter(',')
        ->check(CLI::Range(1, GGML_MAX_N_THREADS));
    command->add_option("--isa", options->instruction_set,
                        "Instruction sets of the CPU to try: best, all, or a name");
    command
        ->add_option("--op", options->ops,
                     "Only cases of these ops or graph files, such as ADD,MUL_MAT")
        ->delimiter(',')
        ->allow_extra_args(false);
    command->add_flag("--no-fusion", options->no_fusion,
                      "Graphs only node by node, not also with nodes computed together");
    command->add_flag("--json", options->json, "Result as JSON");
    auto check = std::make_shared<ModelCheck>();
    add_model_options(*command, *check);
    command->callback([options, check, &status] {
        ggml_backend_load_all();
        if (!check->model.empty()) {
            check->json = options->json;
            status = run_model_check(*check);
            return;
        }
        if (options->devices.empty()) options->devices = {"CPU"};
        auto failures = verify(*options);
        if (!failures) fmt::print(stderr, "heddle verify: {}\n", failures.error().message);
        status = failures && *failures == 0 ? kSuccess : kFailure;
    });
}

}  // namespace heddle::tool
