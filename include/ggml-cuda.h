/// The CUDA backend: graphics processors of NVIDIA.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#if defined(GGML_USE_HIP)
#define GGML_CUDA_NAME "ROCm"
#define GGML_CUBLAS_NAME "hipBLAS"
#elif defined(GGML_USE_MUSA)
#define GGML_CUDA_NAME "MUSA"
#define GGML_CUBLAS_NAME "muBLAS"
#else
#define GGML_CUDA_NAME "CUDA"      ///< Name of the registration; devices add a number.
#define GGML_CUBLAS_NAME "cuBLAS"  ///< Name of the matrix library.
#endif

#define GGML_CUDA_MAX_DEVICES 16  ///< Devices at most.

#ifdef __cplusplus
extern "C" {
#endif

/// A stream on device number `device`, which the caller owns; NULL if that fails.
GGML_BACKEND_API ggml_backend_t ggml_backend_cuda_init(int device);

/// Whether `backend` is such a stream. False for NULL.
GGML_BACKEND_API bool ggml_backend_is_cuda(ggml_backend_t backend);

/// Memory of a device; NULL if there is no such device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_buffer_type(int device);

/// Replaces the tensors, one per stream, by their sum; false if that is not possible.
GGML_BACKEND_API bool ggml_backend_cuda_allreduce_tensor(ggml_backend_t* backends,
                                                         struct ggml_tensor** tensors,
                                                         size_t n_backends);

/// Page-locked host memory for fast transfers.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_cuda_host_buffer_type(void);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_cuda_get_device_count(void);

/// Writes a device's name to `description`, of `description_size` bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_description(int device, char* description,
                                                               size_t description_size);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_cuda_get_device_memory(int device, size_t* free, size_t* total);

/// Page-locks memory of the caller's for fast transfers; false if that is not possible.
GGML_BACKEND_API bool ggml_backend_cuda_register_host_buffer(void* buffer, size_t size);

/// Ends that.
GGML_BACKEND_API void ggml_backend_cuda_unregister_host_buffer(void* buffer);

/// The registration of the CUDA devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cuda_reg(void);

#ifdef __cplusplus
}
#endif
