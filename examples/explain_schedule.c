// One graph over two devices, and a page that shows how it is run.
//
//   explain_schedule schedule.html [blocks]
#include <stdio.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "ggml.h"
#include "heddle/heddle.h"
#include "heddle/sched.h"

enum { WIDTH = 512, BATCH = 64 };

static struct ggml_context* make_context(size_t tensors) {
    struct ggml_init_params params = {
        ggml_tensor_overhead() * tensors + ggml_graph_overhead_custom(tensors, false), NULL, true};
    return ggml_init(params);
}

static struct ggml_tensor* weight(struct ggml_context* ctx, const char* name, int block) {
    struct ggml_tensor* made = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, WIDTH);
    return ggml_format_name(made, "block%d.%s", block, name);
}

// Memory for all tensors of a context, filled and marked as weights.
static ggml_backend_buffer_t place_weights(struct ggml_context* ctx, ggml_backend_t device) {
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, device);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(buffer, 0);
    return buffer;
}

// A chain of blocks, each of which needs two weights of the device and one of the host.
static struct ggml_tensor* add_blocks(struct ggml_context* ctx, struct ggml_context* on_device,
                                      struct ggml_context* on_host, struct ggml_tensor* flow,
                                      int blocks) {
    for (int i = 0; i < blocks; ++i) {
        struct ggml_tensor *a, *b, *d, *e;
        a = ggml_format_name(ggml_mul_mat(ctx, weight(on_device, "wg", i), flow), "a%d", i);
        b = ggml_format_name(ggml_silu(ctx, a), "b%d", i);
        d = ggml_format_name(ggml_mul_mat(ctx, weight(on_host, "wc", i), b), "d%d", i);
        e = ggml_format_name(ggml_silu(ctx, d), "e%d", i);
        flow = ggml_format_name(ggml_mul_mat(ctx, weight(on_device, "wo", i), e), "f%d", i);
    }
    return flow;
}

// Prints the schedule of the last run and writes it as a page; 0 if both were possible.
static int explain(ggml_backend_sched_t sched, const char* path) {
    const char* text = heddle_sched_explain(sched, HEDDLE_EXPLAIN_TEXT);
    if (text) fputs(text, stdout);
    const char* page = text ? heddle_sched_explain(sched, HEDDLE_EXPLAIN_HTML) : NULL;
    if (!page) return fprintf(stderr, "%s\n", heddle_last_error()), 1;
    FILE* file = fopen(path, "w");
    if (!file || fputs(page, file) < 0 || fclose(file) != 0) return perror(path), 1;
    printf("\nwrote %s\n", path);
    return 0;
}

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "schedule.html";
    const int blocks = argc > 2 ? atoi(argv[2]) : 1;
    if (blocks < 1 || blocks > 1000) return fprintf(stderr, "blocks: 1 to 1000\n"), 1;

    // A simulated accelerator with memory of its own, and the processor. The last one is a CPU: it
    // runs what no other can, and inputs are at home there.
    ggml_backend_dev_t accelerator = ggml_backend_dev_by_name("sim:flops=4T,link=16G,latency=2us");
    if (!accelerator) return fprintf(stderr, "%s\n", heddle_last_error()), 1;
    ggml_backend_t devices[2] = {
        ggml_backend_dev_init(accelerator, NULL),
        ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL),
    };

    // Two of three weights of each block are on the accelerator, one is on the host.
    struct ggml_context* on_device = make_context(2 * (size_t)blocks);
    struct ggml_context* on_host = make_context((size_t)blocks);
    struct ggml_context* ctx = make_context(8 * (size_t)blocks + 8);
    struct ggml_tensor* x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, WIDTH, BATCH);
    ggml_set_name(x, "x");
    ggml_set_input(x);
    struct ggml_tensor* y = add_blocks(ctx, on_device, on_host, x, blocks);
    ggml_set_output(y);
    struct ggml_cgraph* graph = ggml_new_graph_custom(ctx, 8 * (size_t)blocks + 8, false);
    ggml_build_forward_expand(graph, y);
    ggml_backend_buffer_t device_weights = place_weights(on_device, devices[0]);
    ggml_backend_buffer_t host_weights = place_weights(on_host, devices[1]);

    ggml_backend_sched_t sched =
        ggml_backend_sched_new(devices, NULL, 2, 8 * (size_t)blocks + 8, false, false);
    heddle_sched_set_tracing(sched, true);
    int result = !ggml_backend_sched_alloc_graph(sched, graph);
    if (result == 0) ggml_backend_tensor_memset(x, 0, 0, ggml_nbytes(x));
    for (int run = 0; run < 2 && result == 0; ++run) {  // the first one starts streams
        result = ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS;
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", heddle_last_error());
    } else {
        result = explain(sched, path);
    }

    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(device_weights);
    ggml_backend_buffer_free(host_weights);
    ggml_free(ctx);
    ggml_free(on_host);
    ggml_free(on_device);
    ggml_backend_free(devices[0]);
    ggml_backend_free(devices[1]);
    return result;
}
