// What it costs to run a graph on the CPU beyond the arithmetic: planning, walking the nodes, and
// bringing threads together. Prints medians.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

using Clock = std::chrono::steady_clock;

/// A chain of `nodes` additions of floats in `rows` rows, each needing the one before.
class Chain {
public:
    Chain(std::int64_t width, std::int64_t rows, std::size_t nodes)
        : context_(ggml_init({.mem_size = ggml_graph_overhead_custom(nodes + 2, false) +
                                          (nodes + 2) * ggml_tensor_overhead() +
                                          2 * static_cast<std::size_t>(width * rows) * 4 + 4096,
                              .mem_buffer = nullptr,
                              .no_alloc = false})),
          graph_(ggml_new_graph_custom(context_, nodes + 2, false)) {
        ggml_tensor* x = ggml_new_tensor_2d(context_, GGML_TYPE_F32, width, rows);
        ggml_tensor* y = ggml_new_tensor_2d(context_, GGML_TYPE_F32, width, rows);
        ggml_set_f32(x, 1);
        ggml_set_f32(y, 1);
        for (std::size_t i = 0; i < nodes; ++i) x = ggml_add_inplace(context_, x, y);
        ggml_build_forward_expand(graph_, x);
    }
    ~Chain() { ggml_free(context_); }
    Chain(const Chain&) = delete;
    Chain& operator=(const Chain&) = delete;

    ggml_cgraph* graph() const { return graph_; }

private:
    ggml_context* context_;
    ggml_cgraph* graph_;
};

/// Median nanoseconds of computing `graph`, each time after `rest`.
double median_ns(ggml_cgraph* graph, int threads, int runs, std::chrono::milliseconds rest = {}) {
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(backend, threads);
    ggml_backend_graph_compute(backend, graph);
    std::vector<double> times(static_cast<std::size_t>(runs));
    for (double& time : times) {
        if (rest.count() > 0) std::this_thread::sleep_for(rest);
        const auto start = Clock::now();
        ggml_backend_graph_compute(backend, graph);
        time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    }
    ggml_backend_free(backend);
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return times[static_cast<std::size_t>(runs) / 2];
}

void print(const char* what, int threads, double value, const char* unit) {
    std::printf("%-52s %8d %10.1f %s\n", what, threads, value, unit);
}

double plan_ns(ggml_cgraph* graph, int threads, int runs) {
    std::vector<double> times(static_cast<std::size_t>(runs));
    for (double& time : times) {
        const auto start = Clock::now();
        const ggml_cplan plan = ggml_graph_plan(graph, threads, nullptr);
        time = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
        if (plan.n_threads < 1) std::printf("no plan\n");
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return times[static_cast<std::size_t>(runs) / 2];
}

}  // namespace

int main() {
    using std::chrono::milliseconds;
    std::printf("%-52s %8s %10s\n", "", "threads", "median");
    const Chain small(64, 1, 1000);
    for (const int threads : {1, 2}) {
        print("planning 1,000 additions of 64 floats, each", threads,
              plan_ns(small.graph(), threads, 2001) / 1000, "ns");
    }
    for (const int threads : {1, 2, 4, 8}) {
        print("1,000 dependent additions of 64 floats, each", threads,
              median_ns(small.graph(), threads, 2001) / 1000, "ns");
    }
    const Chain lone(64, 1, 1);
    print("a lone addition of 64 floats, busy pool", 2, median_ns(lone.graph(), 2, 2001), "ns");
    for (const int threads : {1, 2}) {
        print("a lone addition of 64 floats, resting pool", threads,
              median_ns(lone.graph(), threads, 301, milliseconds(3)), "ns");
    }
    const Chain lone_large(512, 64, 1);
    for (const int threads : {1, 2}) {
        print("a lone addition of 512 x 64, resting pool", threads,
              median_ns(lone_large.graph(), threads, 301, milliseconds(3)), "ns");
    }
    const Chain large(512, 512, 100);
    for (const int threads : {1, 2, 4, 8, 16}) {
        print("100 additions of 512 x 512, each", threads,
              median_ns(large.graph(), threads, 51) / 100, "ns");
    }
}
