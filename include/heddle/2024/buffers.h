/// Buffers and data: included by ggml-backend-2024.h.
#pragma once

#include "../../ggml-backend.h"
#include "../../ggml-cpu.h"
#include "../cpu.h"
#include "../heddle.h"
#include "shared.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* ggml_backend_buffer_type_context_t;  ///< What a buffer type keeps.
typedef void* ggml_backend_buffer_context_t;       ///< What a buffer keeps.
typedef void* ggml_backend_context_t;              ///< What a stream keeps.

/// The type of a buffer; today ggml_backend_buffer_get_type().
static inline ggml_backend_buffer_type_t ggml_backend_buffer_type(ggml_backend_buffer_t buffer) {
    return ggml_backend_buffer_get_type(buffer);
}

/// Whether a stream can use buffers of a type; today ggml_backend_supports_buft().
static inline bool ggml_backend_buft_supports_backend(ggml_backend_buffer_type_t buft,
                                                      ggml_backend_t backend) {
    return ggml_backend_supports_buft(backend, buft);
}

/// Host memory with high bandwidth; NULL on machines without.
static inline ggml_backend_buffer_type_t ggml_backend_cpu_hbm_buffer_type(void) {
    void* const address = ggml_backend_reg_get_proc_address(ggml_backend_cpu_reg(),
                                                            "ggml_backend_cpu_hbm_buffer_type");
    heddle_cpu_hbm_buffer_type_t find;
    memcpy(&find, &address, sizeof find);  // C has no cast from data to functions
    return find != NULL ? find() : NULL;
}

/// Gives a view its memory. The buffer is that of the tensor it is a view of, whichever is named.
static inline enum ggml_status heddle_2024_view_init(ggml_backend_buffer_t buffer,
                                                     struct ggml_tensor* tensor) {
    (void)buffer;
    return ggml_backend_view_init(tensor);
}

/// Once undid what placing `tensor` had prepared. Buffers now release that with themselves, or with
/// ggml_backend_buffer_reset() for all tensors at once, so there is nothing to do for one.
static inline void ggml_backend_buffer_free_tensor(ggml_backend_buffer_t buffer,
                                                   struct ggml_tensor* tensor) {
    (void)buffer;
    (void)tensor;
}

/// The buffer a tensor lies in, also for a view that was not given its memory yet; NULL if none.
static inline ggml_backend_buffer_t heddle_2024_buffer_of(const struct ggml_tensor* tensor) {
    return tensor->view_src != NULL ? tensor->view_src->buffer : tensor->buffer;
}

/// Copies a tensor in the order of one stream, where that can reach both; else without any order,
/// so the source must be ready.
static inline void heddle_2024_tensor_copy_async(ggml_backend_t backend, struct ggml_tensor* src,
                                                 struct ggml_tensor* dst) {
    const ggml_backend_buffer_t from = heddle_2024_buffer_of(src);
    const ggml_backend_buffer_t to = heddle_2024_buffer_of(dst);
    const bool reads =
        from != NULL && ggml_backend_supports_buft(backend, ggml_backend_buffer_get_type(from));
    const bool writes =
        to != NULL && ggml_backend_supports_buft(backend, ggml_backend_buffer_get_type(to));
    if (reads && writes) {
        ggml_backend_tensor_copy_async(backend, backend, src, dst);
    } else if (writes && from != NULL && ggml_backend_buffer_is_host(from)) {
        ggml_backend_tensor_set_async(backend, dst, src->data, 0, ggml_nbytes(src));
    } else {
        ggml_backend_tensor_copy(src, dst);
    }
}

// ------------------------------------------------------------------------------------------------
// Buffers that belong to a stream: what generation 1 asked of every buffer

/// Whose a buffer is.
struct heddle_2024_owner {
    ggml_backend_buffer_t buffer;
    ggml_backend_t backend;
    struct heddle_2024_owner* next;
};

HEDDLE_2024_SHARED struct heddle_2024_owner* heddle_2024_owners = NULL;

/// Notes whose `buffer` is and gives it back; without memory for that it is released, and NULL.
static inline ggml_backend_buffer_t heddle_2024_owned(ggml_backend_buffer_t buffer,
                                                      ggml_backend_t backend) {
    struct heddle_2024_owner* owner;
    if (buffer == NULL) return NULL;
    owner = (struct heddle_2024_owner*)malloc(sizeof *owner);
    if (owner == NULL) {
        heddle_report_error("no memory to note which stream a buffer belongs to");
        ggml_backend_buffer_free(buffer);
        return NULL;
    }
    owner->buffer = buffer;
    owner->backend = backend;
    owner->next = heddle_2024_owners;
    heddle_2024_owners = owner;
    return buffer;
}

/// Forgets all notes about a buffer or about a stream; NULL for neither.
static inline void heddle_2024_disown(ggml_backend_buffer_t buffer, ggml_backend_t backend) {
    struct heddle_2024_owner** link = &heddle_2024_owners;
    while (*link != NULL) {
        struct heddle_2024_owner* owner = *link;
        if (owner->buffer == buffer || owner->backend == backend) {
            *link = owner->next;
            free(owner);
        } else {
            link = &owner->next;
        }
    }
}

/// The stream that the tensor's buffer was made for; NULL if it was made in another way, as by
/// ggml_backend_buft_alloc_buffer().
static inline ggml_backend_t ggml_get_backend(const struct ggml_tensor* tensor) {
    const ggml_backend_buffer_t buffer = heddle_2024_buffer_of(tensor);
    const struct heddle_2024_owner* owner = heddle_2024_owners;
    while (owner != NULL && owner->buffer != buffer) owner = owner->next;
    return owner != NULL ? owner->backend : NULL;
}

static inline ggml_backend_buffer_t heddle_2024_alloc_buffer(ggml_backend_t backend, size_t size) {
    return heddle_2024_owned(ggml_backend_alloc_buffer(backend, size), backend);
}

static inline ggml_backend_buffer_t heddle_2024_alloc_ctx_tensors(struct ggml_context* ctx,
                                                                  ggml_backend_t backend) {
    return heddle_2024_owned(ggml_backend_alloc_ctx_tensors(ctx, backend), backend);
}

static inline ggml_backend_buffer_t heddle_2024_cpu_buffer_from_ptr(ggml_backend_t backend_cpu,
                                                                    void* ptr, size_t size) {
    return heddle_2024_owned(ggml_backend_cpu_buffer_from_ptr(ptr, size), backend_cpu);
}

static inline void heddle_2024_buffer_free(ggml_backend_buffer_t buffer) {
    if (buffer != NULL) heddle_2024_disown(buffer, NULL);
    ggml_backend_buffer_free(buffer);
}

static inline void heddle_2024_free(ggml_backend_t backend) {
    if (backend != NULL) heddle_2024_disown(NULL, backend);
    ggml_backend_free(backend);
}

/// Writes in the order of the tensor's stream; at once if nobody knows that.
static inline void heddle_2024_tensor_set_async(struct ggml_tensor* tensor, const void* data,
                                                size_t offset, size_t size) {
    const ggml_backend_t backend = ggml_get_backend(tensor);
    if (backend != NULL) {
        ggml_backend_tensor_set_async(backend, tensor, data, offset, size);
    } else {
        ggml_backend_tensor_set(tensor, data, offset, size);
    }
}

/// Reads in the order of the tensor's stream; at once if nobody knows that.
static inline void heddle_2024_tensor_get_async(const struct ggml_tensor* tensor, void* data,
                                                size_t offset, size_t size) {
    const ggml_backend_t backend = ggml_get_backend(tensor);
    if (backend != NULL) {
        ggml_backend_tensor_get_async(backend, tensor, data, offset, size);
    } else {
        ggml_backend_tensor_get(tensor, data, offset, size);
    }
}

#ifdef __cplusplus
}
#endif

#define ggml_backend_view_init heddle_2024_view_init
#define ggml_backend_tensor_copy_async heddle_2024_tensor_copy_async

#if HEDDLE_2024_GENERATION == 1
#define ggml_backend_alloc_buffer heddle_2024_alloc_buffer
#define ggml_backend_alloc_ctx_tensors heddle_2024_alloc_ctx_tensors
#define ggml_backend_cpu_buffer_from_ptr heddle_2024_cpu_buffer_from_ptr
#define ggml_backend_buffer_free heddle_2024_buffer_free
#define ggml_backend_free heddle_2024_free
#define ggml_backend_tensor_set_async heddle_2024_tensor_set_async
#define ggml_backend_tensor_get_async heddle_2024_tensor_get_async
#endif
