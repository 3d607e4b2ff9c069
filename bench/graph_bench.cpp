// How long it takes to build graphs: create each node through the C API, then add it to the graph.
// Prints nanoseconds per node and how they grow with the size of the graph. As in real programs,
// the context lies in memory that the caller keeps from one graph to the next.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "ggml.h"

namespace {

/// Nanoseconds per node for a chain of `nodes` additions.
double build_once(std::size_t nodes, std::vector<std::max_align_t>& memory) {
    const auto start = std::chrono::steady_clock::now();
    ggml_context* context = ggml_init({.mem_size = memory.size() * sizeof memory[0],
                                       .mem_buffer = memory.data(),
                                       .no_alloc = true});
    ggml_cgraph* graph = ggml_new_graph_custom(context, nodes, false);
    ggml_tensor* x = ggml_new_tensor_1d(context, GGML_TYPE_F32, 64);
    ggml_tensor* y = ggml_new_tensor_1d(context, GGML_TYPE_F32, 64);
    for (std::size_t i = 0; i < nodes; ++i) x = ggml_add(context, x, y);
    ggml_build_forward_expand(graph, x);
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    ggml_free(context);
    return time.count() / static_cast<double>(nodes);
}

double median_of_runs(std::size_t nodes) {
    const std::size_t bytes =
        ggml_graph_overhead_custom(nodes, false) + (nodes + 2) * ggml_tensor_overhead();
    std::vector<std::max_align_t> memory(bytes / sizeof(std::max_align_t) + 1);
    std::vector<double> runs(std::clamp<std::size_t>(2'000'000 / nodes, 5, 200));
    for (double& run : runs) run = build_once(nodes, memory);
    std::nth_element(runs.begin(), runs.begin() + runs.size() / 2, runs.end());
    return runs[runs.size() / 2];
}

}  // namespace

int main() {
    std::printf("%10s %12s %8s\n", "nodes", "ns per node", "growth");
    const double first = median_of_runs(1'000);
    for (const std::size_t nodes : {1'000, 10'000, 100'000, 1'000'000}) {
        const double time = nodes == 1'000 ? first : median_of_runs(nodes);
        std::printf("%10zu %12.1f %8.2f\n", nodes, time, time / first);
    }
}
