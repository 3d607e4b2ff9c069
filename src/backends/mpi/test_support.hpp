#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/mpi/client/device.hpp"
#include "backends/mpi/fabric_threads.hpp"
#include "backends/mpi/worker/server.hpp"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "heddle/heddle.h"
#include "heddle/mpi.h"

namespace heddle::mpi {

/// Silence after which a rank is lost where a test waits for that. The others must be heard in time
/// on a busy machine, where sanitizers make each beat take longer.
#ifdef HEDDLE_SANITIZED
constexpr std::chrono::milliseconds kShortTimeout{1500};
#else
constexpr std::chrono::milliseconds kShortTimeout{400};
#endif

/// Rank 0 and workers in threads, each with the CPU as its device.
class TestJob {
public:
    /// What workers serve, and how.
    struct Serving {
        ggml_backend_dev_t device = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
        ServeOptions options{.threads = 1, .is_chosen = true};
    };

    explicit TestJob(int workers, unsigned seed = 1,
                     std::chrono::milliseconds timeout = std::chrono::seconds(10))
        : TestJob(workers, seed, {.timeout = timeout}, {}) {}

    TestJob(int workers, unsigned seed, Settings settings, Serving serving)
        : fabric(workers + 1, seed), outcomes(static_cast<std::size_t>(workers), ok()) {
        for (int rank = 1; rank <= workers; ++rank) {
            threads_.emplace_back([this, rank, serving] {
                const auto seat = fabric.join(rank);
                Server server(*seat, {serving.device}, serving.options);
                outcomes[static_cast<std::size_t>(rank - 1)] = server.serve();
            });
        }
        settings.start_timeout = std::chrono::seconds(20);
        auto started = Cluster::start(fabric.join(0), settings);
        if (!started) {
            ADD_FAILURE() << started.error().message;
            return;
        }
        cluster = *std::move(started);
        for (int rank = 1; rank <= workers; ++rank) {
            devices.push_back(
                std::make_unique<RemoteDevice>(ggml_backend_mpi_reg(), *cluster, rank, 0));
        }
    }
    ~TestJob() { end(); }

    void end() {
        if (cluster) cluster->leave();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    ggml_backend_dev_t device(std::size_t index) const { return devices[index]->handle(); }

    ThreadFabric fabric;
    std::vector<Result<>> outcomes;  ///< how each worker ended
    std::unique_ptr<Cluster> cluster;
    std::vector<std::unique_ptr<RemoteDevice>> devices;

private:
    std::vector<std::thread> threads_;
};

/// The CPU, but `before` is called when a graph is about to be computed.
template <void (*before)()>
ggml_backend_dev_t cpu_that_calls() {
    static ggml_backend_device wrapped = *ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    static std::atomic<decltype(ggml_backend_i::graph_compute)> compute{nullptr};
    wrapped.iface.init_backend = [](ggml_backend_dev_t, const char*) {
        const ggml_backend_t stream = ggml_backend_cpu_init();
        compute = stream->iface.graph_compute;
        stream->iface.graph_compute = [](ggml_backend_t self, ggml_cgraph* graph) {
            before();
            return compute.load()(self, graph);
        };
        return stream;
    };
    return &wrapped;
}

/// Waits until a worker is lost; gives why.
inline std::string loss_of(const TestJob& job, int rank) {
    for (int i = 0; i < 5000; ++i) {
        if (const auto lost = job.cluster->loss(rank)) return lost->message;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return "not lost";
}

/// The first message of some kind that a rank is sent.
inline Bytes next_of(Fabric& seat, Kind kind) {
    for (int i = 0; i < 5000; ++i) {
        const auto message = seat.receive();
        if (!message) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } else if (const auto opened = open(*message); opened && opened->header.kind == kind) {
            return message->bytes;
        }
    }
    return {};
}

/// Headers of a few tensors and a graph.
inline ggml_context_ptr small_context() {
    return ggml_context_ptr(ggml_init({std::size_t{1} << 16, nullptr, true}));
}

}  // namespace heddle::mpi
