/// Placing tensors in buffers: one by one, a whole graph, a whole context.
#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_backend_buffer_type* ggml_backend_buffer_type_t;  ///< See ggml-backend.h.
typedef struct ggml_backend_buffer* ggml_backend_buffer_t;            ///< See ggml-backend.h.
typedef struct ggml_backend* ggml_backend_t;                          ///< See ggml-backend.h.

// ------------------------------------------------------------------------------------------------
// One by one

/// Places tensors one after the other in a buffer. A plain value; nothing to release.
struct ggml_tallocr {
    ggml_backend_buffer_t buffer;  ///< Where to.
    void* base;                    ///< Its beginning.
    size_t alignment;              ///< Its alignment in bytes.
    size_t offset;                 ///< Where the next tensor goes, in bytes from the beginning.
};

/// Begins to fill `buffer`, which must outlive the tensors placed in it.
GGML_API struct ggml_tallocr ggml_tallocr_new(ggml_backend_buffer_t buffer);

/// Places `tensor`, which has no memory yet and is no view. Not enough room is an error.
GGML_API enum ggml_status ggml_tallocr_alloc(struct ggml_tallocr* talloc,
                                             struct ggml_tensor* tensor);

// ------------------------------------------------------------------------------------------------
// Whole graphs

/// Plans the memory of graphs, so that tensors share memory when their lives do not overlap.
///
/// Use: reserve once with the largest graph, then for each graph ggml_gallocr_alloc_graph(), write
/// the inputs, compute. Tensors that have memory already are left alone. Inputs (ggml_set_input())
/// are overwritten after their last use, outputs (ggml_set_output()) never. One thread at a time.
typedef struct ggml_gallocr* ggml_gallocr_t;

/// An allocator with one buffer of type `buft`.
GGML_API ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft);

/// An allocator with `n_bufs` buffers; the same type twice shares one. The list is copied.
GGML_API ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t* bufts, int n_bufs);

/// Releases an allocator and its buffers. NULL is fine.
GGML_API void ggml_gallocr_free(ggml_gallocr_t galloc);

/// Plans `graph` and gets buffers for it; the graph itself is not changed. False without memory.
GGML_API bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph* graph);

/// The same with several buffers: `node_buffer_ids` and `leaf_buffer_ids` say which one each node
/// and leaf goes to; NULL means the first for all.
GGML_API bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, struct ggml_cgraph* graph,
                                     const int* node_buffer_ids, const int* leaf_buffer_ids);

/// Plans as ggml_gallocr_reserve_n() and writes how many bytes each buffer would need to `sizes`,
/// without getting memory or changing anything. A buffer that several ids share is counted once, at
/// the first of them.
GGML_API void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, struct ggml_cgraph* graph,
                                          const int* node_buffer_ids, const int* leaf_buffer_ids,
                                          size_t* sizes);

/// Gives every tensor of `graph` its memory. A graph that does not fit the plan is planned anew if
/// there is one buffer, else the result is false. False without memory, too.
GGML_API bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph* graph);

/// Bytes of buffer `buffer_id`; 0 if there is none, or if it is shared with a buffer before it.
GGML_API size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id);

// ------------------------------------------------------------------------------------------------
// Whole contexts

/// Bytes that ggml_backend_alloc_ctx_tensors_from_buft() would ask for.
GGML_API size_t ggml_backend_alloc_ctx_tensors_from_buft_size(struct ggml_context* ctx,
                                                              ggml_backend_buffer_type_t buft);

/// Gets a buffer for all tensors of `ctx` that have no memory yet, and places them in it.
///
/// The context was made with no_alloc. The caller owns the buffer. NULL without memory, and also if
/// no tensor needs any.
GGML_API struct ggml_backend_buffer* ggml_backend_alloc_ctx_tensors_from_buft(
    struct ggml_context* ctx, ggml_backend_buffer_type_t buft);

/// The same with the buffer type that `backend` prefers.
GGML_API struct ggml_backend_buffer* ggml_backend_alloc_ctx_tensors(struct ggml_context* ctx,
                                                                    ggml_backend_t backend);

#ifdef __cplusplus
}
#endif
