// Sizes, shapes and layouts of tensors.

#include "capi/boundary.hpp"
#include "core/context.hpp"
#include "core/tensor.hpp"
#include "ggml.h"

using namespace heddle;

namespace {

/// What `get` says of the tensor; 0 or no, after failing, where there is none.
template <class Get>
auto of(const Tensor* tensor, const char* function, Get get) {
    return capi::peek(tensor, function, "the tensor", get);
}

/// The same of two.
template <class Compare>
bool of_both(const Tensor* t0, const Tensor* t1, const char* function, Compare compare) {
    if (capi::is_null(t0, function, "the first tensor")) return false;
    if (capi::is_null(t1, function, "the second tensor")) return false;
    return compare(*t0, *t1);
}

bool is_dense(const Tensor* tensor, const char* function, int free, int dims = kMaxDims) {
    return of(tensor, function, [&](const Tensor& t) { return is_contiguous(t, free, dims); });
}

}  // namespace

int64_t ggml_nelements(const ggml_tensor* tensor) { return of(tensor, __func__, element_count); }
int64_t ggml_nrows(const ggml_tensor* tensor) { return of(tensor, __func__, row_count); }
size_t ggml_nbytes(const ggml_tensor* tensor) {
    return of(tensor, __func__, [](const Tensor& t) { return byte_size(t); });
}
size_t ggml_nbytes_pad(const ggml_tensor* tensor) {
    return of(tensor, __func__,
              [](const Tensor& t) { return GGML_PAD(byte_size(t), kArenaAlignment); });
}
size_t ggml_element_size(const ggml_tensor* tensor) {
    return of(tensor, __func__, [](const Tensor& t) { return size_of(t.type); });
}
int ggml_n_dims(const ggml_tensor* tensor) { return of(tensor, __func__, dimension_count); }

bool ggml_is_transposed(const ggml_tensor* tensor) { return of(tensor, __func__, is_transposed); }
bool ggml_is_permuted(const ggml_tensor* tensor) { return of(tensor, __func__, is_permuted); }
bool ggml_is_empty(const ggml_tensor* tensor) { return of(tensor, __func__, is_empty); }
bool ggml_is_view(const ggml_tensor* tensor) {
    return of(tensor, __func__, [](const Tensor& t) { return t.view_src != nullptr; });
}
bool ggml_is_scalar(const ggml_tensor* tensor) { return of(tensor, __func__, is_scalar); }
bool ggml_is_vector(const ggml_tensor* tensor) { return of(tensor, __func__, is_vector); }
bool ggml_is_matrix(const ggml_tensor* tensor) { return of(tensor, __func__, is_matrix); }
bool ggml_is_3d(const ggml_tensor* tensor) {
    return of(tensor, __func__, [](const Tensor& t) { return t.ne[3] == 1; });
}

bool ggml_is_contiguous(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 0); }
bool ggml_is_contiguous_0(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 0); }
bool ggml_is_contiguous_1(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 1); }
bool ggml_is_contiguous_2(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 2); }
bool ggml_is_contiguous_to_1(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 0, 1); }
bool ggml_is_contiguous_to_2(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 0, 2); }
bool ggml_is_contiguous_to_3(const ggml_tensor* tensor) { return is_dense(tensor, __func__, 0, 3); }
bool ggml_is_contiguously_allocated(const ggml_tensor* tensor) {
    return of(tensor, __func__, is_contiguously_allocated);
}
bool ggml_is_contiguous_channels(const ggml_tensor* tensor) {
    return of(tensor, __func__, has_dense_channels);
}
bool ggml_is_contiguous_rows(const ggml_tensor* tensor) {
    return of(tensor, __func__, has_dense_rows);
}

bool ggml_are_same_shape(const ggml_tensor* t0, const ggml_tensor* t1) {
    return of_both(t0, t1, __func__, same_shape);
}
bool ggml_are_same_stride(const ggml_tensor* t0, const ggml_tensor* t1) {
    return of_both(t0, t1, __func__, same_strides);
}
bool ggml_can_repeat(const ggml_tensor* t0, const ggml_tensor* t1) {
    return of_both(t0, t1, __func__, can_repeat);
}

void ggml_unravel_index(const ggml_tensor* tensor, int64_t i, int64_t* i0, int64_t* i1, int64_t* i2,
                        int64_t* i3) {
    const Extents at = of(tensor, __func__, [&](const Tensor& t) { return unravel(t, i); });
    int64_t* const out[] = {i0, i1, i2, i3};
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (out[d] != nullptr) *out[d] = at[d];
    }
}
