// ggml-cpu.h: streams, thread pools, memory nodes.

#include "backends/cpu/device.hpp"
#include "backends/cpu/numa.hpp"
#include "backends/cpu/pool_cache.hpp"
#include "core/boundary.hpp"
#include "core/log.hpp"
#include "ggml-cpu.h"

using namespace heddle;
using namespace heddle::cpu;

namespace {

/// Lets `change` loose on the settings of a CPU stream; other streams are the caller's mistake.
template <class Change>
void change_settings(ggml_backend_t backend, std::string_view function, Change&& change) {
    capi::done([&]() -> Result<> {
        CpuStream* stream = cpu_stream(backend);
        if (stream == nullptr) return invalid(function, ": this is not a CPU stream");
        change(stream->settings);
        return ok();
    });
}

}  // namespace

ggml_backend_t ggml_backend_cpu_init(void) {
    const ggml_backend_reg_t registration = ggml_backend_cpu_reg();
    if (registration == nullptr) return nullptr;
    const ggml_backend_dev_t device = registration->iface.get_device(registration, 0);
    return device->iface.init_backend(device, nullptr);
}

bool ggml_backend_is_cpu(ggml_backend_t backend) { return cpu_stream(backend) != nullptr; }

void ggml_backend_cpu_set_n_threads(ggml_backend_t backend_cpu, int n_threads) {
    change_settings(backend_cpu, __func__, [&](Settings& now) { now.threads = n_threads; });
}

void ggml_backend_cpu_set_threadpool(ggml_backend_t backend_cpu, ggml_threadpool_t threadpool) {
    change_settings(backend_cpu, __func__, [&](Settings& now) {
        if (now.pool != nullptr && now.pool != threadpool) now.pool->pause();
        now.pool = threadpool;
    });
}

void ggml_backend_cpu_set_abort_callback(ggml_backend_t backend_cpu,
                                         ggml_abort_callback abort_callback,
                                         void* abort_callback_data) {
    change_settings(backend_cpu, __func__, [&](Settings& now) {
        now.abort = {abort_callback, abort_callback_data};
    });
}

void ggml_backend_cpu_set_use_ref(ggml_backend_t backend_cpu, bool use_ref) {
    change_settings(backend_cpu, __func__, [&](Settings& now) { now.plain = use_ref; });
}

// ---- thread pools ------------------------------------------------------------------------------

ggml_threadpool* ggml_threadpool_new(ggml_threadpool_params* params) {
    auto pool = capi::guarded([&]() -> Result<std::unique_ptr<ThreadPool>> {
        HEDDLE_TRY(capi::require(params, "ggml_threadpool_new", "params"));
        return ThreadPool::make(*params);
    });
    if (pool) return (*std::move(pool)).release();
    capi::report(pool.error());
    return nullptr;
}

void ggml_threadpool_free(ggml_threadpool* threadpool) { delete threadpool; }

int ggml_threadpool_get_n_threads(ggml_threadpool* threadpool) {
    return threadpool == nullptr ? 0 : threadpool->size();
}

void ggml_threadpool_pause(ggml_threadpool* threadpool) {
    if (threadpool != nullptr) threadpool->pause();
}

void ggml_threadpool_resume(ggml_threadpool* threadpool) {
    if (threadpool != nullptr) threadpool->resume();
}

// ---- memory nodes ------------------------------------------------------------------------------

void ggml_numa_init(ggml_numa_strategy numa) {
    const auto chosen = capi::guarded([&] { return choose_numa(numa); });
    if (!chosen) log_line(GGML_LOG_LEVEL_WARN, "ggml_numa_init: ", chosen.error().message);
    if (chosen && numa_policy().is_numa() && kernel_balances_nodes()) {
        log_line(
            GGML_LOG_LEVEL_WARN,
            "ggml_numa_init: the kernel balances NUMA nodes (kernel.numa_balancing), which may "
            "slow computing down");
    }
}

bool ggml_is_numa(void) { return numa_policy().is_numa(); }
