// A library over the installed one: a device, weights, a scheduler, a result.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

extern "C" int speech_hears(void);

extern "C" int speech_hears(void) {
    ggml_backend_load_all();
    ggml_backend_ptr cpu(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    const ggml_init_params params = {1 << 20, nullptr, true};
    ggml_context_ptr ctx(ggml_init(params));
    ggml_tensor* const x = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, 4);
    ggml_set_input(x);
    ggml_cgraph* const graph = ggml_new_graph(ctx.get());
    ggml_build_forward_expand(graph, ggml_sum(ctx.get(), x));
    ggml_backend_t streams[] = {cpu.get()};
    ggml_backend_sched_ptr sched(
        ggml_backend_sched_new(streams, nullptr, 1, GGML_DEFAULT_GRAPH_SIZE, false, true));
    if (!ggml_backend_sched_alloc_graph(sched.get(), graph)) return -1;
    const float values[] = {1, 2, 3, 4};
    ggml_backend_tensor_set(x, values, 0, sizeof values);
    if (ggml_backend_sched_graph_compute(sched.get(), graph) != GGML_STATUS_SUCCESS) return -2;
    float sum = 0;
    ggml_backend_tensor_get(ggml_graph_node(graph, -1), &sum, 0, sizeof sum);
    return static_cast<int>(sum);
}
