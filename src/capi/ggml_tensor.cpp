// Sizes, shapes and layouts of tensors.

#include "core/context.hpp"
#include "core/tensor.hpp"
#include "ggml.h"

using namespace heddle;

int64_t ggml_nelements(const ggml_tensor* tensor) { return element_count(*tensor); }
int64_t ggml_nrows(const ggml_tensor* tensor) { return row_count(*tensor); }
size_t ggml_nbytes(const ggml_tensor* tensor) { return byte_size(*tensor); }
size_t ggml_nbytes_pad(const ggml_tensor* tensor) {
    return GGML_PAD(byte_size(*tensor), kArenaAlignment);
}
size_t ggml_element_size(const ggml_tensor* tensor) { return size_of(tensor->type); }
int ggml_n_dims(const ggml_tensor* tensor) { return dimension_count(*tensor); }

bool ggml_is_transposed(const ggml_tensor* tensor) { return is_transposed(*tensor); }
bool ggml_is_permuted(const ggml_tensor* tensor) { return is_permuted(*tensor); }
bool ggml_is_empty(const ggml_tensor* tensor) { return is_empty(*tensor); }
bool ggml_is_view(const ggml_tensor* tensor) { return tensor->view_src != nullptr; }
bool ggml_is_scalar(const ggml_tensor* tensor) { return is_scalar(*tensor); }
bool ggml_is_vector(const ggml_tensor* tensor) { return is_vector(*tensor); }
bool ggml_is_matrix(const ggml_tensor* tensor) { return is_matrix(*tensor); }
bool ggml_is_3d(const ggml_tensor* tensor) { return tensor->ne[3] == 1; }

bool ggml_is_contiguous(const ggml_tensor* tensor) { return is_contiguous(*tensor); }
bool ggml_is_contiguous_0(const ggml_tensor* tensor) { return is_contiguous(*tensor); }
bool ggml_is_contiguous_1(const ggml_tensor* tensor) { return is_contiguous(*tensor, 1); }
bool ggml_is_contiguous_2(const ggml_tensor* tensor) { return is_contiguous(*tensor, 2); }
bool ggml_is_contiguous_to_1(const ggml_tensor* tensor) { return is_contiguous(*tensor, 0, 1); }
bool ggml_is_contiguous_to_2(const ggml_tensor* tensor) { return is_contiguous(*tensor, 0, 2); }
bool ggml_is_contiguous_to_3(const ggml_tensor* tensor) { return is_contiguous(*tensor, 0, 3); }
bool ggml_is_contiguously_allocated(const ggml_tensor* tensor) {
    return is_contiguously_allocated(*tensor);
}
bool ggml_is_contiguous_channels(const ggml_tensor* tensor) { return has_dense_channels(*tensor); }
bool ggml_is_contiguous_rows(const ggml_tensor* tensor) { return has_dense_rows(*tensor); }

bool ggml_are_same_shape(const ggml_tensor* t0, const ggml_tensor* t1) {
    return same_shape(*t0, *t1);
}
bool ggml_are_same_stride(const ggml_tensor* t0, const ggml_tensor* t1) {
    return same_strides(*t0, *t1);
}
bool ggml_can_repeat(const ggml_tensor* t0, const ggml_tensor* t1) { return can_repeat(*t0, *t1); }

void ggml_unravel_index(const ggml_tensor* tensor, int64_t i, int64_t* i0, int64_t* i1, int64_t* i2,
                        int64_t* i3) {
    const Extents at = unravel(*tensor, i);
    int64_t* const out[] = {i0, i1, i2, i3};
    for (std::size_t d = 0; d < kMaxDims; ++d) {
        if (out[d] != nullptr) *out[d] = at[d];
    }
}
