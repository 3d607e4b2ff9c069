// What the host does for each token, in the manner of llama.cpp: write the inputs, compute, read
// the logits, wait. The device has done everything at once, so all that is measured is the host's.
//
//   bare      the device's stream is called directly with a graph that has its memory
//   reused    through the scheduler, with the graph that was allocated for the token before
//   rebuilt   through the scheduler, with a graph that is built and allocated for each token
//   building  the part of it that building the graph takes
//
// Then the stages of a token by what its graph differs in from the one before: nothing, names, how
// much of the caches is seen, where keys and values are copied to.
//
// And what the CPU's stream spends on each of 1,000 tiny nodes: where it does not know the graph,
// and where the graph's uid says that it is the one of the last time. Medians of this thread's
// processor time, so that other programs disturb them less.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "null_device.hpp"
#include "token_client.hpp"

namespace {

using namespace heddle::bench;

template <class Body>
double median_us(int runs, Body&& body) {
    for (int i = 0; i < 10; ++i) body();
    std::vector<double> times(static_cast<std::size_t>(runs));
    for (double& time : times) {
        const double start = thread_us();
        body();
        time = thread_us() - start;
    }
    return median(std::move(times));
}

class Bench {
public:
    explicit Bench(int layers)
        : type_(ggml_backend_dev_buffer_type(device())),
          stream_(ggml_backend_dev_init(device(), nullptr)),
          cpu_(ggml_backend_cpu_init()),
          model_(shape(layers), type_),
          runs_(layers > 100 ? 201 : 2001) {
        ggml_backend_t all[] = {stream_.get(), cpu_.get()};
        sched_.reset(ggml_backend_sched_new(all, nullptr, 2, 1 << 15, false, true));
    }

    void stages() { print_stages(model_, stream_.get(), sched_.get(), runs_); }

    void print() {
        const double bare_us = bare(), reused_us = reused(), rebuilt_us = rebuilt();
        TokenGraph token(model_);
        const double building_us = median_us(runs_, [&] { token.build(); });
        const int nodes = ggml_graph_n_nodes(token.graph);
        std::printf("%8d %10.2f %10.2f %10.2f %10.2f %10.2f %12.1f\n", nodes, bare_us, reused_us,
                    reused_us - bare_us, building_us, rebuilt_us,
                    (rebuilt_us - building_us - bare_us) * 1e3 / nodes);
    }

private:
    static TokenShape shape(int layers) { return {.layers = layers, .cached = 512}; }
    static ggml_backend_dev_t device() {
        return ggml_backend_reg_dev_get(heddle::plugin::registration<NullRegistration>(), 0);
    }
    void read_logits(const TokenGraph& token) {
        ggml_backend_tensor_get_async(stream_.get(), token.logits, logits_.data(), 0,
                                      ggml_nbytes(token.logits));
    }

    double bare() {
        TokenGraph token(model_);
        const ggml_gallocr_ptr memory(ggml_gallocr_new(type_));
        ggml_gallocr_alloc_graph(memory.get(), token.graph);
        return median_us(runs_, [&] {
            token.set_inputs();
            ggml_backend_graph_compute_async(stream_.get(), token.graph);
            read_logits(token);
            ggml_backend_synchronize(stream_.get());
        });
    }
    void compute(TokenGraph& token) {
        token.set_inputs();
        ggml_backend_sched_graph_compute_async(sched_.get(), token.graph);
        read_logits(token);
        ggml_backend_sched_synchronize(sched_.get());
    }
    double reused() {
        TokenGraph token(model_);
        ggml_backend_sched_reset(sched_.get());
        ggml_backend_sched_alloc_graph(sched_.get(), token.graph);
        return median_us(runs_, [&] { compute(token); });
    }
    double rebuilt() {
        TokenGraph token(model_);
        return median_us(runs_, [&] {
            ggml_backend_sched_reset(sched_.get());
            token.build();
            ggml_backend_sched_alloc_graph(sched_.get(), token.graph);
            compute(token);
        });
    }

    ggml_backend_buffer_type_t type_;
    ggml_backend_ptr stream_, cpu_;
    TokenModel model_;
    int runs_;
    ggml_backend_sched_ptr sched_;
    std::vector<float> logits_ = std::vector<float>(256);
};

/// The stages on the CPU, which computes within the call: a model of the size of `data/tales`.
void print_cpu_stages() {
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(cpu.get(), 1);
    const TokenModel model({.layers = 8,
                            .width = 256,
                            .heads = 8,
                            .kv_heads = 8,
                            .hidden = 704,
                            .cached = 256,
                            .words = 4096,
                            .weights = GGML_TYPE_Q8_0,
                            .cache = GGML_TYPE_F16},
                           ggml_backend_get_default_buffer_type(cpu.get()));
    ggml_backend_t all[] = {cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(all, nullptr, 1, 1 << 12, false, true));
    print_stages(model, cpu.get(), sched.get(), 501);
}

/// Nanoseconds for each of 1,000 additions of one float, by the CPU's stream.
double tiny_node_ns(bool has_uid) {
    constexpr int kNodes = 1000;
    const ggml_context_ptr context(
        ggml_init({.mem_size = std::size_t{1} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    ggml_cgraph* const graph = ggml_new_graph(context.get());
    ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1);
    ggml_tensor* const y = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1);
    ggml_set_f32(x, 1);
    ggml_set_f32(y, 1);
    for (int i = 0; i < kNodes; ++i) x = ggml_add_inplace(context.get(), x, y);
    ggml_build_forward_expand(graph, x);
    if (has_uid) graph->uid = ggml_graph_next_uid();
    const ggml_backend_ptr cpu(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(cpu.get(), 1);
    return median_us(2001, [&] { ggml_backend_graph_compute(cpu.get(), graph); }) * 1e3 / kNodes;
}

}  // namespace

int main() {
    std::printf("%8s %10s %10s %10s %10s %10s %12s\n", "", "bare", "reused", "above bare",
                "building", "rebuilt", "its schedule");
    std::printf("%8s %10s %10s %10s %10s %10s %12s\n", "nodes", "us", "us", "us", "us", "us",
                "ns per node");
    for (const int layers : {3, 33, 330}) Bench(layers).print();
    std::puts("\nmicroseconds of each stage, a graph for every token");
    Bench(33).stages();
    std::puts("\nthe same on the CPU, one thread, 8 layers of 256");
    print_cpu_stages();
    std::printf("\nCPU stream, 1,000 tiny nodes: %.1f ns each, with a uid %.1f ns\n",
                tiny_node_ns(false), tiny_node_ns(true));
}
