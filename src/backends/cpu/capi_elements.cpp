// ggml-cpu.h: single elements in host memory.

#include <array>
#include <cstring>

#include "backends/host_memory_check.hpp"
#include "core/boundary.hpp"
#include "core/context.hpp"
#include "core/half.hpp"
#include "core/tensor.hpp"
#include "ggml-backend.h"
#include "ggml-cpu.h"

using namespace heddle;

namespace {

/// The element at `place` as a T, by the conversions of C.
template <class T>
Result<T> read_element(Type type, const void* place) {
    const auto load = [&]<class Stored>(Stored value) {
        std::memcpy(&value, place, sizeof value);
        return value;
    };
    switch (type) {
        case GGML_TYPE_I8:
            return static_cast<T>(load(std::int8_t{}));
        case GGML_TYPE_I16:
            return static_cast<T>(load(std::int16_t{}));
        case GGML_TYPE_I32:
            return static_cast<T>(load(std::int32_t{}));
        case GGML_TYPE_F16:
            return static_cast<T>(f16_to_f32(load(std::uint16_t{})));
        case GGML_TYPE_BF16:
            return static_cast<T>(bf16_to_f32(load(std::uint16_t{})));
        case GGML_TYPE_F32:
            return static_cast<T>(load(float{}));
        default:
            return invalid("single elements of type ", name_of(type), " cannot be read");
    }
}

template <class T>
Result<> write_element(Type type, void* place, T value) {
    const auto store = [&](auto stored) -> Result<> {
        std::memcpy(place, &stored, sizeof stored);
        return ok();
    };
    switch (type) {
        case GGML_TYPE_I8:
            return store(static_cast<std::int8_t>(value));
        case GGML_TYPE_I16:
            return store(static_cast<std::int16_t>(value));
        case GGML_TYPE_I32:
            return store(static_cast<std::int32_t>(value));
        case GGML_TYPE_F16:
            return store(f32_to_f16(static_cast<float>(value)));
        case GGML_TYPE_BF16:
            return store(f32_to_bf16(static_cast<float>(value)));
        case GGML_TYPE_F32:
            return store(static_cast<float>(value));
        default:
            return invalid("single elements of type ", name_of(type), " cannot be written");
    }
}

std::byte* address(const Tensor& tensor, const Extents& at) {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        offset += static_cast<std::size_t>(at[d]) * tensor.nb[d];
    }
    return static_cast<std::byte*>(tensor.data) + offset;
}

/// Whether there is an element at these indices.
Result<> check_indices(const Tensor& tensor, const Extents& at) {
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (at[d] >= 0 && at[d] < tensor.ne[d]) continue;
        return invalid("element access: index ", at[d], " in dimension ", d, " of tensor ",
                       describe(tensor));
    }
    return ok();
}

/// Where the element number `i` of all is.
Result<Extents> place_of(const Tensor& tensor, std::int64_t i) {
    const std::int64_t count = element_count(tensor);
    if (i >= 0 && i < count) return unravel(tensor, i);
    return invalid("element access: number ", i, " of the ", count, " elements of tensor ",
                   describe(tensor));
}

/// The tensor, if it has data to work on.
Result<> check(const Tensor* tensor) {
    HEDDLE_TRY(capi::require(tensor, "element access", "the tensor"));
    if (tensor->data == nullptr) return invalid("tensor ", describe(*tensor), " has no memory");
    const Tensor& root = tensor->view_src != nullptr ? *tensor->view_src : *tensor;
    if (root.buffer != nullptr && !ggml_backend_buffer_is_host(root.buffer)) {
        return invalid("element access: tensor ", describe(*tensor), " is in memory of type ",
                       ggml_backend_buffer_name(root.buffer), ", which the CPU cannot read");
    }
    HostMemoryCheck host;
    if (host.is_readable(*tensor)) return ok();
    return invalid("element access: ", host.problem(*tensor, "tensor " + describe(*tensor)));
}

template <class T>
T get(const Tensor* tensor, const Extents& at) {
    return capi::value_or_fail(
        [&]() -> Result<T> {
            HEDDLE_TRY(check(tensor));
            HEDDLE_TRY(check_indices(*tensor, at));
            return read_element<T>(tensor->type, address(*tensor, at));
        },
        T{});
}

template <class T>
T get_flat(const Tensor* tensor, int i) {
    return capi::value_or_fail(
        [&]() -> Result<T> {
            HEDDLE_TRY(check(tensor));
            HEDDLE_TRY_ASSIGN(const Extents at, place_of(*tensor, i));
            return read_element<T>(tensor->type, address(*tensor, at));
        },
        T{});
}

template <class T>
void set(const Tensor* tensor, const Extents& at, T value) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(check(tensor));
        HEDDLE_TRY(check_indices(*tensor, at));
        return write_element(tensor->type, address(*tensor, at), value);
    });
}

template <class T>
void set_flat(const Tensor* tensor, int i, T value) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(check(tensor));
        HEDDLE_TRY_ASSIGN(const Extents at, place_of(*tensor, i));
        return write_element(tensor->type, address(*tensor, at), value);
    });
}

template <class T>
Result<> fill(Tensor& tensor, T value) {
    for (std::int64_t i3 = 0; i3 < tensor.ne[3]; ++i3) {
        for (std::int64_t i2 = 0; i2 < tensor.ne[2]; ++i2) {
            for (std::int64_t i1 = 0; i1 < tensor.ne[1]; ++i1) {
                for (std::int64_t i0 = 0; i0 < tensor.ne[0]; ++i0) {
                    HEDDLE_TRY(
                        write_element(tensor.type, address(tensor, {i0, i1, i2, i3}), value));
                }
            }
        }
    }
    return ok();
}

template <class T>
Tensor* set_all(Tensor* tensor, T value) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(check(tensor));
        HEDDLE_TRY(fill(*tensor, value));
        return tensor;
    });
}

template <class T>
Tensor* new_scalar(Context* context, Type type, T value) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(capi::require(context, "new scalar", "the context"));
        if (context->no_alloc) return invalid("a context without data cannot hold a value");
        HEDDLE_TRY_ASSIGN(Tensor* const tensor,
                          new_tensor(*context, type, std::array<std::int64_t, 1>{1}));
        HEDDLE_TRY(fill(*tensor, value));
        return tensor;
    });
}

}  // namespace

ggml_tensor* ggml_new_i32(ggml_context* ctx, int32_t value) {
    return new_scalar(ctx, GGML_TYPE_I32, value);
}

ggml_tensor* ggml_new_f32(ggml_context* ctx, float value) {
    return new_scalar(ctx, GGML_TYPE_F32, value);
}

ggml_tensor* ggml_set_i32(ggml_tensor* tensor, int32_t value) { return set_all(tensor, value); }
ggml_tensor* ggml_set_f32(ggml_tensor* tensor, float value) { return set_all(tensor, value); }

int32_t ggml_get_i32_1d(const ggml_tensor* tensor, int i) {
    return get_flat<std::int32_t>(tensor, i);
}

void ggml_set_i32_1d(const ggml_tensor* tensor, int i, int32_t value) {
    set_flat(tensor, i, value);
}

int32_t ggml_get_i32_nd(const ggml_tensor* tensor, int i0, int i1, int i2, int i3) {
    return get<std::int32_t>(tensor, {i0, i1, i2, i3});
}

void ggml_set_i32_nd(const ggml_tensor* tensor, int i0, int i1, int i2, int i3, int32_t value) {
    set(tensor, {i0, i1, i2, i3}, value);
}

float ggml_get_f32_1d(const ggml_tensor* tensor, int i) { return get_flat<float>(tensor, i); }
void ggml_set_f32_1d(const ggml_tensor* tensor, int i, float value) { set_flat(tensor, i, value); }

float ggml_get_f32_nd(const ggml_tensor* tensor, int i0, int i1, int i2, int i3) {
    return get<float>(tensor, {i0, i1, i2, i3});
}

void ggml_set_f32_nd(const ggml_tensor* tensor, int i0, int i1, int i2, int i3, float value) {
    set(tensor, {i0, i1, i2, i3}, value);
}
