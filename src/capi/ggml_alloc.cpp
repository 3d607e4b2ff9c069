// The allocators: one tensor after the other, whole graphs, whole contexts.

#include <algorithm>

#include "capi/ggml_backend_boundary.hpp"
#include "ggml-alloc.h"
#include "runtime/alloc/context_allocator.hpp"
#include "runtime/alloc/graph_allocator.hpp"
#include "runtime/alloc/linear.hpp"
#include "runtime/stream.hpp"

using namespace heddle;
using capi::require;

// ---- one by one --------------------------------------------------------------------------------

ggml_tallocr ggml_tallocr_new(ggml_backend_buffer_t buffer) {
    return capi::made([&]() -> Result<ggml_tallocr> {
        HEDDLE_TRY(require(buffer, "linear allocator", "the buffer"));
        return make_linear_allocator(*buffer);
    });
}

ggml_status ggml_tallocr_alloc(ggml_tallocr* talloc, ggml_tensor* tensor) {
    return capi::status_of([&]() -> Result<> {
        HEDDLE_TRY(require(talloc, "linear allocation", "the allocator"));
        HEDDLE_TRY(require(talloc->buffer, "linear allocation", "the allocator's buffer"));
        HEDDLE_TRY(require(tensor, "linear allocation", "the tensor"));
        return allocate_next(*talloc, *tensor);
    });
}

// ---- whole graphs ------------------------------------------------------------------------------

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft) {
    return ggml_gallocr_new_n(&buft, 1);
}

ggml_gallocr_t ggml_gallocr_new_n(ggml_backend_buffer_type_t* bufts, int n_bufs) {
    return capi::made_or_null([&]() -> Result<std::unique_ptr<GraphAllocator>> {
        HEDDLE_TRY(require(bufts, "graph allocator", "the list of buffer types"));
        if (n_bufs < 1) return invalid("graph allocator: ", n_bufs, " buffer types given");
        return GraphAllocator::make({bufts, static_cast<std::size_t>(n_bufs)});
    });
}

void ggml_gallocr_free(ggml_gallocr_t galloc) { delete galloc; }

bool ggml_gallocr_reserve(ggml_gallocr_t galloc, ggml_cgraph* graph) {
    return ggml_gallocr_reserve_n(galloc, graph, nullptr, nullptr);
}

bool ggml_gallocr_reserve_n(ggml_gallocr_t galloc, ggml_cgraph* graph, const int* node_buffer_ids,
                            const int* leaf_buffer_ids) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(galloc, "graph reservation", "the allocator"));
        HEDDLE_TRY(require(graph, "graph reservation", "the graph"));
        HEDDLE_TRY(galloc->reserve(*graph, node_buffer_ids, leaf_buffer_ids));
        return true;
    });
}

void ggml_gallocr_reserve_n_size(ggml_gallocr_t galloc, ggml_cgraph* graph,
                                 const int* node_buffer_ids, const int* leaf_buffer_ids,
                                 size_t* sizes) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(galloc, "graph measurement", "the allocator"));
        HEDDLE_TRY(require(graph, "graph measurement", "the graph"));
        HEDDLE_TRY(require(sizes, "graph measurement", "the list of sizes"));
        HEDDLE_TRY_ASSIGN(const std::vector<std::size_t> measured,
                          galloc->measure(*graph, node_buffer_ids, leaf_buffer_ids));
        std::ranges::copy(measured, sizes);
        return ok();
    });
}

bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, ggml_cgraph* graph) {
    return capi::value_or_false([&]() -> Result<bool> {
        HEDDLE_TRY(require(galloc, "graph allocation", "the allocator"));
        HEDDLE_TRY(require(graph, "graph allocation", "the graph"));
        HEDDLE_TRY(galloc->allocate(*graph));
        return true;
    });
}

size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(galloc, "buffer size", "the allocator"));
        return galloc->buffer_size(buffer_id);
    });
}

// ---- whole contexts ----------------------------------------------------------------------------

size_t ggml_backend_alloc_ctx_tensors_from_buft_size(ggml_context* ctx,
                                                     ggml_backend_buffer_type_t buft) {
    return capi::made([&]() -> Result<std::size_t> {
        HEDDLE_TRY(require(ctx, "context measurement", "the context"));
        HEDDLE_TRY(require(buft, "context measurement", "the buffer type"));
        return measure_context(*ctx, *buft);
    });
}

ggml_backend_buffer* ggml_backend_alloc_ctx_tensors_from_buft(ggml_context* ctx,
                                                              ggml_backend_buffer_type_t buft) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(ctx, "context allocation", "the context"));
        HEDDLE_TRY(require(buft, "context allocation", "the buffer type"));
        return allocate_context(*ctx, *buft);
    });
}

ggml_backend_buffer* ggml_backend_alloc_ctx_tensors(ggml_context* ctx, ggml_backend_t backend) {
    return capi::made_or_null([&]() -> Result<OwnedBuffer> {
        HEDDLE_TRY(require(ctx, "context allocation", "the context"));
        HEDDLE_TRY(require(backend, "context allocation", "the backend"));
        HEDDLE_TRY_ASSIGN(BufferType* const type, default_buffer_type(*backend));
        return allocate_context(*ctx, *type);
    });
}
