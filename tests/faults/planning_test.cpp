// Giving memory to graphs and contexts while calls to the system fail.

#include <gtest/gtest.h>

#include "ggml-cpp.h"
#include "tests/faults/small_model.hpp"
#include "tests/faults/sweep.hpp"

namespace heddle::faults {
namespace {

void allocate_graph(Run& run) {
    const SmallModel model(run);
    ggml_cgraph* graph = model.graph();
    const ggml_gallocr_ptr allocator(
        run.made("the allocator", [] { return ggml_gallocr_new(ggml_backend_cpu_buffer_type()); }));
    std::size_t measured = 0;
    run.done("measuring", [&] {
        ggml_gallocr_reserve_n_size(allocator.get(), graph, nullptr, nullptr, &measured);
    });
    run.worked("reservation", [&] { return ggml_gallocr_reserve(allocator.get(), graph); });
    run.expect("as much is reserved as was measured",
               ggml_gallocr_get_buffer_size(allocator.get(), 0) == measured);
    run.worked("allocation", [&] { return ggml_gallocr_alloc_graph(allocator.get(), graph); });
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        run.expect("every node has memory", ggml_graph_node(graph, i)->data != nullptr);
    }
    run.worked("allocation again",
               [&] { return ggml_gallocr_alloc_graph(allocator.get(), graph); });
}

TEST(Sweep, PlanningGraphs) { sweep(allocate_graph); }

void allocate_context(Run& run) {
    const SmallModel model(run);
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    run.expect("the context can be measured",
               ggml_backend_alloc_ctx_tensors_from_buft_size(model.context(), type) > 0 ||
                   *heddle_last_error() != '\0');
    const ggml_backend_buffer_ptr buffer(run.made("the buffer", [&] {
        return ggml_backend_alloc_ctx_tensors_from_buft(model.context(), type);
    }));
    for (ggml_tensor* tensor = ggml_get_first_tensor(model.context()); tensor != nullptr;
         tensor = ggml_get_next_tensor(model.context(), tensor)) {
        run.expect("every tensor has memory", tensor->data != nullptr);
    }
}

TEST(Sweep, PlanningContexts) { sweep(allocate_context); }

}  // namespace
}  // namespace heddle::faults
