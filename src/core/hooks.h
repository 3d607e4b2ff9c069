/// Functions of `ggml-base` that our other libraries call and programs do not: the few facts about
/// the process that only it knows.
#pragma once

#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Number of buffers alive whose type, when they were made, belonged to a device of `registration`.
/// While there are any, its code must stay loaded: it is what frees them.
GGML_API long heddle_live_buffers(ggml_backend_reg_t registration);

/// Says whose ordinary and mapped host memory is: the CPU backend calls it with its device when
/// that is registered, and with NULL before it is unloaded. Any thread may call it.
GGML_API void heddle_set_host_device(ggml_backend_dev_t device);

#ifdef __cplusplus
}
#endif
