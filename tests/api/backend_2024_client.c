// A program in C of those days; compiled once for each generation.
#include "heddle/ggml-backend-2024.h"

#if HEDDLE_2024_GENERATION == 1
#define old_client old_client_of_generation_1
#else
#define old_client old_client_of_generation_2
#endif

const char* old_client(ggml_backend_t device, ggml_backend_t cpu);

enum { N = 4 };

static struct ggml_cgraph* build(struct ggml_context* ctx, struct ggml_tensor* w,
                                 struct ggml_tensor** x, struct ggml_tensor** y) {
    struct ggml_cgraph* graph = ggml_new_graph(ctx);
    *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N);
    *y = ggml_sqr(ctx, ggml_add(ctx, *x, w));
    ggml_build_forward_expand(graph, *y);
    return graph;
}

static const char* compute(ggml_backend_sched_t sched, ggml_backend_t where, struct ggml_tensor* w,
                           struct ggml_context* ctx, float value) {
    struct ggml_tensor *x, *y;
    struct ggml_cgraph* graph = build(ctx, w, &x, &y);
    const float in[N] = {value, value, value, value};
    float out[N];
    ggml_backend_sched_reset(sched);
    ggml_tallocr_alloc(ggml_backend_sched_get_tallocr(sched, where), x);
    if (x->buffer != ggml_backend_sched_get_buffer(sched, where)) return "input not in its place";
    ggml_backend_tensor_set(x, in, 0, sizeof in);
    ggml_backend_sched_graph_compute(sched, graph);
    ggml_backend_tensor_get(y, out, 0, sizeof out);
    if (out[0] != (value + 1) * (value + 1) || out[N - 1] != out[0]) return "a wrong result";
    return "";
}

/// What is wrong; "" if all is well.
const char* old_client(ggml_backend_t device, ggml_backend_t cpu) {
    const struct ggml_init_params params = {1 << 20, NULL, true};
    struct ggml_context* const weights = ggml_init(params);
    struct ggml_context* const ctx = ggml_init(params);
    struct ggml_tensor* const w = ggml_new_tensor_1d(weights, GGML_TYPE_F32, N);
    ggml_backend_buffer_t const buffer = ggml_backend_alloc_ctx_tensors(weights, device);
    ggml_backend_t backends[] = {device, cpu};
    const float ones[N] = {1, 1, 1, 1};
    struct ggml_tensor *x, *y;
    const char* wrong = "";
    ggml_backend_sched_t sched;

#if HEDDLE_2024_GENERATION == 1
    sched = ggml_backend_sched_new(backends, 2);
    ggml_backend_tensor_set_async(w, ones, 0, sizeof ones);
    ggml_backend_synchronize(ggml_get_backend(w));
#else
    sched = ggml_backend_sched_new(backends, NULL, 2, 64);
    ggml_backend_tensor_set_async(device, w, ones, 0, sizeof ones);
    ggml_backend_synchronize(device);
#endif
    if (ggml_backend_reg_find_by_name("CPU") != 0) wrong = "the processor is not entry 0";
    if (ggml_backend_buffer_type(buffer) != ggml_backend_get_default_buffer_type(device)) {
        wrong = "a buffer of another type";
    }
    ggml_backend_sched_init_measure(sched, build(ctx, w, &x, &y));
    for (int i = 0; i < 4 && *wrong == '\0'; ++i) {
        wrong = compute(sched, i % 2 == 0 ? device : cpu, w, ctx, (float)i);
    }
    ggml_backend_sched_free(sched);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_free(weights);
    return wrong;
}
