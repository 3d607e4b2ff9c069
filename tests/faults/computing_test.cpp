// Computing on the processor while calls to the system fail: streams, thread pools, plans,
// comparisons.

#include <gtest/gtest.h>

#include <memory>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

struct FreePool {
    void operator()(ggml_threadpool* pool) const { ggml_threadpool_free(pool); }
};
using PoolPointer = std::unique_ptr<ggml_threadpool, FreePool>;

ggml_backend_ptr make_stream(Run& run) {
    return ggml_backend_ptr(run.made("a stream", [] { return ggml_backend_cpu_init(); }));
}

ggml_backend_buffer_ptr give_memory(Run& run, const SmallModel& model, ggml_backend_t stream) {
    ggml_backend_buffer_ptr buffer(run.made(
        "memory", [&] { return ggml_backend_alloc_ctx_tensors(model.context(), stream); }));
    model.fill(run);
    return buffer;
}

void compute_with_own_pool(Run& run) {
    ggml_threadpool_params params = ggml_threadpool_params_default(2);
    params.cpumask[0] = true;  // worker threads allocate to settle on processors
    params.poll = 0;
    const PoolPointer pool(run.made("a pool", [&] { return ggml_threadpool_new(&params); }));
    const ggml_backend_ptr stream = make_stream(run);
    run.done("threads", [&] { ggml_backend_cpu_set_n_threads(stream.get(), 2); });
    run.done("the pool", [&] { ggml_backend_cpu_set_threadpool(stream.get(), pool.get()); });
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer = give_memory(run, model, stream.get());
    run.succeeded("computing",
                  [&] { return ggml_backend_graph_compute(stream.get(), model.graph()); });
    model.check(run);
}

TEST(Sweep, ComputingWithAPool) { sweep(compute_with_own_pool); }

void compute_with_shared_pool(Run& run) {
    const ggml_backend_ptr stream = make_stream(run);
    run.done("threads", [&] { ggml_backend_cpu_set_n_threads(stream.get(), 2); });
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer = give_memory(run, model, stream.get());
    for (int i = 0; i < 2; ++i) {
        run.succeeded("computing",
                      [&] { return ggml_backend_graph_compute(stream.get(), model.graph()); });
        model.check(run);
    }
    run.succeeded("computing without a stream",
                  [&] { return ggml_graph_compute_with_ctx(model.context(), model.graph(), 2); });
    model.check(run);
}

TEST(Sweep, ComputingWithThePoolOfTheProcess) { sweep(compute_with_shared_pool); }

void compute_plan(Run& run) {
    const ggml_backend_ptr stream = make_stream(run);
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer = give_memory(run, model, stream.get());
    ggml_backend_graph_plan_t plan = run.made(
        "a plan", [&] { return ggml_backend_graph_plan_create(stream.get(), model.graph()); });
    const auto release = [&](void* made) { ggml_backend_graph_plan_free(stream.get(), made); };
    const std::unique_ptr<void, decltype(release)> owner(plan, release);
    for (int i = 0; i < 2; ++i) {
        run.succeeded("computing",
                      [&] { return ggml_backend_graph_plan_compute(stream.get(), plan); });
        model.check(run);
    }
}

TEST(Sweep, ComputingPlans) { sweep(compute_plan); }

void copy_and_compare(Run& run) {
    const ggml_backend_ptr first = make_stream(run), second = make_stream(run);
    const SmallModel model(run);
    const ggml_backend_buffer_ptr buffer = give_memory(run, model, first.get());
    struct ggml_backend_graph_copy copy {};
    run.worked("a copy", [&] {
        copy = ggml_backend_graph_copy(second.get(), model.graph());
        return copy.graph != nullptr;
    });
    const auto release = [](struct ggml_backend_graph_copy* made) {
        ggml_backend_graph_copy_free(*made);
    };
    const std::unique_ptr<struct ggml_backend_graph_copy, decltype(release)> owner(&copy, release);
    run.succeeded("computing the copy",
                  [&] { return ggml_backend_graph_compute(second.get(), copy.graph); });
    int compared = 0;
    run.worked("comparing", [&] {
        compared = 0;
        return ggml_backend_compare_graph_backend(
            first.get(), second.get(), model.graph(),
            [](int, ggml_tensor*, ggml_tensor*, void* count) {
                ++*static_cast<int*>(count);
                return true;
            },
            &compared, nullptr, 0);
    });
    run.expect("nodes were compared", compared > 10);
    model.check(run);
}

TEST(Sweep, CopyingAndComparing) { sweep(copy_and_compare); }

}  // namespace
}  // namespace heddle::faults
