// What the host does for each token, in the manner of llama.cpp: write the inputs, compute, read
// the logits, wait. The device has done everything at once, so all that is measured is the host's.
//
//   bare      the device's stream is called directly with a graph that has its memory
//   reused    through the scheduler, with the graph that was allocated for the token before
//   rebuilt   through the scheduler, with a graph that is built and allocated for each token
//   building  the part of it that building the graph takes
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

namespace {

using namespace heddle::bench;

constexpr std::int64_t kWidth = 64, kHeads = 4, kHidden = 128, kCached = 32, kWords = 256;

struct Layer {
    ggml_tensor *attention_norm, *q, *k, *v, *out, *keys, *values;
    ggml_tensor *network_norm, *gate, *up, *down;
};

/// Weights and caches in memory of the device.
class Model {
public:
    Model(int layers, ggml_backend_buffer_type_t type)
        : context_(ggml_init(
              {.mem_size = (static_cast<std::size_t>(layers) * 11 + 8) * ggml_tensor_overhead(),
               .mem_buffer = nullptr,
               .no_alloc = true})) {
        for (int i = 0; i < layers; ++i) {
            layers_.push_back({add(kWidth, 1), add(kWidth, kWidth), add(kWidth, kWidth),
                               add(kWidth, kWidth), add(kWidth, kWidth), add(kWidth, kCached),
                               add(kWidth, kCached), add(kWidth, 1), add(kWidth, kHidden),
                               add(kWidth, kHidden), add(kHidden, kWidth)});
        }
        words = add(kWidth, kWords);
        norm = add(kWidth, 1);
        head = add(kWidth, kWords);
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), type));
        ggml_backend_buffer_set_usage(buffer_.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }

    const std::vector<Layer>& layers() const { return layers_; }
    ggml_tensor *words, *norm, *head;

private:
    ggml_tensor* add(std::int64_t columns, std::int64_t rows) {
        return ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, columns, rows);
    }

    ggml_context_ptr context_;
    ggml_backend_buffer_ptr buffer_;
    std::vector<Layer> layers_;
};

/// The graph of one token, built in the same memory again and again.
class Token {
public:
    explicit Token(const Model& model)
        : model_(model),
          most_nodes_(model.layers().size() * 40 + 64),
          memory_(most_nodes_ * ggml_tensor_overhead() +
                  ggml_graph_overhead_custom(most_nodes_, false) + 4096) {
        build();
    }

    void build() {
        context_.reset();
        context_.reset(ggml_init(
            {.mem_size = memory_.size(), .mem_buffer = memory_.data(), .no_alloc = true}));
        ggml_context* const c = context_.get();
        graph = ggml_new_graph_custom(c, most_nodes_, false);
        word_ = input(ggml_new_tensor_1d(c, GGML_TYPE_I32, 1));
        position_ = input(ggml_new_tensor_1d(c, GGML_TYPE_I32, 1));
        place_ = input(ggml_new_tensor_1d(c, GGML_TYPE_I64, 1));
        mask_ = input(ggml_new_tensor_2d(c, GGML_TYPE_F16, kCached, 1));
        ggml_tensor* x = ggml_get_rows(c, model_.words, word_);
        for (const Layer& layer : model_.layers()) x = network(layer, attention(layer, x));
        x = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), model_.norm);
        logits = ggml_mul_mat(c, model_.head, x);
        ggml_set_output(logits);
        ggml_build_forward_expand(graph, logits);
    }

    void set_inputs() {
        ++number_;
        const std::int32_t word = number_ % kWords, position = number_ % kCached;
        const std::int64_t place = position;
        ggml_backend_tensor_set(word_, &word, 0, sizeof word);
        ggml_backend_tensor_set(position_, &position, 0, sizeof position);
        ggml_backend_tensor_set(place_, &place, 0, sizeof place);
        ggml_backend_tensor_set(mask_, zeros_.data(), 0, ggml_nbytes(mask_));
    }

    ggml_cgraph* graph = nullptr;
    ggml_tensor* logits = nullptr;

private:
    static ggml_tensor* input(ggml_tensor* tensor) {
        ggml_set_input(tensor);
        return tensor;
    }
    ggml_tensor* rotated(ggml_tensor* x) {
        ggml_context* const c = context_.get();
        x = ggml_reshape_3d(c, x, kWidth / kHeads, kHeads, 1);
        return ggml_rope_ext(c, x, position_, nullptr, kWidth / kHeads, 0, 0, 10000, 1, 0, 1, 0, 0);
    }
    ggml_tensor* heads_of(ggml_tensor* cache) {
        ggml_context* const c = context_.get();
        const std::size_t row = kWidth * sizeof(float);
        return ggml_permute(
            c, ggml_view_3d(c, cache, kWidth / kHeads, kHeads, kCached, row / kHeads, row, 0), 0, 2,
            1, 3);
    }
    ggml_tensor* attention(const Layer& layer, ggml_tensor* x) {
        ggml_context* const c = context_.get();
        ggml_tensor* const y = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), layer.attention_norm);
        ggml_tensor* const q = rotated(ggml_mul_mat(c, layer.q, y));
        ggml_tensor* const k = rotated(ggml_mul_mat(c, layer.k, y));
        ggml_tensor* const v = ggml_mul_mat(c, layer.v, y);
        for (ggml_tensor* each : {q, k, v}) ggml_build_forward_expand(graph, each);
        ggml_tensor* const row = ggml_reshape_2d(c, k, kWidth, 1);
        ggml_build_forward_expand(graph, ggml_set_rows(c, layer.keys, row, place_));
        ggml_build_forward_expand(graph, ggml_set_rows(c, layer.values, v, place_));
        ggml_tensor* seen =
            ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), heads_of(layer.keys),
                                heads_of(layer.values), mask_, 0.25F, 0, 0);
        seen = ggml_mul_mat(c, layer.out, ggml_reshape_2d(c, seen, kWidth, 1));
        return ggml_add(c, seen, x);
    }
    ggml_tensor* network(const Layer& layer, ggml_tensor* x) {
        ggml_context* const c = context_.get();
        ggml_tensor* const y = ggml_mul(c, ggml_rms_norm(c, x, 1e-5F), layer.network_norm);
        ggml_tensor* const inner =
            ggml_swiglu_split(c, ggml_mul_mat(c, layer.gate, y), ggml_mul_mat(c, layer.up, y));
        return ggml_add(c, ggml_mul_mat(c, layer.down, inner), x);
    }

    const Model& model_;
    const std::size_t most_nodes_;
    std::vector<char> memory_;
    ggml_context_ptr context_;
    ggml_tensor *word_ = nullptr, *position_ = nullptr, *place_ = nullptr, *mask_ = nullptr;
    std::vector<ggml_fp16_t> zeros_ = std::vector<ggml_fp16_t>(kCached);
    std::int32_t number_ = 0;
};

double now_us() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

template <class Body>
double median_us(int runs, Body&& body) {
    for (int i = 0; i < 10; ++i) body();
    std::vector<double> times(static_cast<std::size_t>(runs));
    for (double& time : times) {
        const double start = now_us();
        body();
        time = now_us() - start;
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return times[static_cast<std::size_t>(runs) / 2];
}

class Bench {
public:
    explicit Bench(int layers)
        : type_(ggml_backend_dev_buffer_type(device())),
          stream_(ggml_backend_dev_init(device(), nullptr)),
          cpu_(ggml_backend_cpu_init()),
          model_(layers, type_),
          runs_(layers > 100 ? 201 : 2001) {
        ggml_backend_t all[] = {stream_.get(), cpu_.get()};
        sched_.reset(ggml_backend_sched_new(all, nullptr, 2, 1 << 15, false, true));
    }

    void print() {
        const double bare_us = bare(), reused_us = reused(), rebuilt_us = rebuilt();
        Token token(model_);
        const double building_us = median_us(runs_, [&] { token.build(); });
        const int nodes = ggml_graph_n_nodes(token.graph);
        std::printf("%8d %10.2f %10.2f %10.2f %10.2f %10.2f %12.1f\n", nodes, bare_us, reused_us,
                    reused_us - bare_us, building_us, rebuilt_us,
                    (rebuilt_us - building_us - bare_us) * 1e3 / nodes);
    }

private:
    static ggml_backend_dev_t device() {
        return ggml_backend_reg_dev_get(heddle::plugin::registration<NullRegistration>(), 0);
    }
    void read_logits(const Token& token) {
        ggml_backend_tensor_get_async(stream_.get(), token.logits, logits_.data(), 0,
                                      ggml_nbytes(token.logits));
    }

    double bare() {
        Token token(model_);
        const ggml_gallocr_ptr memory(ggml_gallocr_new(type_));
        ggml_gallocr_alloc_graph(memory.get(), token.graph);
        return median_us(runs_, [&] {
            token.set_inputs();
            ggml_backend_graph_compute_async(stream_.get(), token.graph);
            read_logits(token);
            ggml_backend_synchronize(stream_.get());
        });
    }
    void compute(Token& token) {
        token.set_inputs();
        ggml_backend_sched_graph_compute_async(sched_.get(), token.graph);
        read_logits(token);
        ggml_backend_sched_synchronize(sched_.get());
    }
    double reused() {
        Token token(model_);
        ggml_backend_sched_reset(sched_.get());
        ggml_backend_sched_alloc_graph(sched_.get(), token.graph);
        return median_us(runs_, [&] { compute(token); });
    }
    double rebuilt() {
        Token token(model_);
        return median_us(runs_, [&] {
            ggml_backend_sched_reset(sched_.get());
            token.build();
            ggml_backend_sched_alloc_graph(sched_.get(), token.graph);
            compute(token);
        });
    }

    ggml_backend_buffer_type_t type_;
    ggml_backend_ptr stream_, cpu_;
    Model model_;
    int runs_;
    ggml_backend_sched_ptr sched_;
    std::vector<float> logits_ = std::vector<float>(kWords);
};

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
    std::printf("\nCPU stream, 1,000 tiny nodes: %.1f ns each, with a uid %.1f ns\n",
                tiny_node_ns(false), tiny_node_ns(true));
}
