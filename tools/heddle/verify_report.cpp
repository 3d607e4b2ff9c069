#include "verify_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "console.hpp"

namespace heddle::tool {
namespace {

constexpr std::size_t kShownFailures = 5;  // of an op
constexpr std::size_t kShownReasons = 5;   // of an op
constexpr std::size_t kShownNames = 12;
constexpr std::size_t kShownWords = 5;  // lines, of a process that died

constexpr const char* kNoReason = "the device does not say why";

struct Totals {
    std::size_t passed = 0, failed = 0, died = 0, left_out = 0, not_computed = 0, troubles = 0;
};

Totals totals_of(const std::vector<DeviceReport>& reports) {
    Totals totals;
    for (const DeviceReport& report : reports) {
        totals.troubles += report.trouble.empty() ? 0 : 1;
        for (const auto& [name, tally] : report.tallies) {
            totals.passed += tally.passed;
            totals.failed += tally.failed;
            totals.died += tally.deaths.size();
            totals.left_out += tally.left_out;
            totals.not_computed += tally.is_nothing_computed() ? 1 : 0;
        }
    }
    return totals;
}

std::string ops_text(std::size_t count) {
    return fmt::format("{} op{}", count, count == 1 ? "" : "s");
}

/// Ops that are told of in one line.
bool is_folded(const Tally& tally) { return tally.is_declined_as_a_whole() && !tally.is_named; }

void print_counts(const DeviceReport& report) {
    const bool has_deaths = std::ranges::any_of(
        report.tallies, [](const auto& entry) { return !entry.second.deaths.empty(); });
    std::vector<std::string> header{report.device, "passed", "failed", "declined"};
    if (has_deaths) header.insert(header.end(), {"died", "left out"});
    header.insert(header.end(), {"error", "limit", ""});
    const std::size_t remark = header.size() - 1;
    Table table(std::move(header));
    table.align_left(remark);
    for (const auto& [name, tally] : report.tallies) {
        if (is_folded(tally)) continue;
        std::vector<std::string> row{name, std::to_string(tally.passed),
                                     std::to_string(tally.failed), std::to_string(tally.declined)};
        if (has_deaths) {
            row.push_back(std::to_string(tally.deaths.size()));
            row.push_back(std::to_string(tally.left_out));
        }
        row.push_back(fmt::format("{:.1e}", tally.worst_error));
        row.push_back(fmt::format("{:.1e}", tally.worst_limit));
        row.emplace_back(tally.is_nothing_computed() ? "nothing computed" : "");
        const bool is_marked = tally.is_nothing_computed();
        table.add(std::move(row), tally.has_failed() ? Colour::red
                                  : is_marked        ? Colour::yellow
                                                     : Colour::plain);
    }
    table.print();
}

void print_folded(const DeviceReport& report, bool verbose) {
    const std::size_t most = verbose ? report.tallies.size() : kShownNames;
    std::string names;
    std::size_t count = 0;
    for (const auto& [name, tally] : report.tallies) {
        if (!is_folded(tally)) continue;
        if (count < most) names += (count == 0 ? "" : ", ") + name;
        ++count;
    }
    if (count == 0) return;
    if (count > most) names += fmt::format(" and {} more", count - most);
    print("{} declined as a whole: {}\n", ops_text(count), names);
}

void print_failures(const DeviceReport& report) {
    for (const auto& [name, tally] : report.tallies) {
        for (std::size_t i = 0; i < std::min(kShownFailures, tally.failures.size()); ++i) {
            print("{}\n", coloured(tally.failures[i], Colour::red));
        }
        if (tally.failures.size() > kShownFailures) {
            print("{}: and {} more\n", name, tally.failures.size() - kShownFailures);
        }
    }
}

void print_deaths(const DeviceReport& report, bool verbose) {
    Table table({"op", "case", "ended with", "last output"});
    for (const std::size_t column : {1, 2, 3}) table.align_left(column);
    bool is_empty = true;
    for (const auto& [name, tally] : report.tallies) {
        for (const Death& death : tally.deaths) {
            is_empty = false;
            const std::size_t shown = std::min(verbose ? kShownWords : 1, death.words.size());
            const std::span words = std::span(death.words).last(shown);
            table.add({name, death.run, death.how, words.empty() ? "" : words[0]}, Colour::red);
            for (std::size_t i = 1; i < shown; ++i) table.add({"", "", "", words[i]}, Colour::red);
        }
    }
    if (is_empty) return;
    print("\n");
    table.print();
}

/// The reasons of an op, most frequent first.
std::vector<std::pair<std::string, std::size_t>> sorted_reasons(const Tally& tally) {
    std::vector<std::pair<std::string, std::size_t>> sorted(tally.reasons.begin(),
                                                            tally.reasons.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(),
                             [](const auto& r) { return r.second; });
    return sorted;
}

/// Ops declined as a whole for one and the same reason share a row.
void print_reasons(const DeviceReport& report) {
    struct Shared {
        std::size_t ops = 0, cases = 0;
    };
    std::map<std::string, Shared> shared;
    Table table({"op", "declined", "because"});
    table.align_left(2);
    bool is_empty = true;
    for (const auto& [name, tally] : report.tallies) {
        if (is_folded(tally) && tally.reasons.size() == 1) {
            Shared& row = shared[tally.reasons.begin()->first];
            ++row.ops, row.cases += tally.declined;
            continue;
        }
        std::size_t shown = 0, others = 0;
        for (const auto& [reason, count] : sorted_reasons(tally)) {
            is_empty = false;
            if (shown < kShownReasons) {
                table.add({shown == 0 ? name : "", std::to_string(count), reason});
                ++shown;
            } else {
                others += count;
            }
        }
        if (others > 0) table.add({"", std::to_string(others), "for other reasons"});
    }
    for (const auto& [reason, row] : shared) {
        table.add({ops_text(row.ops), std::to_string(row.cases), reason});
    }
    if (is_empty && shared.empty()) return;
    print("\n");
    table.print();
}

nlohmann::json tally_json(const Tally& tally) {
    auto deaths = nlohmann::json::array();
    for (const Death& death : tally.deaths) {
        deaths.push_back({{"case", death.run}, {"ended_with", death.how}, {"words", death.words}});
    }
    return {{"passed", tally.passed},
            {"failed", tally.failed},
            {"declined", tally.declined},
            {"left_out", tally.left_out},
            {"worst_error", tally.worst_error},
            {"worst_limit", tally.worst_limit},
            {"nothing_computed", tally.is_nothing_computed()},
            {"failures", tally.failures},
            {"deaths", std::move(deaths)},
            {"declined_because", tally.reasons}};
}

}  // namespace

void Tally::add(const Outcome& outcome, const std::string& run) {
    switch (outcome.kind) {
        case Outcome::Kind::passed:
            ++passed;
            break;
        case Outcome::Kind::failed:
            ++failed;
            failures.push_back(run + ": " + outcome.what);
            break;
        case Outcome::Kind::declined:
            ++declined;
            ++reasons[outcome.what.empty() ? kNoReason : outcome.what];
            break;
    }
    if (!outcome.is_computed) return;
    ++computed;
    const double share = outcome.limit > 0 ? outcome.error / outcome.limit : outcome.error;
    if (share >= worst_share) {
        worst_share = share, worst_error = outcome.error, worst_limit = outcome.limit;
    }
}

bool DeviceReport::has_failed() const {
    return !trouble.empty() || std::ranges::any_of(tallies, [](const auto& entry) {
        return entry.second.has_failed();
    });
}

void print_report(const DeviceReport& report, bool verbose) {
    const bool has_rows = std::ranges::any_of(
        report.tallies, [](const auto& entry) { return !is_folded(entry.second); });
    if (has_rows) {
        print_counts(report);
    } else {
        print("{}\n", report.device);
    }
    print_folded(report, verbose);
    print_failures(report);
    print_deaths(report, verbose);
    if (!report.trouble.empty()) {
        print("{}\n", coloured(report.device + ": " + report.trouble, Colour::red));
    }
    if (verbose) print_reasons(report);
    print("\n");
}

nlohmann::json report_json(const DeviceReport& report) {
    nlohmann::json all = nlohmann::json::object();
    for (const auto& [name, tally] : report.tallies) all[name] = tally_json(tally);
    return all;
}

void print_summary(const std::vector<DeviceReport>& reports) {
    const Totals totals = totals_of(reports);
    std::string line = fmt::format("{} passed, {} failed", totals.passed, totals.failed);
    if (totals.died > 0) line += fmt::format(", {} died", totals.died);
    if (totals.left_out > 0) line += fmt::format(", {} left out", totals.left_out);
    if (totals.not_computed > 0)
        line += fmt::format("; nothing computed of {}", ops_text(totals.not_computed));
    if (totals.troubles > 0) line += fmt::format("; devices in trouble: {}", totals.troubles);
    print("{}\n", line);
}

void add_summary(const std::vector<DeviceReport>& reports, nlohmann::json& all) {
    const Totals totals = totals_of(reports);
    all["passed"] = totals.passed;
    all["failed"] = totals.failed;
    all["died"] = totals.died;
    all["left_out"] = totals.left_out;
    all["nothing_computed"] = totals.not_computed;
    all["troubles"] = nlohmann::json::object();
    all["isolated"] = nlohmann::json::array();
    for (const DeviceReport& report : reports) {
        if (report.is_isolated) all["isolated"].push_back(report.device);
        if (!report.trouble.empty()) all["troubles"][report.device] = report.trouble;
    }
}

}  // namespace heddle::tool
