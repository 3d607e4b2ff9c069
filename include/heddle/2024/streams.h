/// Computing and comparing: included by ggml-backend-2024.h.
#pragma once

#include "../../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Computes a graph and waits. True if that went well; today's status would read the other way.
static inline bool heddle_2024_graph_compute(ggml_backend_t backend, struct ggml_cgraph* cgraph) {
    return ggml_backend_graph_compute(backend, cgraph) == GGML_STATUS_SUCCESS;
}

/// Computes a graph on two streams and shows `callback` the results node by node. False if it
/// cannot be copied to `backend2`.
static inline bool heddle_2024_compare_graph_backend(ggml_backend_t backend1,
                                                     ggml_backend_t backend2,
                                                     struct ggml_cgraph* graph,
                                                     ggml_backend_eval_callback callback,
                                                     void* user_data) {
    return ggml_backend_compare_graph_backend(backend1, backend2, graph, callback, user_data, NULL,
                                              0);
}

#ifdef __cplusplus
}
#endif

#define ggml_backend_graph_compute heddle_2024_graph_compute
#define ggml_backend_compare_graph_backend heddle_2024_compare_graph_backend
