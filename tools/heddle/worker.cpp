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

/// `heddle worker`: serves the devices of this machine to a program on another.
namespace heddle::tool {
namespace {

struct WorkerOptions {
    std::vector<std::string> devices;
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
        std::size_t begin = 0;
        const bool has_parameters = list.find(':') != std::string::npos;
        while (begin < list.size()) {
            const std::size_t end =
                has_parameters ? list.size() : std::min(list.find(',', begin), list.size());
            HEDDLE_TRY_ASSIGN(const Device device, Device::find(list.substr(begin, end - begin)));
            devices.push_back(device.c());
            begin = end + 1;
        }
    }
    return devices;
}

Result<> serve(const WorkerOptions& options) {
    // A worker has no workers of its own, whatever it inherited.
    setenv("HEDDLE_MPI", "0", 1);
    unsetenv("HEDDLE_MPI_HOSTS");
    if (!options.keep_binding) undo_binding();
    ggml_backend_load_all();
    HEDDLE_TRY_ASSIGN(std::vector<ggml_backend_dev_t> devices, devices_to_serve(options));
    if (options.describe) {
        print("{}\n", describe_worker());
        return ok();
    }
    const ggml_backend_reg_t mpi = ggml_backend_reg_by_name("mpi:serve");
    if (mpi == nullptr) return failure(Errc::not_found, heddle_last_error());
    const auto run = reinterpret_cast<heddle_mpi_serve_t>(
        ggml_backend_reg_get_proc_address(mpi, "heddle_mpi_serve"));
    const heddle_mpi_worker worker{devices.data(), devices.size(), options.threads,
                                   !options.devices.empty()};
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
    command->add_option("-d,--device", options->devices, "Devices to serve; if left out, all")
        ->type_name("DEVICE")
        ->allow_extra_args(false);
    command->add_option("-t,--threads", options->threads, "Threads of the processor")
        ->check(whole_number(1, 4096));
    command->add_flag("--keep-binding", options->keep_binding,
                      "Compute on the cores that the launcher chose");
    command->add_flag("--describe", options->describe,
                      "Only say what is here, as JSON; needs no MPI");
    command->callback([options, &status] { status = report_outcome("worker", serve(*options)); });
}

}  // namespace heddle::tool
