#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_runner.hpp"

namespace heddle::tool {

/// The end of a process that was computing a case.
struct Death {
    std::string run;                 ///< "SQR generated 3 on CUDA0"
    std::string how;                 ///< "SIGABRT", "exit status 3", "no answer within 60 s"
    std::vector<std::string> words;  ///< what it wrote last, oldest first

    std::string last_word() const { return words.empty() ? "" : words.back(); }
};

/// How the cases of one op went on one device, over all thread counts and instruction sets.
struct Tally {
    std::size_t passed = 0, failed = 0, declined = 0;
    std::size_t computed = 0;  ///< runs that gave numbers, right or wrong
    std::size_t left_out = 0;  ///< not tried after others had ended the process
    double worst_share = 0;    ///< the largest error, as a share of its limit
    double worst_error = 0, worst_limit = 0;
    std::vector<std::string> failures;
    std::vector<Death> deaths;
    std::map<std::string, std::size_t> reasons;  ///< for declining, with their counts
    bool is_named = false;                       ///< asked for with --op

    void add(const Outcome& outcome, const std::string& run);

    bool is_nothing_computed() const { return computed == 0; }
    bool is_declined_as_a_whole() const {
        return declined > 0 && passed + failed + deaths.size() + left_out == 0;
    }
    bool has_failed() const {
        return failed > 0 || !deaths.empty() || (is_named && is_nothing_computed());
    }
};

/// What was found out about a device.
struct DeviceReport {
    std::string device;
    std::map<std::string, Tally> tallies;  ///< by op or file
    std::string trouble{};                 ///< a failure that belongs to no case
    bool is_isolated = false;              ///< it computed in a process of its own

    bool has_failed() const;
};

void print_report(const DeviceReport& report, bool verbose);
nlohmann::json report_json(const DeviceReport& report);

/// What all devices come to: in one line, and as members of the object `all`.
void print_summary(const std::vector<DeviceReport>& reports);
void add_summary(const std::vector<DeviceReport>& reports, nlohmann::json& all);

}  // namespace heddle::tool
