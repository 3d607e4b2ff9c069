#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "commands.hpp"
#include "console.hpp"
#include "device_choice.hpp"
#include "heddle/heddle.h"
#include "heddle/mpi.h"
#include "hosts.hpp"
#include "json_text.hpp"
#include "number_checks.hpp"
#include "outcome.hpp"
#include "shared_options.hpp"
#include "target.hpp"

/// `heddle worker`: serves the devices of this machine to a program on another.
namespace heddle::tool {
namespace {

struct WorkerOptions {
    std::vector<std::string> devices, folders, budgets;
    int threads = 0;
    bool describe = false, keep_binding = false;
};

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// Launchers give a process one core; a worker computes with all it may use.
void undo_binding() {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &all);
    sched_setaffinity(0, sizeof all, &all);  // the system leaves out what is not to be had
}

Result<std::vector<ggml_backend_dev_t>> devices_to_serve(const WorkerOptions& options) {
    std::vector<ggml_backend_dev_t> devices;
    if (options.devices.empty()) {
        for (const Device& device : Device::all()) {
            if (device.type() != GGML_BACKEND_DEVICE_TYPE_ACCEL) devices.push_back(device.c());
        }
        return devices;
    }
    for (const std::string& list : options.devices) {
        for (const std::string& name : device_names(list)) {
            HEDDLE_TRY_ASSIGN(const Device device, Device::find(name));
            devices.push_back(device.c());
        }
    }
    return devices;
}

/// Bytes of each device that a program may take; 0: all.
Result<std::vector<std::size_t>> budgets_of(const WorkerOptions& options,
                                            const std::vector<ggml_backend_dev_t>& devices) {
    std::vector<std::size_t> budgets(devices.size());
    for (const std::string& entry : options.budgets) {
        const std::size_t equals = entry.rfind('=');
        if (equals == std::string::npos) {
            return invalid("--budget ", entry, ": give a device and a size, such as CPU=8G");
        }
        HEDDLE_TRY_ASSIGN(const std::size_t bytes, parse_bytes(entry.substr(equals + 1)));
        const std::string name = entry.substr(0, equals);
        const auto found = std::ranges::find(devices, name, [](ggml_backend_dev_t each) {
            return std::string(ggml_backend_dev_name(each));
        });
        if (found == devices.end()) {
            return invalid("--budget ", entry, ": no such device is served");
        }
        budgets[static_cast<std::size_t>(found - devices.begin())] = bytes;
    }
    return budgets;
}

Result<> serve(const WorkerOptions& options) {
    // A worker has no workers of its own, whatever it inherited.
    setenv("HEDDLE_MPI", "0", 1);
    unsetenv("HEDDLE_MPI_HOSTS");
    if (!options.keep_binding) undo_binding();
    ggml_backend_load_all();
    HEDDLE_TRY_ASSIGN(std::vector<ggml_backend_dev_t> devices, devices_to_serve(options));
    HEDDLE_TRY_ASSIGN(const std::vector<std::size_t> budgets, budgets_of(options, devices));
    std::vector<const char*> folders;
    for (const std::string& folder : options.folders) folders.push_back(folder.c_str());
    if (options.describe) {
        print("{}\n", describe_worker());
        return ok();
    }
    const ggml_backend_reg_t mpi = ggml_backend_reg_by_name("mpi:serve");
    if (mpi == nullptr) return failure(Errc::not_found, heddle_last_error());
    const auto run = reinterpret_cast<heddle_mpi_serve_t>(
        ggml_backend_reg_get_proc_address(mpi, "heddle_mpi_serve"));
    const heddle_mpi_worker worker{
        devices.data(), devices.size(), options.threads, !options.devices.empty(),
        folders.data(), folders.size(), budgets.data()};
    heddle_clear_error();
    if (run(&worker)) return ok();
    return failure(Errc::device, heddle_last_error());
}

}  // namespace

std::string describe_worker() {
    nlohmann::json out{{"version", heddle_version()},
                       {"host", host_name()},
                       {"cores", std::thread::hardware_concurrency()},
                       {"devices", nlohmann::json::array()}};
    for (const Device& device : Device::all()) out["devices"].push_back(device.name());
    return json_text(out);
}

void add_worker(CLI::App& app, int& status) {
    auto options = std::make_shared<WorkerOptions>();
    CLI::App* command = app.add_subcommand(
        "worker", "Serve the devices of this machine to a program on another, through MPI");
    add_shared(*command, shared::kDevice, options->devices)->default_str("all");
    add_shared(*command, shared::kThreads, options->threads)
        ->default_str("one for each core")
        ->check(whole_number(1, kMostThreads));
    add_shared(*command, shared::kBudget, options->budgets);
    command->add_option("--files", options->folders, "Folders whose files it reads weights from")
        ->type_name("DIR")
        ->default_str(".gguf files of its user or root")
        ->check(CLI::ExistingDirectory)
        ->allow_extra_args(false);
    command->add_flag("--keep-binding", options->keep_binding,
                      "Compute on the cores that the launcher chose");
    command->add_flag("--describe", options->describe,
                      "Only say what is here, as JSON; needs no MPI");
    command->callback([options, &status] { status = report_outcome("worker", serve(*options)); });
}

}  // namespace heddle::tool
