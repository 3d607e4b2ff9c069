// The scheduler over two devices and the processor while calls to the system and devices fail:
// reserving, running, planning again for another graph, tracing, explaining.

#include <gtest/gtest.h>

#include <array>

#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml/ops_reduce.h"
#include "heddle/sched.h"
#include "tests/faults/faulty_devices.hpp"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

/// Streams of two devices and of the processor, and a scheduler over them.
class Machine {
public:
    explicit Machine(Run& run) {
        for (std::size_t i = 0; i < 2; ++i) {
            streams_[i].reset(run.made("a stream of a device", [&] {
                return ggml_backend_dev_init(simulated(i), nullptr);
            }));
        }
        streams_[2].reset(
            run.made("a stream of the processor", [] { return ggml_backend_cpu_init(); }));
        run.done("one thread", [&] { ggml_backend_cpu_set_n_threads(streams_[2].get(), 1); });
        std::array<ggml_backend_t, 3> all{streams_[0].get(), streams_[1].get(), streams_[2].get()};
        scheduler_.reset(run.made("the scheduler", [&] {
            return ggml_backend_sched_new(all.data(), nullptr, 3, 64, true, false);
        }));
    }

    ggml_backend_sched_t scheduler() const { return scheduler_.get(); }
    ggml_backend_t stream(std::size_t i) const { return streams_[i].get(); }

private:
    std::array<ggml_backend_ptr, 3> streams_;
    ggml_backend_sched_ptr scheduler_;
};

/// A third of the nodes for each of the machine's streams, so that there are copies.
void spread(const Machine& machine, ggml_cgraph* graph) {
    const int count = ggml_graph_n_nodes(graph);
    for (int i = 0; i < count; ++i) {
        ggml_tensor* node = ggml_graph_node(graph, i);
        if (node->view_src != nullptr) continue;
        ggml_backend_sched_set_tensor_backend(
            machine.scheduler(), node, machine.stream(static_cast<std::size_t>(i * 3 / count)));
    }
}

bool plan_and_fill(const Machine& machine, const SmallModel& model) {
    ggml_backend_sched_reset(machine.scheduler());
    spread(machine, model.graph());
    if (!ggml_backend_sched_alloc_graph(machine.scheduler(), model.graph())) return false;
    model.set_values();
    return *heddle_last_error() == '\0';
}

/// Computes the model. Nobody knows what a failure has left in memory, so another attempt begins
/// with the plan.
void compute(Run& run, const Machine& machine, const SmallModel& model) {
    run.worked("planning and filling", [&] { return plan_and_fill(machine, model); });
    bool is_filled = true;
    run.succeeded("computing", [&] {
        if (!is_filled && !plan_and_fill(machine, model)) return GGML_STATUS_FAILED;
        is_filled = false;
        return ggml_backend_sched_graph_compute(machine.scheduler(), model.graph());
    });
    model.check(run);
}

void schedule(Run& run) {
    const Machine machine(run);
    const SmallModel model(run);
    run.worked("reservation",
               [&] { return ggml_backend_sched_reserve(machine.scheduler(), model.graph()); });
    for (int i = 0; i < 2; ++i) compute(run, machine, model);
}

TEST(Sweep, Scheduling) { sweep_with_devices(schedule); }

/// A sum of `count` numbers, on the first device.
void sum_numbers(Run& run, const Machine& machine, std::int64_t count) {
    const ggml_context_ptr context(run.made("a context", [] {
        return ggml_init({.mem_size = 1 << 14, .mem_buffer = nullptr, .no_alloc = true});
    }));
    ggml_tensor* x = run.made(
        "numbers", [&] { return ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, count); });
    ggml_set_input(x);
    ggml_tensor* sum = run.made("their sum", [&] { return ggml_sum(context.get(), x); });
    ggml_set_output(sum);
    ggml_cgraph* graph =
        run.made("a graph", [&] { return ggml_new_graph_custom(context.get(), 8, false); });
    run.done("expanding it", [&] { ggml_build_forward_expand(graph, sum); });
    static const std::array<float, 1024> ones = [] {
        std::array<float, 1024> values;
        values.fill(1);
        return values;
    }();
    run.worked("computing the sum", [&] {
        ggml_backend_sched_reset(machine.scheduler());
        ggml_backend_sched_set_tensor_backend(machine.scheduler(), sum, machine.stream(0));
        if (!ggml_backend_sched_alloc_graph(machine.scheduler(), graph)) return false;
        ggml_backend_tensor_set(x, ones.data(), 0, ggml_nbytes(x));
        if (*heddle_last_error() != '\0') return false;
        return ggml_backend_sched_graph_compute(machine.scheduler(), graph) == GGML_STATUS_SUCCESS;
    });
    float value = 0;
    run.done("reading the sum", [&] { ggml_backend_tensor_get(sum, &value, 0, sizeof value); });
    run.expect("the sum is right", value == static_cast<float>(count));
}

void plan_again(Run& run) {
    const Machine machine(run);
    for (const std::int64_t count : {64, 1024, 16}) sum_numbers(run, machine, count);
}

TEST(Sweep, PlanningAgainForOtherShapes) { sweep_with_devices(plan_again); }

void trace_and_explain(Run& run) {
    const Machine machine(run);
    const SmallModel model(run);
    heddle_sched_set_tracing(machine.scheduler(), true);
    heddle_sched_set_hazard_check(machine.scheduler(), true);
    compute(run, machine, model);
    for (const heddle_explain_format format :
         {HEDDLE_EXPLAIN_JSON, HEDDLE_EXPLAIN_TEXT, HEDDLE_EXPLAIN_DOT, HEDDLE_EXPLAIN_TRACE,
          HEDDLE_EXPLAIN_HTML}) {
        const char* text = run.made(
            "an explanation", [&] { return heddle_sched_explain(machine.scheduler(), format); });
        run.expect("it says something", text[0] != '\0');
    }
}

TEST(Sweep, TracingAndExplaining) { sweep_with_devices(trace_and_explain); }

}  // namespace
}  // namespace heddle::faults
