#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "child.hpp"
#include "verify_cases.hpp"
#include "verify_model.hpp"
#include "verify_report.hpp"

/// Devices that may crash or hang compute in a child process, the worker: this program with the
/// same command line and a few hidden options. It runs all cases one after the other and reports
/// each before and after. When it dies, another one begins behind the case that was fatal.
namespace heddle::tool {

constexpr double kCaseLimit = 60;  ///< seconds for a case, if nothing else is asked for

/// What a worker is to do, beside what its command line says. Hidden options hold it.
struct WorkerJob {
    std::string device{};  ///< empty: this process is no worker
    Position first{};

    std::vector<std::string> words() const;
    void add_options(CLI::App& command);
};

/// Is called for every group of cases.
using OnGroup = std::function<void(const std::string& name)>;

/// Runs all cases on the device, as the user has named it, in workers.
Result<DeviceReport> verify_in_worker(const CaseOptions& options, const std::string& device,
                                      Child::Seconds limit, const OnGroup& on_group);

/// Compares a model on two devices in a worker, which prints the result. Fails if the worker dies.
Result<bool> verify_model_in_worker(const ModelCheck& check, Child::Seconds limit);

/// The side of the worker. Does not return: what plug-ins do at the end of a program is not asked.
[[noreturn]] void serve_cases(const CaseOptions& options, const WorkerJob& job);
[[noreturn]] void serve_model(ModelCheck check);

}  // namespace heddle::tool
