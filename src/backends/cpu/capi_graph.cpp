// ggml-cpu.h: computing a graph without a stream.

#include <algorithm>
#include <cstdint>

#include "backends/cpu/execute.hpp"
#include "backends/cpu/stream.hpp"
#include "core/boundary.hpp"
#include "core/context.hpp"
#include "core/log.hpp"
#include "ggml-cpu.h"
#include "heddle/backend.hpp"

using namespace heddle;
using namespace heddle::cpu;

namespace {

/// Bytes to ask the caller for: he may give memory at any address.
std::size_t work_size_of(const Plan& plan) {
    if (plan.scratch == 0) return 0;
    return plan.scratch + kScratchAlignment * static_cast<std::size_t>(plan.tasks);
}

/// The caller's memory where it holds `size` bytes from an aligned address on; null where it does
/// not.
std::byte* aligned_part(const ggml_cplan& plan, std::size_t size) {
    if (plan.work_data == nullptr) return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(plan.work_data);
    const std::uintptr_t skipped =
        (kScratchAlignment - begin % kScratchAlignment) % kScratchAlignment;
    if (skipped > plan.work_size || size > plan.work_size - skipped) return nullptr;
    return reinterpret_cast<std::byte*>(plan.work_data) + skipped;
}

Result<ggml_cplan> plan_graph(const Graph& graph, int n_threads, ThreadPool* pool) {
    const int asked = n_threads > 0 ? n_threads : planned_threads(0, pool);
    Plan plan;
    HEDDLE_TRY(make_plan(graph, asked, Memory::unchecked, plan));
    ggml_cplan result{};
    result.threadpool = pool;
    result.n_threads = plan.tasks;
    result.work_size = work_size_of(plan);
    if (plan.tasks != asked) {
        // Kernels cut their work anew for the threads that are left; they may want other memory
        // then.
        HEDDLE_TRY(make_plan(graph, result.n_threads, Memory::unchecked, plan));
        result.work_size = std::max(result.work_size, work_size_of(plan));
    }
    return result;
}

Result<> compute_graph(const Graph& graph, const ggml_cplan& plan) {
    if (plan.n_threads <= 0) return invalid("a plan for ", plan.n_threads, " threads");
    const int threads = planned_threads(plan.n_threads, plan.threadpool);
    if (threads < plan.n_threads) {
        log_line(GGML_LOG_LEVEL_WARN, "ggml_graph_compute: the plan is for ", plan.n_threads,
                 " threads, the pool has ", threads);
    }
    Plan steps;
    HEDDLE_TRY(make_plan(graph, threads, Memory::checked, steps));
    Scratch own;  // where the caller changed the plan, or gave no memory
    std::byte* scratch = aligned_part(plan, steps.scratch);
    if (scratch == nullptr) {
        HEDDLE_TRY_ASSIGN(scratch, own.reserve(steps.scratch));
    }
    return execute(steps, {.pool = plan.threadpool,
                           .scratch = scratch,
                           .abort = {plan.abort_callback, plan.abort_callback_data},
                           .plain = plan.use_ref});
}

/// The status of `body`'s Result. Stopping on request is no failure, and nothing to report.
template <class Body>
ggml_status status_of(Body&& body) {
    const auto result = capi::guarded(std::forward<Body>(body));
    if (result) return GGML_STATUS_SUCCESS;
    if (result.error().code != Errc::aborted) capi::report(result.error());
    return plugin::status_of(result.error());
}

}  // namespace

void ggml_cpu_init(void) { kernels_for(kNoOp); }

ggml_cplan ggml_graph_plan(const ggml_cgraph* cgraph, int n_threads, ggml_threadpool* threadpool) {
    auto plan = capi::guarded([&]() -> Result<ggml_cplan> {
        HEDDLE_TRY(capi::require(cgraph, "ggml_graph_plan", "the graph"));
        return plan_graph(*cgraph, n_threads, threadpool);
    });
    if (plan) return *plan;
    // Computing fails for the same reason, and can say so.
    capi::report(plan.error());
    ggml_cplan none{};
    none.n_threads = 1;
    none.threadpool = threadpool;
    return none;
}

ggml_status ggml_graph_compute(ggml_cgraph* cgraph, ggml_cplan* cplan) {
    return status_of([&]() -> Result<> {
        HEDDLE_TRY(capi::require(cgraph, "ggml_graph_compute", "the graph"));
        HEDDLE_TRY(capi::require(cplan, "ggml_graph_compute", "the plan"));
        return compute_graph(*cgraph, *cplan);
    });
}

ggml_status ggml_graph_compute_with_ctx(ggml_context* ctx, ggml_cgraph* cgraph, int n_threads) {
    return status_of([&]() -> Result<> {
        HEDDLE_TRY(capi::require(ctx, "ggml_graph_compute_with_ctx", "the context"));
        HEDDLE_TRY(capi::require(cgraph, "ggml_graph_compute_with_ctx", "the graph"));
        HEDDLE_TRY_ASSIGN(ggml_cplan plan, plan_graph(*cgraph, n_threads, nullptr));
        if (plan.work_size > 0) {
            // Callers size contexts by guess. Where the room is missing, other memory does.
            const auto work = new_object(*ctx, GGML_OBJECT_TYPE_WORK_BUFFER, plan.work_size);
            if (work) plan.work_data = reinterpret_cast<std::uint8_t*>(*work);
        }
        return compute_graph(*cgraph, plan);
    });
}
