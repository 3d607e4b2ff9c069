/// What the library and its backends share beyond the public headers.
///
/// Backends built outside this tree inline the functions here, so their effect on memory is ABI.
#pragma once

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"
#include "ggml/ops_train.h"
#include "gguf.h"
#include "impl/float_formats.h"
#include "impl/fusion.h"
#include "impl/graph.h"
#include "impl/view_ops.h"

#ifdef __cplusplus
#include <vector>
#else
#include <assert.h>
#ifndef static_assert
#define static_assert _Static_assert  ///< C11 libraries without the macro.
#endif
#endif

#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))  ///< The smaller one; evaluates it twice.
#endif
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))  ///< The larger one; evaluates it twice.
#endif

#define TENSOR_ALIGNMENT 32  ///< Alignment in bytes of tensor data in host memory.

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Messages

/// Sends a printf-like message to the log callback. Messages end their line themselves.
GGML_ATTRIBUTE_FORMAT(2, 3)
GGML_API void ggml_log_internal(enum ggml_log_level level, const char* format, ...);

/// The log callback in use until ggml_log_set() chooses another: writes to stderr.
GGML_API void ggml_log_callback_default(enum ggml_log_level level, const char* text,
                                        void* user_data);

#define GGML_LOG(...) ggml_log_internal(GGML_LOG_LEVEL_NONE, __VA_ARGS__)         ///< Plain text.
#define GGML_LOG_INFO(...) ggml_log_internal(GGML_LOG_LEVEL_INFO, __VA_ARGS__)    ///< Progress.
#define GGML_LOG_WARN(...) ggml_log_internal(GGML_LOG_LEVEL_WARN, __VA_ARGS__)    ///< Doubtful.
#define GGML_LOG_ERROR(...) ggml_log_internal(GGML_LOG_LEVEL_ERROR, __VA_ARGS__)  ///< Failed.
#define GGML_LOG_DEBUG(...) ggml_log_internal(GGML_LOG_LEVEL_DEBUG, __VA_ARGS__)  ///< For us.
#define GGML_LOG_CONT(...) ggml_log_internal(GGML_LOG_LEVEL_CONT, __VA_ARGS__)    ///< Same line.

#ifndef GGML_DEBUG
#define GGML_DEBUG 0  ///< Which of the following messages are compiled in.
#endif

/// A debug message compiled in from GGML_DEBUG 1 on.
#if GGML_DEBUG >= 1
#define GGML_PRINT_DEBUG(...) GGML_LOG_DEBUG(__VA_ARGS__)
#else
#define GGML_PRINT_DEBUG(...)
#endif

/// A debug message compiled in from GGML_DEBUG 5 on.
#if GGML_DEBUG >= 5
#define GGML_PRINT_DEBUG_5(...) GGML_LOG_DEBUG(__VA_ARGS__)
#else
#define GGML_PRINT_DEBUG_5(...)
#endif

/// A debug message compiled in from GGML_DEBUG 10 on.
#if GGML_DEBUG >= 10
#define GGML_PRINT_DEBUG_10(...) GGML_LOG_DEBUG(__VA_ARGS__)
#else
#define GGML_PRINT_DEBUG_10(...)
#endif

/// Writes the calling thread's stack to stderr, where the platform can do that.
GGML_API void ggml_print_backtrace(void);

// ------------------------------------------------------------------------------------------------
// Memory

/// `size` bytes aligned to at least 64; NULL for size 0 or without memory.
GGML_API void* ggml_aligned_malloc(size_t size);

/// Releases memory of ggml_aligned_malloc() with the size it was asked for. NULL is fine.
GGML_API void ggml_aligned_free(void* ptr, size_t size);

// ------------------------------------------------------------------------------------------------
// Arithmetic

/// `n` rounded up to a multiple of 32.
static inline int ggml_up32(int n) { return (n + 31) & ~31; }

/// `n` rounded up to a multiple of `m`, a power of two.
static inline int ggml_up(int n, int m) { return (n + m - 1) & ~(m - 1); }

/// ln(1 + e^input), and `input` itself above 20, where the two agree in float.
static inline float ggml_compute_softplus_f32(float input) {
    return input > 20.0f ? input : logf(1.0f + expf(input));
}

// ------------------------------------------------------------------------------------------------
// Tensors

/// Whether two tensors have the same type, extents and strides.
static inline bool ggml_are_same_layout(const struct ggml_tensor* a, const struct ggml_tensor* b) {
    return a->type == b->type && ggml_are_same_shape(a, b) && ggml_are_same_stride(a, b);
}

/// Whether `t` shares the memory of another tensor.
static inline bool ggml_impl_is_view(const struct ggml_tensor* t) { return t->view_src != NULL; }

/// Whether the result of `op` may take the memory of a source of the same layout.
GGML_API bool ggml_op_can_inplace(enum ggml_op op);

// ------------------------------------------------------------------------------------------------
// Parameters of operations: 16 words of 32 bits, only 4-byte aligned

/// Copies `params_size` bytes, at most GGML_MAX_OP_PARAMS, to the front of the parameters.
static inline void ggml_set_op_params(struct ggml_tensor* tensor, const void* params,
                                      size_t params_size) {
    GGML_ASSERT(tensor != NULL);
    GGML_ASSERT(params_size <= GGML_MAX_OP_PARAMS);
    memcpy(tensor->op_params, params, params_size);
}

/// Word `i` as an integer.
static inline int32_t ggml_get_op_params_i32(const struct ggml_tensor* tensor, uint32_t i) {
    GGML_ASSERT(i < GGML_MAX_OP_PARAMS / sizeof(int32_t));
    return tensor->op_params[i];
}

/// Word `i` as a float.
static inline float ggml_get_op_params_f32(const struct ggml_tensor* tensor, uint32_t i) {
    return fp32_from_bits((uint32_t)ggml_get_op_params_i32(tensor, i));
}

/// Stores an integer in word `i`.
static inline void ggml_set_op_params_i32(struct ggml_tensor* tensor, uint32_t i, int32_t value) {
    GGML_ASSERT(i < GGML_MAX_OP_PARAMS / sizeof(int32_t));
    tensor->op_params[i] = value;
}

/// Stores a float in word `i`.
static inline void ggml_set_op_params_f32(struct ggml_tensor* tensor, uint32_t i, float value) {
    GGML_ASSERT(i < GGML_MAX_OP_PARAMS / sizeof(float));
    memcpy(&tensor->op_params[i], &value, sizeof value);
}

/// Parameters of a tensor made by ggml_map_custom1().
struct ggml_map_custom1_op_params {
    ggml_custom1_op_t fun;  ///< The program's function.
    int n_tasks;            ///< Threads that call it; GGML_N_TASKS_MAX for all.
    void* userdata;         ///< Handed to it.
};

/// Parameters of a tensor made by ggml_map_custom2().
struct ggml_map_custom2_op_params {
    ggml_custom2_op_t fun;  ///< The program's function.
    int n_tasks;            ///< Threads that call it; GGML_N_TASKS_MAX for all.
    void* userdata;         ///< Handed to it.
};

/// Parameters of a tensor made by ggml_map_custom3().
struct ggml_map_custom3_op_params {
    ggml_custom3_op_t fun;  ///< The program's function.
    int n_tasks;            ///< Threads that call it; GGML_N_TASKS_MAX for all.
    void* userdata;         ///< Handed to it.
};

/// Parameters of a tensor made by ggml_custom_4d() or ggml_custom_inplace().
struct ggml_custom_op_params {
    ggml_custom_op_t fun;  ///< The program's function.
    int n_tasks;           ///< Threads that call it; GGML_N_TASKS_MAX for all.
    void* userdata;        ///< Handed to it.
};

#ifdef __cplusplus
}  // extern "C"

// ------------------------------------------------------------------------------------------------
// GGUF, with C++ linkage

/// Bytes of one value of `type` in a file; 0 for strings and arrays, whose size varies.
GGML_API size_t gguf_type_size(enum gguf_type type);

/// Appends the file image of `ctx` to `buf`: the header alone, or with all tensor data.
GGML_API void gguf_write_to_buf(const struct gguf_context* ctx, std::vector<int8_t>& buf,
                                bool only_meta);
#endif
