/// What the CPU backend offers beyond `ggml-cpu.h`: functions to be found by name with
/// ggml_backend_reg_get_proc_address() in the registration "CPU".
#pragma once

#include "../ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// "heddle_cpu_set_isa": from now on kernels run in the form for instruction set `name`, in the
/// whole process; NULL or "best" goes back to the best one. No graph may be running. False, with
/// the reason in heddle_last_error(), for names that are not in the list.
typedef bool (*heddle_cpu_set_isa_t)(const char* name);

/// "heddle_cpu_isa_names": the instruction sets that kernels are built for and this machine has,
/// best first, the plain one last, then NULL. Static.
typedef const char* const* (*heddle_cpu_isa_names_t)(void);

/// "ggml_backend_cpu_hbm_buffer_type": the buffer type "CPU_HBM", host memory with high bandwidth;
/// NULL on machines without.
typedef ggml_backend_buffer_type_t (*heddle_cpu_hbm_buffer_type_t)(void);

/// When nodes of a graph are computed together. Results are the same to the bit, only sooner.
enum heddle_cpu_fusion GGML_ENUM_INT {
    HEDDLE_CPU_FUSION_OFF = 0,     ///< Never.
    HEDDLE_CPU_FUSION_ON = 1,      ///< Where that saves time: how streams begin.
    HEDDLE_CPU_FUSION_ALWAYS = 2,  ///< Wherever it is possible, to test it.
};

/// "heddle_cpu_set_fusion": how `backend`, a CPU stream, computes graphs from now on. False, with
/// the reason in heddle_last_error(), for other streams and other numbers.
typedef bool (*heddle_cpu_set_fusion_t)(ggml_backend_t backend, enum heddle_cpu_fusion fusion);

/// "heddle_fused_with", which other backends may offer too: which nodes of `graph` the stream would
/// compute together. `with` has a number for each node: that of the first of those it goes with, or
/// its own if it is computed alone or not at all. Nodes without memory count as lying apart. False,
/// with the reason in heddle_last_error(), if the graph cannot be computed.
typedef bool (*heddle_fused_with_t)(ggml_backend_t backend, const struct ggml_cgraph* graph,
                                    int* with);

#ifdef __cplusplus
}
#endif
