/// The BLAS backend: large matrix products on the processor by a BLAS library.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A stream, which the caller owns; NULL if that fails.
GGML_BACKEND_API ggml_backend_t ggml_backend_blas_init(void);

/// Whether `backend` is such a stream. False for NULL.
GGML_BACKEND_API bool ggml_backend_is_blas(ggml_backend_t backend);

/// Number of threads the BLAS library uses, and conversions with it.
GGML_BACKEND_API void ggml_backend_blas_set_n_threads(ggml_backend_t backend_blas, int n_threads);

/// The registration of the BLAS device.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_blas_reg(void);

#ifdef __cplusplus
}
#endif
