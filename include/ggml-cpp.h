/// Owners for the objects of the C API: each releases its object when it goes out of scope.
#pragma once

#ifndef __cplusplus
#error "ggml-cpp.h is for C++; C programs release objects themselves"
#endif

#include <memory>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "gguf.h"

/// Releases a context.
struct ggml_context_deleter {
    void operator()(ggml_context* object) const {
        ggml_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns a context.
typedef std::unique_ptr<ggml_context, ggml_context_deleter> ggml_context_ptr;

/// Releases the contents of a GGUF file.
struct gguf_context_deleter {
    void operator()(gguf_context* object) const {
        gguf_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns the contents of a GGUF file.
typedef std::unique_ptr<gguf_context, gguf_context_deleter> gguf_context_ptr;

/// Releases a graph allocator.
struct ggml_gallocr_deleter {
    void operator()(ggml_gallocr* object) const {
        ggml_gallocr_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns a graph allocator.
typedef std::unique_ptr<ggml_gallocr, ggml_gallocr_deleter> ggml_gallocr_ptr;

/// Releases a stream.
struct ggml_backend_deleter {
    void operator()(ggml_backend* object) const {
        ggml_backend_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns a stream.
typedef std::unique_ptr<ggml_backend, ggml_backend_deleter> ggml_backend_ptr;

/// Releases a buffer.
struct ggml_backend_buffer_deleter {
    void operator()(ggml_backend_buffer* object) const {
        ggml_backend_buffer_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns a buffer.
typedef std::unique_ptr<ggml_backend_buffer, ggml_backend_buffer_deleter> ggml_backend_buffer_ptr;

/// Releases an event.
struct ggml_backend_event_deleter {
    void operator()(ggml_backend_event* object) const {
        ggml_backend_event_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns an event.
typedef std::unique_ptr<ggml_backend_event, ggml_backend_event_deleter> ggml_backend_event_ptr;

/// Releases a scheduler.
struct ggml_backend_sched_deleter {
    void operator()(ggml_backend_sched* object) const {
        ggml_backend_sched_free(object);
    }  ///< Called for objects that are not NULL.
};
/// Owns a scheduler.
typedef std::unique_ptr<ggml_backend_sched, ggml_backend_sched_deleter> ggml_backend_sched_ptr;
