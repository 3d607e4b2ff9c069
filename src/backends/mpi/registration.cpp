// heddle/mpi.h, and the registration "RPC".
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "backends/mpi/client/device.hpp"
#include "backends/mpi/client/sums.hpp"
#include "backends/mpi/client/trace.hpp"
#include "backends/mpi/environment.hpp"
#include "backends/mpi/fabric_threads.hpp"
#include "backends/mpi/worker/server.hpp"
#include "backends/named_functions.hpp"
#include "heddle/backend/nodes.hpp"
#include "heddle/mpi.h"

extern "C" {
/// Of the registry, which is in a library above this one.
[[gnu::weak]] GGML_API ggml_backend_dev_t ggml_backend_dev_by_name(const char* name);
}

namespace heddle::mpi {
namespace {

Environment read_environment() {
    const auto value = [](const char* name) {
        const char* const text = std::getenv(name);
        return std::string(text != nullptr ? text : "");
    };
    Environment asked;
    asked.hosts = value("HEDDLE_MPI_HOSTS");
    asked.worker = value("HEDDLE_MPI_WORKER");
    asked.timeout = value("HEDDLE_MPI_TIMEOUT");
    asked.start_timeout = value("HEDDLE_MPI_START_TIMEOUT");
    asked.graph_timeout = value("HEDDLE_MPI_GRAPH_TIMEOUT");
    asked.files = value("HEDDLE_MPI_FILES");
    asked.verify = value("HEDDLE_MPI_VERIFY");
    asked.sum = value("HEDDLE_MPI_SUM");
    asked.poll = value("HEDDLE_MPI_POLL");
    asked.digests = value("HEDDLE_MPI_DIGESTS");
    asked.cache = digest_file(value("XDG_CACHE_HOME"), value("HOME"));
    asked.order = value("HEDDLE_MPI_ORDER");
    return asked;
}

/// Workers in threads of this process.
class LocalJob {
public:
    explicit LocalJob(int workers) : fabric_(workers + 1) {}
    ~LocalJob() {
        for (std::thread& thread : threads_) thread.join();
    }
    LocalJob(const LocalJob&) = delete;
    LocalJob& operator=(const LocalJob&) = delete;

    void start(int rank, ggml_backend_dev_t device) {
        threads_.emplace_back([this, rank, device] {
            const auto served = plugin::attempt([&] {
                const auto seat = fabric_.join(rank);
                Server server(*seat, {device}, {.is_chosen = true});
                return server.serve();
            });
            if (!served) plugin::log(GGML_LOG_LEVEL_WARN, served.error().message);
        });
    }
    std::unique_ptr<Fabric> join() { return fabric_.join(0); }

private:
    ThreadFabric fabric_;
    std::vector<std::thread> threads_;
};

/// Workers and their devices.
struct Session {
    std::unique_ptr<LocalJob> local;  ///< goes last: it waits for workers that were said goodbye to
    std::unique_ptr<Cluster> cluster;
    std::vector<std::unique_ptr<RemoteDevice>> devices;
};

class RemoteRegistration : public plugin::Registration<RemoteRegistration> {
public:
    const char* name() { return "RPC"; }
    std::size_t device_count() {
        const std::lock_guard guard(lock_);
        return sessions_.empty() ? 0 : sessions_.back()->devices.size();
    }
    ggml_backend_dev_t device(std::size_t index) {
        const std::lock_guard guard(lock_);
        return sessions_.back()->devices[index]->handle();
    }
    void* find(std::string_view name);

    /// The workers in use; null if there are none.
    Cluster* cluster() {
        const std::lock_guard guard(lock_);
        return sessions_.empty() ? nullptr : sessions_.back()->cluster.get();
    }

    Result<> add(std::unique_ptr<Session> session);
    /// The end of the process: workers are told. Objects stay, for programs that still hold them.
    void leave();

private:
    std::mutex lock_;
    std::vector<std::unique_ptr<Session>> sessions_;  ///< the last one is the one in use
};

RemoteRegistration& the_registration() {
    return *static_cast<RemoteRegistration*>(ggml_backend_mpi_reg()->context);
}

void leave_all() {
    const auto left = plugin::attempt([] { the_registration().leave(); });
    if (!left) plugin::report(left.error());
}

/// Of a machine that the program runs on itself only what it lacks: CPUs as devices for layers.
bool is_shown(const WorkerFacts& worker, const DeviceFacts& device, const std::string& boot) {
    return worker.is_chosen || worker.boot != boot || device.name == "CPU";
}

Result<> RemoteRegistration::add(std::unique_ptr<Session> session) {
    Cluster& cluster = *session->cluster;
    const std::string boot = own_facts().boot;
    for (int rank = 1; rank < cluster.size(); ++rank) {
        if (!cluster.takes_part(rank)) continue;
        const auto& devices = cluster.facts(rank).devices;
        for (std::size_t i = 0; i < devices.size(); ++i) {
            if (!is_shown(cluster.facts(rank), devices[i], boot)) continue;
            session->devices.push_back(std::make_unique<RemoteDevice>(handle(), cluster, rank, i));
        }
    }
    const std::lock_guard guard(lock_);
    if (sessions_.empty()) std::atexit(leave_all);
    sessions_.push_back(std::move(session));
    return ok();
}

void RemoteRegistration::leave() {
    const std::lock_guard guard(lock_);
    for (const auto& session : sessions_) {
        session->cluster->leave();
        session->local.reset();
    }
}

// ---- starting ----------------------------------------------------------------------------------

Result<std::unique_ptr<Session>> start_local(std::string_view parameters) {
    HEDDLE_TRY_ASSIGN(const LocalWorkers wanted, parse_local(parameters));
    std::vector<ggml_backend_dev_t> devices;
    for (const std::string& name : wanted.devices) {
        const bool can_look = &ggml_backend_dev_by_name != nullptr;
        devices.push_back(can_look ? ggml_backend_dev_by_name(name.c_str()) : nullptr);
        if (devices.back() == nullptr) return invalid("there is no device ", name);
    }
    // Before there are workers, which would wait for a program that does not come.
    HEDDLE_TRY_ASSIGN(const Settings settings, settings_of(read_environment()));
    auto session = std::make_unique<Session>();
    session->local = std::make_unique<LocalJob>(wanted.threads);
    for (int rank = 1; rank <= wanted.threads; ++rank) {
        session->local->start(rank, devices[static_cast<std::size_t>(rank - 1) % devices.size()]);
    }
    HEDDLE_TRY_ASSIGN(session->cluster, Cluster::start(session->local->join(), settings));
    return session;
}

Result<std::unique_ptr<Session>> start_job() {
    const Environment environment = read_environment();
    HEDDLE_TRY_ASSIGN(const Settings settings, settings_of(environment));
    SpawnRequest request;
    request.timeout = settings.start_timeout;
    auto session = std::make_unique<Session>();
    std::unique_ptr<Fabric> fabric;
    if (environment.hosts.empty()) {
        HEDDLE_TRY_ASSIGN(fabric, join_job(settings.start_timeout));
    } else {
        HEDDLE_TRY_ASSIGN(request.hosts, parse_hosts(environment.hosts));
        request.command = split_words(environment.worker);
        Dl_info here{};
        if (request.command.empty() &&
            dladdr(reinterpret_cast<void*>(ggml_backend_mpi_reg), &here) != 0) {
            request.command = default_worker(here.dli_fname);
        }
        HEDDLE_TRY_ASSIGN(fabric, spawn_workers(request));
    }
    if (fabric->rank() != 0) {
        return invalid("MPI: this process is rank ", fabric->rank(),
                       "; rank 0 is the program, others run heddle worker");
    }
    set_polling(settings.polling);
    HEDDLE_TRY_ASSIGN(session->cluster, Cluster::start(std::move(fabric), settings));
    call_before_end(leave_all);
    session->cluster->measure_links();
    return session;
}

// ---- functions found by name -------------------------------------------------------------------

bool configure(const char* text) {
    const std::string_view parameters = text != nullptr ? text : "";
    const auto done = plugin::attempt([&]() -> Result<> {
        if (parameters == "serve") return ok();
        HEDDLE_TRY_ASSIGN(auto session, parameters.empty() ? start_job() : start_local(parameters));
        return the_registration().add(std::move(session));
    });
    if (!done) plugin::report(done.error());
    return done.has_value();
}

ServeOptions options_of(const heddle_mpi_worker& worker) {
    ServeOptions options{worker.n_threads, worker.is_chosen};
    options.digests = std::make_shared<DigestStore>(read_environment().cache);
    options.folders.assign(worker.folders, worker.folders + worker.n_folders);
    if (worker.budgets != nullptr) {
        options.budgets.assign(worker.budgets, worker.budgets + worker.n_devices);
    }
    return options;
}

bool serve(const heddle_mpi_worker* worker) {
    constexpr std::chrono::seconds kStart{60};  // for the program to get so far
    const auto done = plugin::attempt([&]() -> Result<> {
        HEDDLE_TRY_ASSIGN(const auto fabric, join_job(kStart));
        if (fabric->rank() == 0) return invalid("MPI: rank 0 is the program, not a worker");
        const std::vector devices(worker->devices, worker->devices + worker->n_devices);
        {
            Server server(*fabric, devices, options_of(*worker));
            HEDDLE_TRY(server.serve());
        }
        fabric->finish();
        return ok();
    });
    if (!done) plugin::report(done.error());
    return done.has_value();
}

void set_threads(ggml_backend_t stream, int count) {
    RemoteStream* const found = remote_stream(stream);
    if (found == nullptr || count < 1) return;
    plugin::attempt_status([] { return std::string("MPI: threads"); },
                           [&] { return found->set_threads(count); });
}

void set_abort_callback(ggml_backend_t stream, ggml_abort_callback callback, void* data) {
    RemoteStream* const found = remote_stream(stream);
    if (found == nullptr) return;
    plugin::attempt_status([] { return std::string("MPI: abort callback"); },
                           [&] { found->set_abort(callback, data); });
}

/// See heddle_backend_load_file_t.
bool load_file(ggml_tensor* tensor, const char* path, std::uint64_t offset) {
    const auto done = plugin::attempt([&]() -> Result<> {
        RemoteBuffer* const buffer = tensor != nullptr ? remote_buffer(*tensor) : nullptr;
        if (buffer == nullptr || path == nullptr) {
            return invalid("MPI: a tensor of a worker and a path are needed to load a file");
        }
        return buffer->load_file(*tensor, path, offset);
    });
    if (!done) plugin::report(done.error());
    return done.has_value();
}

ggml_backend_buffer_type_t* more_buffer_types(ggml_backend_dev_t device) {
    if (device == nullptr || device->reg != ggml_backend_mpi_reg()) return nullptr;
    return static_cast<RemoteDevice*>(device->context)->more_buffer_types();
}

void* comm_init(ggml_backend_t* streams, std::size_t count) {
    return plugin::ask<void*>(nullptr, [&]() -> void* {
        return RemoteSums::make({streams, count}).release();
    });
}

void comm_free(void* sums) { delete static_cast<RemoteSums*>(sums); }

bool comm_allreduce_tensor(void* sums, ggml_tensor** tensors) {
    return plugin::ask<bool>(false, [&] {
        auto* const all = static_cast<RemoteSums*>(sums);
        return all->add_up({tensors, all->size()});
    });
}

/// See heddle_mpi_ping_pong_t.
double ping_pong(ggml_backend_dev_t from, ggml_backend_dev_t to, std::size_t bytes, int rounds) {
    const auto device = [](ggml_backend_dev_t handle) {
        return static_cast<RemoteDevice*>(handle->context);
    };
    const auto is_ours = [](ggml_backend_dev_t handle) {
        return handle != nullptr && handle->reg == ggml_backend_mpi_reg();
    };
    if (!is_ours(to) || (from != nullptr && !is_ours(from))) {
        plugin::report(invalid("MPI: a ping-pong is between two workers, or the program and one"));
        return 0;
    }
    const auto measured = plugin::attempt([&] {
        const int begins = from != nullptr ? device(from)->rank() : 0;
        return device(to)->cluster().ping_pong(begins, device(to)->rank(), bytes, rounds);
    });
    if (measured) return *measured;
    plugin::report(measured.error());
    return 0;
}

/// See heddle_mpi_sent_t.
std::size_t sent(ggml_backend_dev_t device) {
    if (device == nullptr || device->reg != ggml_backend_mpi_reg()) return 0;
    const auto* const found = static_cast<RemoteDevice*>(device->context);
    return found->cluster().sent(found->rank());
}

bool trace(ggml_backend_t stream, bool on) {
    const RemoteStream* const found = remote_stream(stream);
    if (found == nullptr) return false;
    return plugin::ask<bool>(false, [&] {
        found->device().cluster().set_tracing(on);
        return true;
    });
}

void trace_spans(void (*take)(const heddle_trace_span*, void*), void* user) {
    Cluster* const cluster = the_registration().cluster();
    if (cluster == nullptr) return;
    plugin::attempt_status(
        [] { return std::string("MPI: trace"); },
        [&] { each_span(*cluster, [&](const heddle_trace_span& span) { take(&span, user); }); });
}

ggml_backend_reg_t add_server(const char*) {
    plugin::report(
        {Errc::unsupported,
         "workers are started with HEDDLE_MPI_HOSTS=host or mpirun; see docs/cluster.md"});
    return nullptr;
}

void* RemoteRegistration::find(std::string_view name) {
    static const std::array functions{
        named("heddle_backend_configure", configure),
        named("heddle_mpi_serve", serve),
        named("ggml_backend_set_n_threads", set_threads),
        named("ggml_backend_set_abort_callback", set_abort_callback),
        named("ggml_backend_dev_get_extra_bufts", more_buffer_types),
        named("ggml_backend_rpc_add_server", add_server),
        named("ggml_backend_comm_init", comm_init),
        named("ggml_backend_comm_free", comm_free),
        named("ggml_backend_comm_allreduce_tensor", comm_allreduce_tensor),
        named("heddle_backend_load_file", load_file),
        named("heddle_mpi_ping_pong", ping_pong),
        named("heddle_mpi_sent", sent),
        named(HEDDLE_STREAM_TRACE, trace),
        named(HEDDLE_TRACE_SPANS, trace_spans),
    };
    return find_function(functions, name);
}

}  // namespace
}  // namespace heddle::mpi

ggml_backend_reg_t ggml_backend_mpi_reg(void) {
    return heddle::plugin::registration<heddle::mpi::RemoteRegistration>();
}
