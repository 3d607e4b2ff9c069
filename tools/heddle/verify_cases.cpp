#include "verify_cases.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <optional>
#include <variant>

#include "generated.hpp"
#include "nearest.hpp"
#include "ops/catalogue.hpp"

namespace heddle::tool {
namespace {

/// One way of running all cases: on a device, with a number of threads, in an instruction set.
struct Setting {
    int threads;                  ///< 0: there is no choice
    std::string instruction_set;  ///< empty likewise

    std::string describe(const Target& target) const {
        std::string text = target.name();
        if (threads > 0) text += fmt::format(", {} threads", threads);
        if (!instruction_set.empty()) text += ", " + instruction_set;
        return text;
    }
};

std::vector<Setting> settings_of(const Target& target, const CaseOptions& options) {
    std::vector<std::string> sets = target.instruction_sets();
    if (!sets.empty() && options.instruction_set == "best") sets.resize(1);
    if (!sets.empty() && options.instruction_set != "all" && options.instruction_set != "best") {
        sets = {options.instruction_set};
    }
    if (sets.empty()) sets = {""};
    std::vector<Setting> settings;
    for (const std::string& set : sets) {
        for (const int threads : options.threads) {
            const bool has_threads = target.stream().set_threads(threads);
            settings.push_back({has_threads ? threads : 0, set});
            if (!has_threads) break;
        }
    }
    return settings;
}

Result<> apply(const Setting& setting, const Target& target) {
    if (setting.threads > 0) target.stream().set_threads(setting.threads);
    if (setting.instruction_set.empty()) return ok();
    return target.use_instruction_set(setting.instruction_set);
}

/// A golden case that the CPU declines has failed: the CPU does everything.
Outcome strict(Outcome outcome, const Target& target) {
    if (outcome.kind == Outcome::Kind::declined && target.device().is_cpu()) {
        outcome.kind = Outcome::Kind::failed;
        outcome.what = "declined: " + outcome.what;
    }
    return outcome;
}

// ---- groups ------------------------------------------------------------------------------------

/// A group whose cases are made when its turn comes.
struct Group {
    std::string name;
    std::function<Result<golden::CaseFile>()> cases;
};

Result<std::vector<Group>> recorded_groups(const CaseOptions& options) {
    HEDDLE_TRY_ASSIGN(const auto files, golden::list_case_files(options.golden_directory));
    if (files.empty()) return failure(Errc::not_found, "no cases in ", options.golden_directory);
    std::vector<Group> groups;
    for (const std::string& file : files) {
        const auto read = [file]() -> Result<golden::CaseFile> {
            auto cases = golden::read_case_file(file);
            if (!cases) return std::move(cases).error().within(file);
            return cases;
        };
        groups.push_back({std::filesystem::path(file).stem().string(), read});
    }
    return groups;
}

std::vector<Group> generated_groups(const CaseOptions& options) {
    std::vector<Group> groups;
    for (const Op op : generated_ops()) {
        const std::string name(find_op(op)->name);
        const auto generate = [name, &options]() -> Result<golden::CaseFile> {
            HEDDLE_TRY_ASSIGN(auto cases, generate_cases(options.seed, options.cases, {&name, 1}));
            return golden::CaseFile{std::move(cases), {}};
        };
        groups.push_back({name, generate});
    }
    return groups;
}

bool is_same(const std::string& a, const std::string& b) {
    const auto upper = [](unsigned char c) { return std::toupper(c); };
    return std::ranges::equal(a, b, {}, upper, upper);
}

/// The groups that are wanted. Fails if one is that is not there: nothing would be checked, and
/// nothing fail.
Result<std::vector<Group>> wanted_groups(const CaseOptions& options) {
    std::vector<Group> groups = generated_groups(options);
    if (!options.golden_directory.empty()) {
        HEDDLE_TRY_ASSIGN(groups, recorded_groups(options));
    }
    for (const std::string& wanted : options.ops) {
        const auto is_it = [&](const Group& group) { return is_same(wanted, group.name); };
        if (std::ranges::none_of(groups, is_it)) {
            std::vector<std::string> names;
            for (const Group& group : groups) names.push_back(group.name);
            return failure(Errc::not_found, "there are no cases of '", wanted, "'",
                           did_you_mean(wanted, names));
        }
    }
    if (!options.ops.empty()) {
        std::erase_if(groups, [&](const Group& group) { return !options.names(group.name); });
    }
    return groups;
}

// ---- runs --------------------------------------------------------------------------------------

/// A case in one setting.
struct Run {
    const Setting* setting;
    std::variant<const golden::OpCase*, const golden::GraphCase*> golden;
    std::optional<heddle_cpu_fusion> fusion;
};

/// All runs of a group. Graphs are small: nodes are computed together where they can be, then each
/// by itself.
std::vector<Run> runs_of(const golden::CaseFile& cases, const std::vector<Setting>& settings,
                         const Target& target, const CaseOptions& options) {
    std::vector<std::optional<heddle_cpu_fusion>> ways{std::nullopt};
    if (target.set_fusion(HEDDLE_CPU_FUSION_ON)) {
        ways = {HEDDLE_CPU_FUSION_ALWAYS, HEDDLE_CPU_FUSION_OFF};
        if (options.no_fusion) ways.erase(ways.begin());
    }
    std::vector<Run> runs;
    for (const Setting& setting : settings) {
        for (const auto& golden : cases.ops) runs.push_back({&setting, &golden, {}});
        for (const auto& way : ways) {
            for (const auto& golden : cases.graphs) runs.push_back({&setting, &golden, way});
        }
    }
    return runs;
}

std::string describe(const Run& run, const Target& target) {
    const std::string name =
        std::visit([](const auto* golden) { return golden->name; }, run.golden);
    const bool is_unfused = run.fusion == HEDDLE_CPU_FUSION_OFF;
    return name + " on " + run.setting->describe(target) + (is_unfused ? ", without fusion" : "");
}

Result<> run_group(const std::vector<Run>& runs, std::size_t first, const Target& target,
                   RunObserver& observer) {
    const Setting* current = nullptr;
    for (std::size_t i = first; i < runs.size(); ++i) {
        const Run& run = runs[i];
        observer.begin_run(describe(run, target));
        if (run.setting != current) HEDDLE_TRY(apply(*run.setting, target));
        current = run.setting;
        target.set_fusion(run.fusion.value_or(HEDDLE_CPU_FUSION_ON));
        observer.end_run(std::visit(
            [&](const auto* golden) { return strict(run_case(*golden, target), target); },
            run.golden));
    }
    return ok();
}

}  // namespace

bool CaseOptions::names(const std::string& group) const {
    return std::ranges::any_of(ops, [&](const std::string& op) { return is_same(op, group); });
}

Result<> check_cases(const CaseOptions& options) {
    HEDDLE_TRY(wanted_groups(options));
    return ok();
}

Result<> run_cases(const CaseOptions& options, const Target& target, const Position& first,
                   RunObserver& observer) {
    HEDDLE_TRY_ASSIGN(const auto groups, wanted_groups(options));
    const auto settings = settings_of(target, options);
    auto group = groups.begin();
    if (!first.group.empty()) {
        group = std::ranges::find(groups, first.group, &Group::name);
        if (group == groups.end()) return invalid("there is no group '", first.group, "'");
    }
    std::size_t skipped = first.run;
    if (skipped == Position::kBehindGroup) ++group, skipped = 0;
    for (; group != groups.end(); ++group, skipped = 0) {
        HEDDLE_TRY_ASSIGN(const auto cases, group->cases());
        const auto runs = runs_of(cases, settings, target, options);
        observer.begin_group(group->name, runs.size());
        HEDDLE_TRY(run_group(runs, skipped, target, observer));
    }
    return ok();
}

}  // namespace heddle::tool
