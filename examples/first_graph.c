#include <stdio.h>

#include "ggml-backend.h"
#include "ggml.h"

int main(void) {
    ggml_backend_t device = ggml_backend_init_best();

    struct ggml_init_params params = {ggml_tensor_overhead() * 8 + ggml_graph_overhead(), NULL,
                                      true};
    struct ggml_context* ctx = ggml_init(params);
    struct ggml_tensor* a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 2, 2);
    struct ggml_tensor* b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 2, 2);
    struct ggml_tensor* sum = ggml_add(ctx, a, b);
    struct ggml_cgraph* graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, sum);
    ggml_backend_buffer_t memory = ggml_backend_alloc_ctx_tensors(ctx, device);

    const float x[4] = {1, 2, 3, 4}, y[4] = {10, 20, 30, 40};
    ggml_backend_tensor_set(a, x, 0, sizeof x);
    ggml_backend_tensor_set(b, y, 0, sizeof y);
    ggml_backend_graph_compute(device, graph);

    float z[4];
    ggml_backend_tensor_get(sum, z, 0, sizeof z);
    printf("%g %g %g %g\n", z[0], z[1], z[2], z[3]);  // 11 22 33 44

    ggml_backend_buffer_free(memory);
    ggml_free(ctx);
    ggml_backend_free(device);
}
