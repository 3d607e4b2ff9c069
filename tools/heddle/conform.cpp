#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "child.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "heddle/heddle.hpp"
#include "json_text.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "target.hpp"

/// `heddle conform`: whether devices keep the rules that graphs, buffers and streams live by. The
/// rules are a program of their own (tests/conformance), which may die of what it is told to check.
namespace heddle::tool {
namespace {

constexpr Child::Seconds kRuleLimit{60};
constexpr std::size_t kMostDeaths = 5;  // of a device; each costs a start, or the time of a hang

enum class Fate { kept, broken, died, not_applicable };

/// A rule, and what became of it on a device.
struct Verdict {
    std::string device, rule;
    Fate fate = Fate::kept;
    std::string why;
};

struct ConformOptions {
    std::vector<std::string> devices;
    std::string rule;
    bool json = false, verbose = false;
};

const char* fate_text(Fate fate) {
    switch (fate) {
        case Fate::kept:
            return "kept";
        case Fate::broken:
            return "broken";
        case Fate::died:
            return "died";
        case Fate::not_applicable:
            return "not applicable";
    }
    return "";
}

/// "Every/Buffer.ClearFillsEveryByte/SIM0" is about SIM0: "buffer: clear fills every byte".
/// What is no such name (a plug-in may write where the child reports) is left as it is.
Verdict verdict_on(const std::string& test) {
    const std::size_t group = test.find('/') + 1, dot = test.find('.'), end = test.rfind('/');
    if (end == std::string::npos || dot > end) return {"?", test, Fate::kept, {}};
    Verdict verdict{test.substr(end + 1), {}, Fate::kept, {}};
    for (std::size_t i = group; i < end; ++i) {
        const auto c = static_cast<unsigned char>(test[i]);
        const bool begins_word = std::isupper(c) != 0 && i > group && i != dot + 1;
        if (i == dot) verdict.rule += ": ";
        if (i == dot) continue;
        if (begins_word) verdict.rule += ' ';
        verdict.rule += static_cast<char>(std::tolower(c));
    }
    return verdict;
}

/// A device that is not there is better told before the rules are looked for.
Result<> check_devices(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        if (is_plugin_file(name)) {
            HEDDLE_TRY(plugin_devices(name));
        } else {
            HEDDLE_TRY(Device::find(name));
        }
    }
    return ok();
}

/// Other characters would steer the pattern by which tests are chosen.
Result<> check_rule(const std::string& rule) {
    const auto is_part_of_name = [](unsigned char c) { return std::isalnum(c) != 0; };
    if (std::ranges::all_of(rule, is_part_of_name)) return ok();
    return invalid("--rule '", rule, "' is not a part of a rule's name, such as Event");
}

Result<std::string> find_program() {
    namespace fs = std::filesystem;
    std::error_code problem;
    const fs::path here = fs::read_symlink("/proc/self/exe", problem).parent_path();
    const fs::path installed = here / ".." / HEDDLE_LIBEXEC / "conformance_test";
    for (const fs::path& place : {installed, here / "../tests/conformance_test"}) {
        if (fs::is_regular_file(place, problem)) return fs::canonical(place, problem).string();
    }
    return failure(Errc::not_found,
                   "the rules are not there: ", installed.lexically_normal().string(),
                   " is missing. It is built with the tests (HEDDLE_TESTS=ON, make build)");
}

/// What was said last, without the addresses of a backtrace; empty if nothing was.
std::string last_sentence(std::vector<std::string> words) {
    std::erase_if(words, [](const std::string& line) { return line.ends_with(']'); });
    return words.empty() ? "" : words.back();
}

/// Runs the rules, in a new child where one has died.
class RuleRun {
public:
    RuleRun(std::string program, const std::string& rule)
        : program_(std::move(program)), wanted_("*" + rule + "*") {}

    /// All rules; of a device that dies often, those up to then.
    Result<std::vector<Verdict>> finish() {
        while (!is_done_) HEDDLE_TRY(run_child());
        return std::move(verdicts_);
    }

private:
    Result<> run_child() {
        HEDDLE_TRY_ASSIGN(Child child,
                          Child::start_program({program_, "--gtest_brief=1", "--gtest_color=no",
                                                "--gtest_filter=" + wanted_ + "-" + done_},
                                               Child::Output::kept));
        std::string under_way;
        while (const auto line = child.next_line(kRuleLimit)) {
            const std::size_t tab = line->find('\t'), second = line->find('\t', tab + 1);
            if (tab == std::string::npos || second == std::string::npos) continue;
            const std::string what = line->substr(0, tab);
            const std::string subject = line->substr(tab + 1, second - tab - 1);
            if (what == "begin") under_way = subject;
            if (what == "begin") continue;
            under_way.clear();
            if (what == "rules") {
                begin_bar(subject);
            } else if (what == "end") {
                is_done_ = true;
            } else {
                add(subject, what, line->substr(second + 1));
            }
        }
        if (is_done_) return ok();
        const bool was_late = child.is_late();
        std::string how = child.end();
        if (was_late) how = fmt::format("no answer within {} s", kRuleLimit.count());
        const std::string said = last_sentence(child.last_words());
        if (!said.empty()) how += ": " + said;
        if (under_way.empty()) return failure(Errc::device, program_, " ended with ", how);
        add(under_way, "died", how);
        const std::string& device = verdicts_.back().device;
        if (++deaths_[device] == kMostDeaths) done_ += ":*/" + device;
        return ok();
    }

    void begin_bar(const std::string& count) {
        std::size_t total = 0;
        std::from_chars(count.data(), count.data() + count.size(), total);
        if (!bar_) bar_.emplace("checking", total);
    }

    void add(const std::string& test, const std::string& what, const std::string& why) {
        static const std::map<std::string, Fate> kFates{{"kept", Fate::kept},
                                                        {"broken", Fate::broken},
                                                        {"died", Fate::died},
                                                        {"none", Fate::not_applicable}};
        const auto fate = kFates.find(what);
        if (fate == kFates.end()) return;
        Verdict verdict = verdict_on(test);
        verdict.fate = fate->second;
        verdict.why = why;
        if (bar_) bar_->step(verdict.rule);
        verdicts_.push_back(std::move(verdict));
        done_ += (done_.empty() ? "" : ":") + test;
    }

    const std::string program_, wanted_;
    std::string done_;  ///< patterns of tests that are not to be run, with colons between them
    std::map<std::string, std::size_t> deaths_;  ///< by device
    std::vector<Verdict> verdicts_;
    std::optional<Progress> bar_;
    bool is_done_ = false;
};

using Counts = std::map<Fate, std::size_t>;

std::map<std::string, Counts> count(const std::vector<Verdict>& verdicts) {
    std::map<std::string, Counts> counts;
    for (const Verdict& verdict : verdicts) ++counts[verdict.device][verdict.fate];
    return counts;
}

nlohmann::json to_json(const std::vector<Verdict>& verdicts) {
    nlohmann::json all{{"devices", nlohmann::json::object()}};
    for (auto& [device, counts] : count(verdicts)) {
        nlohmann::json& entry = all["devices"][device];
        entry = {{"kept", counts[Fate::kept]},
                 {"broken", counts[Fate::broken]},
                 {"died", counts[Fate::died]},
                 {"not_applicable", counts[Fate::not_applicable]},
                 {"rules", nlohmann::json::array()}};
    }
    for (const Verdict& verdict : verdicts) {
        nlohmann::json rule{{"rule", verdict.rule}, {"outcome", fate_text(verdict.fate)}};
        if (!verdict.why.empty()) rule["why"] = verdict.why;
        all["devices"][verdict.device]["rules"].push_back(std::move(rule));
    }
    return all;
}

void print_verdicts(const std::vector<Verdict>& verdicts, bool all) {
    Table table({"device", "rule", "outcome", "why"});
    for (const std::size_t column : {1, 2, 3}) table.align_left(column);
    bool any = false;
    for (const Verdict& verdict : verdicts) {
        const bool is_bad = verdict.fate == Fate::broken || verdict.fate == Fate::died;
        if (!all && !is_bad) continue;
        any = true;
        table.add({verdict.device, verdict.rule, fate_text(verdict.fate), verdict.why},
                  is_bad ? Colour::red : Colour::plain);
    }
    if (!any) return;
    table.print();
    print("\n");
}

void print_text(const std::vector<Verdict>& verdicts, bool all) {
    print_verdicts(verdicts, all);
    Table table({"device", "kept", "broken", "died", "not applicable"});
    for (auto& [device, counts] : count(verdicts)) {
        table.add({device, std::to_string(counts[Fate::kept]), std::to_string(counts[Fate::broken]),
                   std::to_string(counts[Fate::died]),
                   std::to_string(counts[Fate::not_applicable])});
    }
    table.print();
}

/// Fails where a rule is broken, or none could be checked.
Result<> check_verdicts(const std::vector<Verdict>& verdicts) {
    const auto has = [&](Fate fate) { return std::ranges::count(verdicts, fate, &Verdict::fate); };
    for (auto& [device, counts] : count(verdicts)) {
        if (counts[Fate::died] < kMostDeaths) continue;
        return failure(Errc::device, device, " was given up after ", kMostDeaths, " deaths");
    }
    const auto bad = has(Fate::broken) + has(Fate::died);
    if (bad > 0) return failure(Errc::device, bad, bad == 1 ? " rule is" : " rules are", " broken");
    return has(Fate::kept) > 0 ? ok() : failure(Errc::not_found, "there was no rule to check");
}

Result<> conform(const ConformOptions& options) {
    HEDDLE_TRY(check_rule(options.rule));
    HEDDLE_TRY(check_devices(options.devices));
    HEDDLE_TRY_ASSIGN(std::string program, find_program());
    std::string names;
    for (const std::string& name : options.devices) names += name + '\n';
    setenv("HEDDLE_CONFORMANCE_ONLY", names.c_str(), 1);
    HEDDLE_TRY_ASSIGN(const auto verdicts, RuleRun(std::move(program), options.rule).finish());
    if (options.json) {
        print("{}\n", json_text(to_json(verdicts)));
    } else if (!verdicts.empty()) {
        print_text(verdicts, options.verbose);
    }
    return check_verdicts(verdicts);
}

}  // namespace

void add_conform(CLI::App& app, int& status) {
    CLI::App* command =
        app.add_subcommand("conform", "Check that devices keep the rules of a backend");
    auto options = std::make_shared<ConformOptions>();
    command->add_option("device", options->devices, "Devices, or files of plug-ins")
        ->type_name("DEVICE|FILE")
        ->required();
    command->add_option("--rule", options->rule, "Only rules whose names have this, such as Event")
        ->type_name("NAME");
    add_shared_flag(*command, shared::kJson, options->json);
    add_shared_flag(*command, shared::kVerbose, options->verbose,
                    ": rules that are kept, and why others do not apply");
    command->callback(
        [options, &status] { status = report_outcome("conform", conform(*options)); });
}

}  // namespace heddle::tool
