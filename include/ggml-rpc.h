/// The RPC backend: devices of other machines.
///
/// A machine serves its devices at an endpoint "host:port"; others add that endpoint and use them.
/// The protocol has no protection of its own: serve trusted networks only.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define RPC_PROTO_MAJOR_VERSION 5  ///< Version of the protocol: both sides agree on this number.
#define RPC_PROTO_MINOR_VERSION 1  ///< The same, for additions.
#define RPC_PROTO_PATCH_VERSION 0  ///< The same, for repairs.

#define GGML_RPC_MAX_SERVERS 16  ///< Servers at most.

#ifdef __cplusplus
extern "C" {
#endif

/// A stream on device number `device` at `endpoint`, which the caller owns; NULL if that fails.
GGML_BACKEND_API ggml_backend_t ggml_backend_rpc_init(const char* endpoint, uint32_t device);

/// Whether `backend` is such a stream. False for NULL.
GGML_BACKEND_API bool ggml_backend_is_rpc(ggml_backend_t backend);

/// Memory of a device at `endpoint`; NULL if it cannot be reached.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_rpc_buffer_type(const char* endpoint,
                                                                         uint32_t device);

/// Free and total memory of a device at `endpoint` in bytes.
GGML_BACKEND_API void ggml_backend_rpc_get_device_memory(const char* endpoint, uint32_t device,
                                                         size_t* free, size_t* total);

/// Serves `n_devices` devices at `endpoint`; returns only if that fails. Weights that came once are
/// kept in `cache_dir`, unless it is NULL. Devices of the CPU use `n_threads` threads.
GGML_BACKEND_API void ggml_backend_rpc_start_server(const char* endpoint, const char* cache_dir,
                                                    size_t n_threads, size_t n_devices,
                                                    ggml_backend_dev_t* devices);

/// The registration of the RPC backend; it has no devices itself.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_reg(void);

/// A registration with the devices at `endpoint`, to be given to ggml_backend_register(); NULL if
/// it cannot be reached.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_rpc_add_server(const char* endpoint);

#ifdef __cplusplus
}
#endif
