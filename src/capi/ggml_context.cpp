// Contexts and the tensors in them.

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "capi/boundary.hpp"
#include "core/context.hpp"
#include "core/log.hpp"
#include "ggml-backend.h"

using namespace heddle;
using capi::is_null;
using capi::require;

namespace {

/// What `get` finds in the context or tensor; nothing, after failing, where there is none.
template <class Get>
auto of(const Context* context, const char* function, Get get) {
    return capi::peek(context, function, "the context", get);
}
template <class Get>
auto of(const Tensor* tensor, const char* function, Get get) {
    return capi::peek(tensor, function, "the tensor", get);
}

}  // namespace

ggml_context* ggml_init(ggml_init_params params) {
    auto made = capi::guarded(
        [&] { return make_context(params.mem_size, params.mem_buffer, params.no_alloc); });
    if (made) return made->release();
    capi::report(made.error());
    return nullptr;
}

void ggml_free(ggml_context* ctx) { destroy_context(ctx); }
void ggml_reset(ggml_context* ctx) {
    if (ctx != nullptr) reset(*ctx);
}

size_t ggml_used_mem(const ggml_context* ctx) { return of(ctx, __func__, used_bytes); }
bool ggml_get_no_alloc(ggml_context* ctx) {
    return of(ctx, __func__, [](const Context& c) { return c.no_alloc; });
}
void ggml_set_no_alloc(ggml_context* ctx, bool no_alloc) {
    if (!is_null(ctx, __func__, "the context")) ctx->no_alloc = no_alloc;
}
void* ggml_get_mem_buffer(const ggml_context* ctx) {
    return of(ctx, __func__, [](const Context& c) -> void* { return c.memory; });
}
size_t ggml_get_mem_size(const ggml_context* ctx) {
    return of(ctx, __func__, [](const Context& c) { return c.size; });
}
size_t ggml_tensor_overhead(void) { return kTensorOverhead; }

size_t ggml_get_max_tensor_size(const ggml_context* ctx) {
    if (is_null(ctx, __func__, "the context")) return 0;
    std::size_t largest = 0;
    for (const Tensor* t = first_tensor(*ctx); t; t = next_tensor(*t)) {
        largest = std::max(largest, byte_size(*t));
    }
    return largest;
}

ggml_tensor* ggml_new_tensor(ggml_context* ctx, ggml_type type, int n_dims, const int64_t* ne) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(ctx, "new tensor", "the context"));
        HEDDLE_TRY(require(ne, "new tensor", "the list of extents"));
        if (n_dims < 0) return invalid("new tensor: ", n_dims, " dimensions, not 1 to ", kMaxDims);
        return new_tensor(*ctx, type, {ne, static_cast<std::size_t>(n_dims)});
    });
}

ggml_tensor* ggml_new_tensor_1d(ggml_context* ctx, ggml_type type, int64_t ne0) {
    return ggml_new_tensor(ctx, type, 1, &ne0);
}
ggml_tensor* ggml_new_tensor_2d(ggml_context* ctx, ggml_type type, int64_t ne0, int64_t ne1) {
    return ggml_new_tensor(ctx, type, 2, std::array{ne0, ne1}.data());
}
ggml_tensor* ggml_new_tensor_3d(ggml_context* ctx, ggml_type type, int64_t ne0, int64_t ne1,
                                int64_t ne2) {
    return ggml_new_tensor(ctx, type, 3, std::array{ne0, ne1, ne2}.data());
}
ggml_tensor* ggml_new_tensor_4d(ggml_context* ctx, ggml_type type, int64_t ne0, int64_t ne1,
                                int64_t ne2, int64_t ne3) {
    return ggml_new_tensor(ctx, type, 4, std::array{ne0, ne1, ne2, ne3}.data());
}

void* ggml_new_buffer(ggml_context* ctx, size_t nbytes) {
    return capi::made([&]() -> Result<std::byte*> {
        HEDDLE_TRY(require(ctx, "new buffer", "the context"));
        return new_object(*ctx, GGML_OBJECT_TYPE_WORK_BUFFER, nbytes);
    });
}

ggml_tensor* ggml_dup_tensor(ggml_context* ctx, const ggml_tensor* src) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(ctx, "dup tensor", "the context"));
        HEDDLE_TRY(require(src, "dup tensor", "the tensor"));
        return new_tensor(*ctx, src->type, extents_of(*src));
    });
}

ggml_tensor* ggml_view_tensor(ggml_context* ctx, ggml_tensor* src) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(ctx, "view tensor", "the context"));
        HEDDLE_TRY(require(src, "view tensor", "the tensor"));
        return view_tensor(*ctx, *src);
    });
}

ggml_tensor* ggml_get_first_tensor(const ggml_context* ctx) {
    return of(ctx, __func__, first_tensor);
}
ggml_tensor* ggml_get_next_tensor(const ggml_context*, ggml_tensor* tensor) {
    return of(tensor, __func__, next_tensor);
}
ggml_tensor* ggml_get_tensor(ggml_context* ctx, const char* name) {
    if (name == nullptr) return nullptr;  // no tensor is called so
    return of(ctx, __func__, [&](const Context& c) { return find_tensor(c, name); });
}

void* ggml_get_data(const ggml_tensor* tensor) {
    return of(tensor, __func__, [](const Tensor& t) { return t.data; });
}
float* ggml_get_data_f32(const ggml_tensor* tensor) {
    return capi::made([&]() -> Result<float*> {
        HEDDLE_TRY(require(tensor, "get data", "the tensor"));
        if (tensor->type != GGML_TYPE_F32)
            return invalid("get data: ", describe(*tensor), " is not f32");
        return static_cast<float*>(tensor->data);
    });
}

// ---- names and flags ---------------------------------------------------------------------------

const char* ggml_get_name(const ggml_tensor* tensor) {
    return is_null(tensor, __func__, "the tensor") ? "" : tensor->name;
}

ggml_tensor* ggml_set_name(ggml_tensor* tensor, const char* name) {
    if (is_null(tensor, __func__, "the tensor")) return nullptr;
    if (!is_null(name, __func__, "the name")) set_name(*tensor, name);
    return tensor;
}

ggml_tensor* ggml_format_name(ggml_tensor* tensor, const char* fmt, ...) {
    if (is_null(tensor, __func__, "the tensor")) return nullptr;
    if (is_null(fmt, __func__, "the format")) return tensor;
    char name[GGML_MAX_NAME];
    va_list args;
    va_start(args, fmt);
    std::vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    set_name(*tensor, name);
    return tensor;
}

void ggml_set_input(ggml_tensor* tensor) {
    if (!is_null(tensor, __func__, "the tensor")) tensor->flags |= GGML_TENSOR_FLAG_INPUT;
}

void ggml_set_output(ggml_tensor* tensor) {
    if (is_null(tensor, __func__, "the tensor")) return;
    // A view that is kept keeps the tensor it is a view of.
    for (; tensor != nullptr; tensor = tensor->view_src) tensor->flags |= GGML_TENSOR_FLAG_OUTPUT;
}

void ggml_set_param(ggml_tensor* tensor) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "set param", "the tensor"));
        if (tensor->op != kNoOp) {
            return invalid("set param: ", describe(*tensor), " is the result of an op");
        }
        tensor->flags |= GGML_TENSOR_FLAG_PARAM;
        return ok();
    });
}

void ggml_set_loss(ggml_tensor* tensor) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(tensor, "set loss", "the tensor"));
        if (!is_scalar(*tensor) || tensor->type != GGML_TYPE_F32) {
            return invalid("set loss: ", describe(*tensor), " is not one f32");
        }
        tensor->flags |= GGML_TENSOR_FLAG_LOSS;
        return ok();
    });
}

// ---- printing ----------------------------------------------------------------------------------

void ggml_print_object(const ggml_object* obj) {
    if (is_null(obj, __func__, "the object")) return;
    log_line(GGML_LOG_LEVEL_INFO, " - object: kind = ", static_cast<int>(obj->kind),
             ", offset = ", obj->offset, ", size = ", obj->size,
             ", next = ", static_cast<const void*>(obj->next));
}

void ggml_print_objects(const ggml_context* ctx) {
    if (is_null(ctx, __func__, "the context")) return;
    log_line(GGML_LOG_LEVEL_INFO, "objects in context ", static_cast<const void*>(ctx), ':');
    for (const Object* object = ctx->first; object; object = object->next)
        ggml_print_object(object);
    log_line(GGML_LOG_LEVEL_INFO, "--- end ---");
}
