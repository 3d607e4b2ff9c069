/// One lock for the whole process, for backends that must initialise something once.
#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Enters the process-wide critical section; waits while another thread is inside.
/// It does not nest: a thread that enters twice waits for itself.
GGML_API void ggml_critical_section_start(void);

/// Leaves the critical section. Call it from the thread that entered.
GGML_API void ggml_critical_section_end(void);

#ifdef __cplusplus
}
#endif
