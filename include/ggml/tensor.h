/// Tensors and the contexts they live in.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "op.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend_buffer;
struct ggml_cgraph;
struct ggml_context;  ///< Memory for tensors and graphs; see ggml_init().
struct ggml_object;   ///< One allocation inside a context.

// ------------------------------------------------------------------------------------------------
// Tensor

/// Properties of a tensor, bits of ggml_tensor::flags.
enum ggml_tensor_flag GGML_ENUM_INT {
    GGML_TENSOR_FLAG_INPUT = 1,     ///< Written by the program before the graph runs.
    GGML_TENSOR_FLAG_OUTPUT = 2,    ///< Read by the program afterwards; keeps its memory.
    GGML_TENSOR_FLAG_PARAM = 4,     ///< Trainable.
    GGML_TENSOR_FLAG_LOSS = 8,      ///< Where gradients start; several losses add up.
    GGML_TENSOR_FLAG_COMPUTE = 16,  ///< To be computed; graphs skip nodes without it.
};

/// An array of up to four dimensions, and how it is computed.
///
/// Element (i0, i1, i2, i3) lies at data + i0 * nb[0] + i1 * nb[1] + i2 * nb[2] + i3 * nb[3]; in
/// types with blocks, i0 counts blocks. Dimension 0 is the row. The struct lives in a context and
/// owns nothing.
struct ggml_tensor {
    enum ggml_type type;                 ///< Type of the elements.
    struct ggml_backend_buffer* buffer;  ///< Buffer that holds the data; NULL outside of buffers.
    int64_t ne[GGML_MAX_DIMS];           ///< Extents; 1 in unused dimensions.
    size_t nb[GGML_MAX_DIMS];            ///< Strides in bytes.

    enum ggml_op op;  ///< Operation that computes the tensor; GGML_OP_NONE for given data.

    /// Parameters of the operation. Only 4-byte aligned: copy wider values in and out.
    int32_t op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];

    int32_t flags;                          ///< Bits of ggml_tensor_flag.
    struct ggml_tensor* src[GGML_MAX_SRC];  ///< Operands; NULL where there is none.

    struct ggml_tensor* view_src;  ///< Whose memory this tensor shares; never a view itself.
    size_t view_offs;              ///< Bytes from its beginning.

    void* data;                ///< Address of the first element, perhaps on a device; may be NULL.
    char name[GGML_MAX_NAME];  ///< Name, terminated; may be empty.
    void* extra;               ///< For the backend that holds the data.
    char padding[8];           ///< Unused.
};

/// Bytes of the struct, without data.
static const size_t GGML_TENSOR_SIZE = sizeof(struct ggml_tensor);

// ------------------------------------------------------------------------------------------------
// Contexts

/// What ggml_init() needs to know.
struct ggml_init_params {
    size_t mem_size;   ///< Bytes for everything the context will hold.
    void* mem_buffer;  ///< That memory, aligned to GGML_MEM_ALIGN; NULL lets the context get it.
    bool no_alloc;     ///< Whether tensors get no room for data, because a buffer will hold it.
};

/// Kinds of allocation inside a context.
enum ggml_object_type GGML_ENUM_INT {
    GGML_OBJECT_TYPE_TENSOR = 0,       ///< A tensor, with its data where the context holds data.
    GGML_OBJECT_TYPE_GRAPH = 1,        ///< A graph.
    GGML_OBJECT_TYPE_WORK_BUFFER = 2,  ///< Plain memory, see ggml_new_buffer().
};

/// Makes a context; NULL without memory.
///
/// With a `mem_buffer` of the caller's, tensors and graphs stay usable after ggml_free(), as long
/// as that memory does. Contexts may be made from any thread; one context serves one thread at a
/// time.
GGML_API struct ggml_context* ggml_init(struct ggml_init_params params);

/// Forgets everything inside `ctx` and keeps its memory. NULL is fine.
GGML_API void ggml_reset(struct ggml_context* ctx);

/// Releases a context, and its memory unless the caller gave it. NULL is fine.
GGML_API void ggml_free(struct ggml_context* ctx);

/// Bytes in use.
GGML_API size_t ggml_used_mem(const struct ggml_context* ctx);

/// Whether new tensors get no room for data.
GGML_API bool ggml_get_no_alloc(struct ggml_context* ctx);

/// Changes that for tensors made from now on.
GGML_API void ggml_set_no_alloc(struct ggml_context* ctx, bool no_alloc);

/// The context's memory.
GGML_API void* ggml_get_mem_buffer(const struct ggml_context* ctx);

/// Its size in bytes.
GGML_API size_t ggml_get_mem_size(const struct ggml_context* ctx);

/// Bytes of data of the largest tensor in `ctx`, 0 if there is none.
GGML_API size_t ggml_get_max_tensor_size(const struct ggml_context* ctx);

/// Bytes a tensor without data takes in a context.
GGML_API size_t ggml_tensor_overhead(void);

/// Logs where `obj` lies and how large it is.
GGML_API void ggml_print_object(const struct ggml_object* obj);

/// Logs that for everything in `ctx`.
GGML_API void ggml_print_objects(const struct ggml_context* ctx);

// ------------------------------------------------------------------------------------------------
// Making tensors
//
// Results lie in `ctx` and need no release. They are dense, unnamed and without flags. When the
// context is full, or an argument is out of range, there is no tensor: see heddle/heddle.h.

/// A tensor of `n_dims` dimensions (1 to 4) with extents `ne`.
GGML_API struct ggml_tensor* ggml_new_tensor(struct ggml_context* ctx, enum ggml_type type,
                                             int n_dims, const int64_t* ne);

/// A vector.
GGML_API struct ggml_tensor* ggml_new_tensor_1d(struct ggml_context* ctx, enum ggml_type type,
                                                int64_t ne0);

/// A matrix of `ne1` rows with `ne0` elements each.
GGML_API struct ggml_tensor* ggml_new_tensor_2d(struct ggml_context* ctx, enum ggml_type type,
                                                int64_t ne0, int64_t ne1);

/// A tensor of three dimensions.
GGML_API struct ggml_tensor* ggml_new_tensor_3d(struct ggml_context* ctx, enum ggml_type type,
                                                int64_t ne0, int64_t ne1, int64_t ne2);

/// A tensor of four dimensions.
GGML_API struct ggml_tensor* ggml_new_tensor_4d(struct ggml_context* ctx, enum ggml_type type,
                                                int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);

/// `nbytes` bytes inside `ctx`, aligned to GGML_MEM_ALIGN.
GGML_API void* ggml_new_buffer(struct ggml_context* ctx, size_t nbytes);

/// A tensor of the same type and extents as `src`; nothing is copied.
GGML_API struct ggml_tensor* ggml_dup_tensor(struct ggml_context* ctx,
                                             const struct ggml_tensor* src);

/// A tensor that shares the memory of `src` and has its type, extents and strides.
GGML_API struct ggml_tensor* ggml_view_tensor(struct ggml_context* ctx, struct ggml_tensor* src);

/// The tensor made first in `ctx`, NULL if there is none. With ggml_get_next_tensor() it visits all
/// tensors, views and results included.
GGML_API struct ggml_tensor* ggml_get_first_tensor(const struct ggml_context* ctx);

/// The tensor made after `tensor` in `ctx`, NULL after the last one.
GGML_API struct ggml_tensor* ggml_get_next_tensor(const struct ggml_context* ctx,
                                                  struct ggml_tensor* tensor);

/// The first tensor in `ctx` with this name, NULL if there is none.
GGML_API struct ggml_tensor* ggml_get_tensor(struct ggml_context* ctx, const char* name);

// ------------------------------------------------------------------------------------------------
// Names, flags and access

/// The name of `tensor`; "" if it has none. Lives as long as the tensor.
GGML_API const char* ggml_get_name(const struct ggml_tensor* tensor);

/// Sets the name, cut to GGML_MAX_NAME - 1 bytes, and returns `tensor`.
GGML_API struct ggml_tensor* ggml_set_name(struct ggml_tensor* tensor, const char* name);

/// The same with a printf-like format.
GGML_ATTRIBUTE_FORMAT(2, 3)
GGML_API struct ggml_tensor* ggml_format_name(struct ggml_tensor* tensor, const char* fmt, ...);

/// Says that the program writes `tensor` before each run: it gets memory of its own before all
/// nodes, which later nodes may reuse after its last use.
GGML_API void ggml_set_input(struct ggml_tensor* tensor);

/// Says that the program reads `tensor` after the run: nothing overwrites it, nor what it is a view
/// of.
GGML_API void ggml_set_output(struct ggml_tensor* tensor);

/// Says that `tensor`, which must be given data, is trainable.
GGML_API void ggml_set_param(struct ggml_tensor* tensor);

/// Says that gradients start at `tensor`, an F32 scalar.
GGML_API void ggml_set_loss(struct ggml_tensor* tensor);

/// The data pointer, perhaps an address on a device.
GGML_API void* ggml_get_data(const struct ggml_tensor* tensor);

/// The same for an F32 tensor in host memory.
GGML_API float* ggml_get_data_f32(const struct ggml_tensor* tensor);

/// Sets all bytes to zero, wherever they lie, and returns `tensor`.
GGML_API struct ggml_tensor* ggml_set_zero(struct ggml_tensor* tensor);

/// The four indices of the element with number `i` in logical order. Outputs may be NULL.
GGML_API void ggml_unravel_index(const struct ggml_tensor* tensor, int64_t i, int64_t* i0,
                                 int64_t* i1, int64_t* i2, int64_t* i3);

/// Which function a tensor of operation GGML_OP_UNARY applies.
GGML_API enum ggml_unary_op ggml_get_unary_op(const struct ggml_tensor* tensor);

/// Which function a tensor of operation GGML_OP_GLU applies.
GGML_API enum ggml_glu_op ggml_get_glu_op(const struct ggml_tensor* tensor);

// ------------------------------------------------------------------------------------------------
// Sizes

/// Number of elements.
GGML_API int64_t ggml_nelements(const struct ggml_tensor* tensor);

/// Number of rows: the product of extents 1 to 3.
GGML_API int64_t ggml_nrows(const struct ggml_tensor* tensor);

/// Bytes from the first to the end of the last element, gaps included; 0 for an empty tensor.
GGML_API size_t ggml_nbytes(const struct ggml_tensor* tensor);

/// That, rounded up to GGML_MEM_ALIGN.
GGML_API size_t ggml_nbytes_pad(const struct ggml_tensor* tensor);

/// Bytes of one element, or of one block.
GGML_API size_t ggml_element_size(const struct ggml_tensor* tensor);

/// Dimensions in use: one more than the last dimension with an extent above 1, at least 1.
GGML_API int ggml_n_dims(const struct ggml_tensor* tensor);

// ------------------------------------------------------------------------------------------------
// Shape and layout
//
// A dimension of extent 1 fits every stride in these questions.

/// Whether some extent is 0.
GGML_API bool ggml_is_empty(const struct ggml_tensor* tensor);

/// Whether there is exactly one element.
GGML_API bool ggml_is_scalar(const struct ggml_tensor* tensor);

/// Whether only dimension 0 is in use.
GGML_API bool ggml_is_vector(const struct ggml_tensor* tensor);

/// Whether only dimensions 0 and 1 are in use.
GGML_API bool ggml_is_matrix(const struct ggml_tensor* tensor);

/// Whether dimension 3 is not in use.
GGML_API bool ggml_is_3d(const struct ggml_tensor* tensor);

/// Whether the tensor shares the memory of another one; true for in-place results too.
GGML_API bool ggml_is_view(const struct ggml_tensor* tensor);

/// Whether dimension 0 has a larger stride than dimension 1.
GGML_API bool ggml_is_transposed(const struct ggml_tensor* tensor);

/// Whether strides are not in ascending order.
GGML_API bool ggml_is_permuted(const struct ggml_tensor* tensor);

/// Whether elements lie in logical order without gaps.
GGML_API bool ggml_is_contiguous(const struct ggml_tensor* tensor);

/// The same as ggml_is_contiguous().
GGML_API bool ggml_is_contiguous_0(const struct ggml_tensor* tensor);

/// Whether rows are dense and lie evenly spaced, at any distance, across dimensions 1 to 3.
GGML_API bool ggml_is_contiguous_1(const struct ggml_tensor* tensor);

/// Whether rows are dense and planes lie evenly spaced across dimension 3, at any distance inside.
GGML_API bool ggml_is_contiguous_2(const struct ggml_tensor* tensor);

/// Whether rows are dense.
GGML_API bool ggml_is_contiguous_to_1(const struct ggml_tensor* tensor);

/// Whether dimensions 0 and 1 are dense.
GGML_API bool ggml_is_contiguous_to_2(const struct ggml_tensor* tensor);

/// Whether dimensions 0 to 2 are dense.
GGML_API bool ggml_is_contiguous_to_3(const struct ggml_tensor* tensor);

/// Whether elements fill their memory without gaps, in any order.
GGML_API bool ggml_is_contiguously_allocated(const struct ggml_tensor* tensor);

/// Whether this is an image with channels stored together: dimension 2 fastest, then 0, then 1.
GGML_API bool ggml_is_contiguous_channels(const struct ggml_tensor* tensor);

/// Whether the elements of each row lie one after the other.
GGML_API bool ggml_is_contiguous_rows(const struct ggml_tensor* tensor);

/// Whether all extents are equal.
GGML_API bool ggml_are_same_shape(const struct ggml_tensor* t0, const struct ggml_tensor* t1);

/// Whether all strides are equal.
GGML_API bool ggml_are_same_stride(const struct ggml_tensor* t0, const struct ggml_tensor* t1);

/// Whether `t0`, repeated a whole number of times in each dimension, fills `t1`.
GGML_API bool ggml_can_repeat(const struct ggml_tensor* t0, const struct ggml_tensor* t1);

#ifdef __cplusplus
}
#endif
