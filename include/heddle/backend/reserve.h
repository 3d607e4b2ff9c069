/// What a graph needs on a stream besides the memory of its tensors.
///
/// Kernels may need scratch memory that is no tensor's. A registration may offer by
/// ggml_backend_reg_get_proc_address(), under the name HEDDLE_STREAM_RESERVE, a function that takes
/// it: schedulers call it when memory for a graph is reserved, so that a graph that was reserved
/// will run.
#pragma once

#include "../../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_STREAM_RESERVE "heddle_stream_reserve"

/// Takes what `stream`, of the registration that gave the function, needs to compute `graph`, whose
/// tensors need no memory yet. What was taken before is kept or grows. GGML_STATUS_ALLOC_FAILED if
/// it cannot be had; then all that was reserved before still runs.
typedef enum ggml_status (*heddle_stream_reserve_t)(ggml_backend_t stream,
                                                    struct ggml_cgraph* graph);

#ifdef __cplusplus
}
#endif
