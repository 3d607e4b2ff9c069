// A model of the shape of Mistral 7B with made-up weights, on any device that is named:
// milliseconds for a token, and for a prompt. Or what a graph of 1,000 small nodes costs the host.
// Prints a table.
//
//   vulkan_bench PLUGIN DEVICE [TYPE] [LAYERS] [PROMPT]
//   vulkan_bench PLUGIN DEVICE replay

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"
#include "ggml/ops.h"

namespace {

struct Shape {
    std::int64_t width = 4096, heads = 32, kv_heads = 8, head = 128, hidden = 14336, words = 32000;
    int layers = 32;
};

struct Layer {
    ggml_tensor *attention_norm, *q, *k, *v, *o, *keys, *values;
    ggml_tensor *norm, *gate, *up, *down;
};

/// Weights and caches of all layers, in memory of the stream's device.
struct Model {
    Shape shape;
    std::int64_t context_length = 1024;
    ggml_context_ptr context;
    ggml_backend_buffer_ptr buffer;
    std::vector<Layer> layers;
    ggml_tensor *norm = nullptr, *output = nullptr;

    Model(ggml_backend_t stream, ggml_type type, int layer_count) {
        shape.layers = layer_count;
        context.reset(ggml_init({std::size_t{1} << 24, nullptr, true}));
        const auto matrix = [&](std::int64_t from, std::int64_t to) {
            return ggml_new_tensor_2d(context.get(), type, from, to);
        };
        const auto vector = [&] {
            return ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, shape.width);
        };
        const std::int64_t kv = shape.kv_heads * shape.head;
        const auto cache = [&] {
            return ggml_new_tensor_2d(context.get(), GGML_TYPE_F16, kv, context_length);
        };
        for (int i = 0; i < shape.layers; ++i) {
            layers.push_back({vector(), matrix(shape.width, shape.width), matrix(shape.width, kv),
                              matrix(shape.width, kv), matrix(shape.width, shape.width), cache(),
                              cache(), vector(), matrix(shape.width, shape.hidden),
                              matrix(shape.width, shape.hidden),
                              matrix(shape.hidden, shape.width)});
        }
        norm = vector();
        output = matrix(shape.width, shape.words);
        buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), stream));
        if (buffer != nullptr) fill(type);
    }

    /// Random numbers, the same rows again and again: what they are does not matter, zeros would.
    void fill(ggml_type type) const {
        std::mt19937 random(1);
        std::normal_distribution<float> normal(0, 0.02f);
        constexpr std::int64_t rows = 64;
        std::vector<float> values(static_cast<std::size_t>(rows * shape.hidden));
        for (float& value : values) value = normal(random);
        for (ggml_tensor* t = ggml_get_first_tensor(context.get()); t != nullptr;
             t = ggml_get_next_tensor(context.get(), t)) {
            const std::size_t row = ggml_row_size(t->type, t->ne[0]);
            std::vector<char> bytes(row * rows, 0);
            if (t->type == type) {
                ggml_quantize_chunk(type, values.data(), bytes.data(), 0, rows, t->ne[0], nullptr);
            } else if (t->type == GGML_TYPE_F32) {
                const std::vector<float> ones(static_cast<std::size_t>(t->ne[0]), 1.0f);
                std::copy_n(reinterpret_cast<const char*>(ones.data()), row, bytes.data());
            }
            for (std::size_t at = 0; at < ggml_nbytes(t); at += bytes.size()) {
                const std::size_t size = std::min(bytes.size(), ggml_nbytes(t) - at);
                ggml_backend_tensor_set(t, bytes.data(), at, size);
            }
        }
    }
};

/// The graph of `tokens` tokens after `past` others.
struct Run {
    ggml_context_ptr context;
    ggml_gallocr_ptr memory;
    ggml_cgraph* graph = nullptr;

    Run(const Model& model, ggml_backend_t stream, std::int64_t tokens, std::int64_t past) {
        context.reset(ggml_init({std::size_t{1} << 25, nullptr, true}));
        ggml_context* c = context.get();
        const Shape& s = model.shape;
        const std::int64_t keys = past + tokens;
        graph = ggml_new_graph_custom(c, 4096, false);
        ggml_tensor* x = ggml_new_tensor_2d(c, GGML_TYPE_F32, s.width, tokens);
        ggml_tensor* positions = ggml_new_tensor_1d(c, GGML_TYPE_I32, tokens);
        ggml_tensor* rows = ggml_new_tensor_1d(c, GGML_TYPE_I64, tokens);
        ggml_tensor* mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, keys, tokens);
        for (ggml_tensor* input : {x, positions, rows, mask}) {
            ggml_set_input(input);
            ggml_set_output(input);  // it is kept for the next run
        }
        ggml_tensor* hidden = x;
        for (const Layer& layer : model.layers) {
            hidden = add_layer(model, layer, hidden, positions, rows, mask, keys);
        }
        hidden = ggml_mul(c, ggml_rms_norm(c, hidden, 1e-5f), model.norm);
        if (tokens > 1) {  // only the last one is wanted
            hidden = ggml_view_1d(c, hidden, s.width, (tokens - 1) * s.width * 4);
        }
        ggml_build_forward_expand(graph, ggml_mul_mat(c, model.output, hidden));
        memory.reset(ggml_gallocr_new(ggml_backend_get_default_buffer_type(stream)));
        if (!ggml_gallocr_alloc_graph(memory.get(), graph)) graph = nullptr;
        if (graph != nullptr) fill(x, positions, rows, mask, past);
    }

    ggml_tensor* add_layer(const Model& model, const Layer& layer, ggml_tensor* x,
                           ggml_tensor* positions, ggml_tensor* rows, ggml_tensor* mask,
                           std::int64_t keys) const {
        ggml_context* c = context.get();
        const Shape& s = model.shape;
        const std::int64_t tokens = x->ne[1];
        const int head = static_cast<int>(s.head);
        const auto rope = [&](ggml_tensor* t) {
            return ggml_rope_ext(c, t, positions, nullptr, head, GGML_ROPE_TYPE_NORMAL, 0, 10000.0f,
                                 1, 0, 1, 32, 1);
        };
        ggml_tensor* a = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), layer.attention_norm);
        ggml_tensor* q = ggml_mul_mat(c, layer.q, a);
        ggml_tensor* k = ggml_mul_mat(c, layer.k, a);
        ggml_tensor* v = ggml_mul_mat(c, layer.v, a);
        // Side by side, as a scheduler has a device put them.
        for (ggml_tensor* product : {q, k, v}) ggml_build_forward_expand(graph, product);
        q = rope(ggml_reshape_3d(c, q, s.head, s.heads, tokens));
        k = rope(ggml_reshape_3d(c, k, s.head, s.kv_heads, tokens));
        k = ggml_reshape_2d(c, k, s.head * s.kv_heads, tokens);
        ggml_build_forward_expand(graph, q);
        ggml_build_forward_expand(graph, ggml_set_rows(c, layer.keys, k, rows));
        ggml_build_forward_expand(graph, ggml_set_rows(c, layer.values, v, rows));
        const auto cached = [&](ggml_tensor* t) {
            return ggml_view_3d(c, t, s.head, keys, s.kv_heads, t->nb[1],
                                ggml_row_size(t->type, s.head), 0);
        };
        ggml_tensor* y = ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), cached(layer.keys),
                                             cached(layer.values), mask, 0.088388f, 0, 0);
        y = ggml_mul_mat(c, layer.o, ggml_reshape_2d(c, y, s.width, tokens));
        x = ggml_add(c, x, y);
        a = ggml_mul(c, ggml_rms_norm(c, x, 1e-5f), layer.norm);
        y = ggml_swiglu_split(c, ggml_mul_mat(c, layer.gate, a), ggml_mul_mat(c, layer.up, a));
        return ggml_add(c, x, ggml_mul_mat(c, layer.down, y));
    }

    static void fill(ggml_tensor* x, ggml_tensor* positions, ggml_tensor* rows, ggml_tensor* mask,
                     std::int64_t past) {
        std::mt19937 random(2);
        std::normal_distribution<float> normal;
        std::vector<float> values(static_cast<std::size_t>(ggml_nelements(x)));
        for (float& value : values) value = normal(random);
        ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
        const std::int64_t tokens = positions->ne[0];
        const ggml_fp16_t minus_infinity = 0xfc00;
        std::vector<ggml_fp16_t> masked(static_cast<std::size_t>(ggml_nelements(mask)), 0);
        for (std::int64_t i = 0; i < tokens; ++i) {
            const auto position = static_cast<std::int32_t>(past + i);
            const std::int64_t row = past + i;
            const auto at = static_cast<std::size_t>(i);
            ggml_backend_tensor_set(positions, &position, at * sizeof position, sizeof position);
            ggml_backend_tensor_set(rows, &row, at * sizeof row, sizeof row);
            for (std::int64_t key = past + i + 1; key < mask->ne[0]; ++key) {
                masked[static_cast<std::size_t>(i * mask->ne[0] + key)] = minus_infinity;
            }
        }
        ggml_backend_tensor_set(mask, masked.data(), 0, ggml_nbytes(mask));
    }
};

/// The least milliseconds of all runs in a second, as clocks take a while to rise; below 0 if one
/// failed.
double measure(ggml_backend_t stream, ggml_cgraph* graph) {
    using Clock = std::chrono::steady_clock;
    if (ggml_backend_graph_compute(stream, graph) != GGML_STATUS_SUCCESS) return -1;
    double best = -1;  // what is compiled at first is not measured
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (best < 0 || Clock::now() < end) {
        const auto begin = Clock::now();
        if (ggml_backend_graph_compute(stream, graph) != GGML_STATUS_SUCCESS) return -1;
        const std::chrono::duration<double, std::milli> taken = Clock::now() - begin;
        if (best < 0 || taken.count() < best) best = taken.count();
    }
    return best;
}

// ---- repeated graphs ---------------------------------------------------------------------------

/// Least microseconds of several calls of `enqueue` and of what follows until the work is done.
template <class Enqueue, class Wait>
void print_host_time(const char* name, const Enqueue& enqueue, const Wait& wait) {
    using Clock = std::chrono::steady_clock;
    using Microseconds = std::chrono::duration<double, std::micro>;
    double first = 0, host = 1e9, all = 1e9;
    for (int i = 0; i < 50; ++i) {
        const auto begin = Clock::now();
        if (enqueue() != GGML_STATUS_SUCCESS) {
            std::printf("%-12s failed\n", name);
            return;
        }
        const auto enqueued = Clock::now();
        wait();
        const auto end = Clock::now();
        if (i == 0) first = Microseconds(enqueued - begin).count();
        host = std::min(host, Microseconds(enqueued - begin).count());
        all = std::min(all, Microseconds(end - begin).count());
    }
    std::printf("%-12s %12.1f %12.1f %12.1f\n", name, first, host, all);
}

/// A chain of 1,000 additions, as a graph of the stream's and through a scheduler.
int measure_replay(ggml_backend_t stream) {
    const ggml_context_ptr context(ggml_init({std::size_t{1} << 22, nullptr, true}));
    ggml_tensor* x = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64);
    ggml_tensor* y = x;
    for (int i = 0; i < 1000; ++i) y = ggml_add(context.get(), y, x);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 2048, false);
    ggml_build_forward_expand(graph, y);
    const ggml_backend_buffer_ptr memory(ggml_backend_alloc_ctx_tensors(context.get(), stream));
    if (memory == nullptr) return std::fprintf(stderr, "no memory for the graph\n"), 1;
    ggml_backend_buffer_clear(memory.get(), 0);
    std::printf("microseconds %12s %12s %12s\n", "first", "host", "until done");
    print_host_time(
        "stream", [&] { return ggml_backend_graph_compute_async(stream, graph); },
        [&] { ggml_backend_synchronize(stream); });
    const ggml_backend_ptr cpu(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    ggml_backend_t streams[] = {stream, cpu.get()};
    const ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(streams, nullptr, 2, 2048, false, false));
    print_host_time(
        "scheduler", [&] { return ggml_backend_sched_graph_compute_async(sched.get(), graph); },
        [&] { ggml_backend_sched_synchronize(sched.get()); });
    return 0;
}

// ---- the command line --------------------------------------------------------------------------

ggml_type type_named(const std::string& name) {
    for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
        const char* known = ggml_type_name(static_cast<ggml_type>(type));
        if (known != nullptr && name == known) return static_cast<ggml_type>(type);
    }
    return GGML_TYPE_COUNT;
}

}  // namespace

int main(int count, char** words) {
    if (count < 3) {
        return std::fprintf(stderr, "vulkan_bench PLUGIN DEVICE [TYPE|replay] [LAYERS] [PROMPT]\n"),
               2;
    }
    ggml_backend_load(words[1]);
    const ggml_backend_ptr stream(ggml_backend_init_by_name(words[2], nullptr));
    if (stream == nullptr) return std::fprintf(stderr, "no device %s\n", words[2]), 1;
    const std::string what = count > 3 ? words[3] : "q4_0";
    if (what == "replay") return measure_replay(stream.get());
    const ggml_type type = type_named(what);
    if (type == GGML_TYPE_COUNT) return std::fprintf(stderr, "no type %s\n", words[3]), 1;
    const int prompt = count > 5 ? std::atoi(words[5]) : 512;
    if (prompt < 1 || prompt > 1024) {
        return std::fprintf(stderr, "a prompt of %d tokens, not of 1 to 1024\n", prompt), 1;
    }
    const Model model(stream.get(), type, count > 4 ? std::atoi(words[4]) : 32);
    if (model.buffer == nullptr) return std::fprintf(stderr, "no memory for the weights\n"), 1;
    const double gigabytes =
        static_cast<double>(ggml_backend_buffer_get_size(model.buffer.get())) / 1e9;
    std::printf("%s, %s, %d layers, %.2f GB\n", words[2], ggml_type_name(type), model.shape.layers,
                gigabytes);
    std::printf("%8s %8s %12s %12s %12s\n", "tokens", "after", "ms", "tokens/s", "GB/s");
    for (const auto& [tokens, past] : {std::pair{1, 0}, {1, 511}, {8, 504}, {prompt, 0}}) {
        const Run run(model, stream.get(), tokens, past);
        if (run.graph == nullptr) return std::fprintf(stderr, "no memory for the graph\n"), 1;
        const double taken = measure(stream.get(), run.graph);
        if (taken < 0) return std::fprintf(stderr, "the graph failed\n"), 1;
        std::printf("%8d %8d %12.3f %12.1f %12.1f\n", tokens, past, taken, 1000 * tokens / taken,
                    1000 * gigabytes / taken);
        std::fflush(stdout);
    }
    return 0;
}
