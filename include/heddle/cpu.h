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

#ifdef __cplusplus
}
#endif
