/// The Vulkan backend: graphics processors of any maker.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#define GGML_VK_NAME "Vulkan"   ///< Name of the registration; devices add a number.
#define GGML_VK_MAX_DEVICES 16  ///< Devices at most.

#ifdef __cplusplus
extern "C" {
#endif

/// A stream on device number `dev_num`, which the caller owns; NULL if that fails.
GGML_BACKEND_API ggml_backend_t ggml_backend_vk_init(size_t dev_num);

/// Whether `backend` is such a stream. False for NULL.
GGML_BACKEND_API bool ggml_backend_is_vk(ggml_backend_t backend);

/// Number of devices.
GGML_BACKEND_API int ggml_backend_vk_get_device_count(void);

/// Writes a device's name to `description`, of `description_size` bytes.
GGML_BACKEND_API void ggml_backend_vk_get_device_description(int device, char* description,
                                                             size_t description_size);

/// Free and total memory of a device in bytes.
GGML_BACKEND_API void ggml_backend_vk_get_device_memory(int device, size_t* free, size_t* total);

/// Memory of a device.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_vk_buffer_type(size_t dev_num);

/// Host memory for fast transfers.
GGML_BACKEND_API ggml_backend_buffer_type_t ggml_backend_vk_host_buffer_type(void);

/// The registration of the Vulkan devices.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_vk_reg(void);

#ifdef __cplusplus
}
#endif
