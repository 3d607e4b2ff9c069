/* A program written for ggml: it knows nothing of other machines, only the registry. What it computes on
 * devices that the registry calls MPI is what it computes on the processor; the scheduler may use them all.
 *
 *     mpi_plain_client DEVICES
 *
 * fails unless the registry has so many devices of other ranks. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

enum { kRows = 96, kColumns = 64, kBatch = 5, kMost = 16 };

static void die(const char* what) {
    fprintf(stderr, "mpi_plain_client: %s\n", what);
    exit(1);
}

static void fill(float* values, int count, int seed) {
    for (int i = 0; i < count; ++i) values[i] = (float)((i * 37 + seed * 11) % 23 - 11) / 8.0F;
}

/* relu(w x) + 1, as a graph. */
static struct ggml_cgraph* build(struct ggml_context* context, struct ggml_tensor** w,
                                 struct ggml_tensor** x, struct ggml_tensor** y) {
    *w = ggml_new_tensor_2d(context, GGML_TYPE_F32, kColumns, kRows);
    *x = ggml_new_tensor_2d(context, GGML_TYPE_F32, kColumns, kBatch);
    ggml_set_input(*x);
    *y = ggml_scale(context, ggml_relu(context, ggml_mul_mat(context, *w, *x)), 0.5F);
    ggml_set_output(*y);
    struct ggml_cgraph* graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, *y);
    return graph;
}

static struct ggml_context* make_context(void) {
    const struct ggml_init_params params = {
        ggml_tensor_overhead() * 16 + ggml_graph_overhead() + 1024, NULL, true};
    return ggml_init(params);
}

static void set_inputs(struct ggml_tensor* w, struct ggml_tensor* x) {
    static float weights[kRows * kColumns], inputs[kBatch * kColumns];
    fill(weights, kRows * kColumns, 1);
    fill(inputs, kBatch * kColumns, 2);
    ggml_backend_tensor_set(w, weights, 0, ggml_nbytes(w));
    ggml_backend_tensor_set(x, inputs, 0, ggml_nbytes(x));
}

static bool stops(void* asked) {
    ++*(int*)asked;
    return true;
}

/* As programs end a graph that takes too long: the callback is asked while the graph runs, and the
 * backend goes on as soon as there is none any more. */
static void stop(ggml_backend_dev_t device, ggml_backend_t backend, struct ggml_cgraph* graph) {
    void* const found = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device),
                                                          "ggml_backend_set_abort_callback");
    ggml_backend_set_abort_callback_t set = NULL;
    memcpy(&set, &found, sizeof set);
    if (set == NULL) die("a device cannot be stopped");
    int asked = 0, aborted = 0;
    set(backend, stops, &asked);
    for (int i = 0; i < 1000 && aborted == 0; ++i) { /* a small graph may be faster */
        aborted = ggml_backend_graph_compute(backend, graph) == GGML_STATUS_ABORTED;
    }
    set(backend, NULL, NULL);
    if (asked == 0 || aborted == 0) die("nothing was stopped");
}

static void run_on(ggml_backend_dev_t device, float* out) {
    ggml_backend_t backend = ggml_backend_dev_init(device, NULL);
    if (backend == NULL) die("a device does not start");
    struct ggml_context* context = make_context();
    struct ggml_tensor *w, *x, *y;
    struct ggml_cgraph* graph = build(context, &w, &x, &y);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
    if (buffer == NULL) die("a device has no memory");
    set_inputs(w, x);
    stop(device, backend, graph);
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) die("a graph failed");
    ggml_backend_tensor_get(y, out, 0, ggml_nbytes(y));
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    ggml_backend_free(backend);
}

static void schedule_over(ggml_backend_dev_t* devices, int count, float* out) {
    ggml_backend_t backends[kMost + 1];
    for (int i = 0; i < count; ++i) backends[i] = ggml_backend_dev_init(devices[i], NULL);
    backends[count] = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_sched_t sched =
        ggml_backend_sched_new(backends, NULL, count + 1, GGML_DEFAULT_GRAPH_SIZE, true, true);
    struct ggml_context* context = make_context();
    struct ggml_tensor *w, *x, *y;
    struct ggml_cgraph* graph = build(context, &w, &x, &y);
    ggml_backend_sched_set_tensor_backend(sched, ggml_graph_node(graph, 0), backends[0]);
    ggml_backend_sched_set_tensor_backend(sched, y, backends[count - 1]);
    if (!ggml_backend_sched_alloc_graph(sched, graph)) die("the scheduler has no memory");
    set_inputs(w, x);
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS) die("it failed");
    ggml_backend_tensor_get(y, out, 0, ggml_nbytes(y));
    if (ggml_backend_sched_get_n_splits(sched) < count) die("the scheduler left a device out");
    ggml_backend_sched_free(sched);
    ggml_free(context);
    for (int i = 0; i <= count; ++i) ggml_backend_free(backends[i]);
}

static void expect_same(const char* where, const float* found, const float* expected) {
    for (int i = 0; i < kRows * kBatch; ++i) {
        if (fabsf(found[i] - expected[i]) <= 1e-4F) continue;
        fprintf(stderr, "mpi_plain_client: %s: value %d is %g, not %g\n", where, i, found[i],
                expected[i]);
        exit(1);
    }
    printf("%s: the same values\n", where);
}

/* The order of the registry, and what programs take that want one device. */
static void show_order(void) {
    printf("order:");
    for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        printf(" %s", ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    ggml_backend_t best = ggml_backend_init_best();
    if (best == NULL) die("there is no device");
    printf("\nbest: %s\n", ggml_backend_name(best));
    ggml_backend_free(best);
}

int main(int argc, char** argv) {
    static float expected[kRows * kBatch], found[kRows * kBatch];
    ggml_backend_dev_t remote[kMost];
    int count = 0;
    if (argc != 2) return 2;
    ggml_backend_load_all();
    show_order();
    for (size_t i = 0; i < ggml_backend_dev_count() && count < kMost; ++i) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        struct ggml_backend_dev_props props;
        if (strncmp(ggml_backend_dev_name(device), "MPI", 3) != 0) continue;
        ggml_backend_dev_get_props(device, &props);
        if (!props.caps.async || !props.caps.events) die("no pipelining: async or events lack");
        if (strcmp(ggml_backend_reg_name(ggml_backend_dev_backend_reg(device)), "RPC") != 0) {
            die("the registration is not called RPC");
        }
        if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU) die("it is no GPU");
        remote[count++] = device;
    }
    if (count != atoi(argv[1])) {
        fprintf(stderr, "mpi_plain_client: %d devices of other ranks, not %s\n", count, argv[1]);
        return 1;
    }
    run_on(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), expected);
    for (int i = 0; i < count; ++i) {
        run_on(remote[i], found);
        expect_same(ggml_backend_dev_name(remote[i]), found, expected);
    }
    if (count > 0) {
        schedule_over(remote, count, found);
        expect_same("all of them, scheduled", found, expected);
    }
    return 0;
}
