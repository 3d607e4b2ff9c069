/// Element types: numbers, conversions, traits, and encoding into quantized blocks.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Outcome of an operation that can fail.
enum ggml_status GGML_ENUM_INT {
    GGML_STATUS_ALLOC_FAILED = -2,  ///< Memory could not be obtained.
    GGML_STATUS_FAILED = -1,        ///< Anything else went wrong.
    GGML_STATUS_SUCCESS = 0,        ///< Done.
    GGML_STATUS_ABORTED = 1,        ///< Stopped by the caller's abort callback.
};

/// A short text for `status`, for logs. Static; never NULL.
GGML_API const char* ggml_status_to_string(enum ggml_status status);

// ------------------------------------------------------------------------------------------------
// Types

/// Type of a tensor's elements.
///
/// The numbers are those stored in model files; holes are types that were removed. The quantized
/// types store blocks of elements (see ggml_blck_size()); bits are per element, scales included.
enum ggml_type GGML_ENUM_INT {
    GGML_TYPE_F32 = 0,       ///< 32-bit float.
    GGML_TYPE_F16 = 1,       ///< 16-bit IEEE float.
    GGML_TYPE_Q4_0 = 2,      ///< 4.5 bits, blocks of 32: scale.
    GGML_TYPE_Q4_1 = 3,      ///< 5 bits, blocks of 32: scale and minimum.
    GGML_TYPE_Q5_0 = 6,      ///< 5.5 bits, blocks of 32: scale.
    GGML_TYPE_Q5_1 = 7,      ///< 6 bits, blocks of 32: scale and minimum.
    GGML_TYPE_Q8_0 = 8,      ///< 8.5 bits, blocks of 32: scale.
    GGML_TYPE_Q8_1 = 9,      ///< 9 bits, blocks of 32: an operand of dot products only.
    GGML_TYPE_Q2_K = 10,     ///< 2.625 bits, blocks of 256.
    GGML_TYPE_Q3_K = 11,     ///< 3.4375 bits, blocks of 256.
    GGML_TYPE_Q4_K = 12,     ///< 4.5 bits, blocks of 256.
    GGML_TYPE_Q5_K = 13,     ///< 5.5 bits, blocks of 256.
    GGML_TYPE_Q6_K = 14,     ///< 6.5625 bits, blocks of 256.
    GGML_TYPE_Q8_K = 15,     ///< 9.125 bits, blocks of 256: an operand of dot products only.
    GGML_TYPE_IQ2_XXS = 16,  ///< 2.0625 bits, blocks of 256, codebook.
    GGML_TYPE_IQ2_XS = 17,   ///< 2.3125 bits, blocks of 256, codebook.
    GGML_TYPE_IQ3_XXS = 18,  ///< 3.0625 bits, blocks of 256, codebook.
    GGML_TYPE_IQ1_S = 19,    ///< 1.5625 bits, blocks of 256, codebook.
    GGML_TYPE_IQ4_NL = 20,   ///< 4.5 bits, blocks of 32, unevenly spaced levels.
    GGML_TYPE_IQ3_S = 21,    ///< 3.4375 bits, blocks of 256, codebook.
    GGML_TYPE_IQ2_S = 22,    ///< 2.5625 bits, blocks of 256, codebook.
    GGML_TYPE_IQ4_XS = 23,   ///< 4.25 bits, blocks of 256, unevenly spaced levels.
    GGML_TYPE_I8 = 24,       ///< 8-bit integer.
    GGML_TYPE_I16 = 25,      ///< 16-bit integer.
    GGML_TYPE_I32 = 26,      ///< 32-bit integer.
    GGML_TYPE_I64 = 27,      ///< 64-bit integer.
    GGML_TYPE_F64 = 28,      ///< 64-bit float.
    GGML_TYPE_IQ1_M = 29,    ///< 1.75 bits, blocks of 256, codebook.
    GGML_TYPE_BF16 = 30,     ///< 16-bit brain float: the upper half of a 32-bit float.
    GGML_TYPE_TQ1_0 = 34,    ///< 1.6875 bits, blocks of 256, ternary.
    GGML_TYPE_TQ2_0 = 35,    ///< 2.0625 bits, blocks of 256, ternary.
    GGML_TYPE_MXFP4 = 39,    ///< 4.25 bits, blocks of 32: 4-bit floats, power-of-two scale.
    GGML_TYPE_NVFP4 = 40,    ///< 4.5 bits, blocks of 64: 4-bit floats, 8-bit float scales.
    GGML_TYPE_Q1_0 = 41,     ///< 1.125 bits, blocks of 128: sign and scale.
    GGML_TYPE_Q2_0 = 42,     ///< 2.25 bits, blocks of 64: scale.
    GGML_TYPE_COUNT = 43,    ///< One past the largest type.
};

/// What a whole model file is mostly stored in; the field `ftype` of model files.
enum ggml_ftype GGML_ENUM_INT {
    GGML_FTYPE_UNKNOWN = -1,              ///< Not known.
    GGML_FTYPE_ALL_F32 = 0,               ///< Everything is F32.
    GGML_FTYPE_MOSTLY_F16 = 1,            ///< All but one-dimensional tensors are F16; so below.
    GGML_FTYPE_MOSTLY_Q4_0 = 2,           ///< Q4_0.
    GGML_FTYPE_MOSTLY_Q4_1 = 3,           ///< Q4_1.
    GGML_FTYPE_MOSTLY_Q4_1_SOME_F16 = 4,  ///< Q4_1 with some tensors in F16.
    GGML_FTYPE_MOSTLY_Q8_0 = 7,           ///< Q8_0.
    GGML_FTYPE_MOSTLY_Q5_0 = 8,           ///< Q5_0.
    GGML_FTYPE_MOSTLY_Q5_1 = 9,           ///< Q5_1.
    GGML_FTYPE_MOSTLY_Q2_K = 10,          ///< Q2_K.
    GGML_FTYPE_MOSTLY_Q3_K = 11,          ///< Q3_K.
    GGML_FTYPE_MOSTLY_Q4_K = 12,          ///< Q4_K.
    GGML_FTYPE_MOSTLY_Q5_K = 13,          ///< Q5_K.
    GGML_FTYPE_MOSTLY_Q6_K = 14,          ///< Q6_K.
    GGML_FTYPE_MOSTLY_IQ2_XXS = 15,       ///< IQ2_XXS.
    GGML_FTYPE_MOSTLY_IQ2_XS = 16,        ///< IQ2_XS.
    GGML_FTYPE_MOSTLY_IQ3_XXS = 17,       ///< IQ3_XXS.
    GGML_FTYPE_MOSTLY_IQ1_S = 18,         ///< IQ1_S.
    GGML_FTYPE_MOSTLY_IQ4_NL = 19,        ///< IQ4_NL.
    GGML_FTYPE_MOSTLY_IQ3_S = 20,         ///< IQ3_S.
    GGML_FTYPE_MOSTLY_IQ2_S = 21,         ///< IQ2_S.
    GGML_FTYPE_MOSTLY_IQ4_XS = 22,        ///< IQ4_XS.
    GGML_FTYPE_MOSTLY_IQ1_M = 23,         ///< IQ1_M.
    GGML_FTYPE_MOSTLY_BF16 = 24,          ///< BF16.
    GGML_FTYPE_MOSTLY_MXFP4 = 25,         ///< MXFP4.
    GGML_FTYPE_MOSTLY_NVFP4 = 26,         ///< NVFP4.
    GGML_FTYPE_MOSTLY_Q1_0 = 27,          ///< Q1_0.
    GGML_FTYPE_MOSTLY_Q2_0 = 28,          ///< Q2_0.
};

/// The type that a file type stands for. UNKNOWN and Q4_1_SOME_F16 stand for none: an error.
GGML_API enum ggml_type ggml_ftype_to_ggml_type(enum ggml_ftype ftype);

/// Elements in one block: 1 for plain numbers, 0 for removed types.
GGML_API int64_t ggml_blck_size(enum ggml_type type);

/// Bytes of one block; for plain numbers of one element.
GGML_API size_t ggml_type_size(enum ggml_type type);

/// Bytes of a dense row of `ne` elements, a multiple of the block size.
GGML_API size_t ggml_row_size(enum ggml_type type, int64_t ne);

/// Bytes per element, as a fraction for quantized types.
GGML_DEPRECATED(GGML_API double ggml_type_sizef(enum ggml_type type),
                "use ggml_row_size() instead");

/// Name such as "f32" or "q4_K". Static; never NULL.
GGML_API const char* ggml_type_name(enum ggml_type type);

/// Whether elements are stored in blocks with shared scales.
GGML_API bool ggml_is_quantized(enum ggml_type type);

// ------------------------------------------------------------------------------------------------
// Half floats

typedef uint16_t ggml_fp16_t;  ///< Bits of a 16-bit IEEE float.

/// Bits of a brain float. A struct, so that it is not mistaken for a number.
typedef struct {
    uint16_t bits;  ///< Upper half of a 32-bit float.
} ggml_bf16_t;

/// Exact value of `h`.
GGML_API float ggml_fp16_to_fp32(ggml_fp16_t h);

/// Nearest half float, ties to even; too large values become infinite.
GGML_API ggml_fp16_t ggml_fp32_to_fp16(float f);

/// ggml_fp16_to_fp32() for `n` values.
GGML_API void ggml_fp16_to_fp32_row(const ggml_fp16_t* x, float* y, int64_t n);

/// ggml_fp32_to_fp16() for `n` values.
GGML_API void ggml_fp32_to_fp16_row(const float* x, ggml_fp16_t* y, int64_t n);

/// Nearest brain float, ties to even; NaN stays NaN.
GGML_API ggml_bf16_t ggml_fp32_to_bf16(float f);

/// Exact value of `h`.
GGML_API float ggml_bf16_to_fp32(ggml_bf16_t h);

/// ggml_bf16_to_fp32() for `n` values.
GGML_API void ggml_bf16_to_fp32_row(const ggml_bf16_t* x, float* y, int64_t n);

/// ggml_fp32_to_bf16() for `n` values, bit for bit.
GGML_API void ggml_fp32_to_bf16_row_ref(const float* x, ggml_bf16_t* y, int64_t n);

/// ggml_fp32_to_bf16() for `n` values; the processor's own conversion may flush subnormals to zero.
GGML_API void ggml_fp32_to_bf16_row(const float* x, ggml_bf16_t* y, int64_t n);

// ------------------------------------------------------------------------------------------------
// Traits

/// Decodes `k` elements, a multiple of the block size, from `x` to `y`.
typedef void (*ggml_to_float_t)(const void* GGML_RESTRICT x, float* GGML_RESTRICT y, int64_t k);

/// Encodes `k` elements, a multiple of the block size, from `x` to `y`.
typedef void (*ggml_from_float_t)(const float* GGML_RESTRICT x, void* GGML_RESTRICT y, int64_t k);

/// What there is to know about a type.
struct ggml_type_traits {
    const char* type_name;             ///< See ggml_type_name().
    int64_t blck_size;                 ///< See ggml_blck_size().
    int64_t blck_size_interleave;      ///< Rows interleaved in one block; 0 for every type.
    size_t type_size;                  ///< See ggml_type_size().
    bool is_quantized;                 ///< See ggml_is_quantized().
    ggml_to_float_t to_float;          ///< Decoder; NULL for F32, integers, F64, Q8_1 and Q8_K.
    ggml_from_float_t from_float_ref;  ///< Encoder, the same bytes on every machine; may be NULL.
};

/// The traits of `type`. Static; removed types have a row of zeros.
GGML_API const struct ggml_type_traits* ggml_get_type_traits(enum ggml_type type);

// ------------------------------------------------------------------------------------------------
// Encoding

/// Prepares the search tables that encoding `type` needs; nothing to do for most types, or twice.
/// ggml_quantize_chunk() calls it. Any thread may.
GGML_API void ggml_quantize_init(enum ggml_type type);

/// Releases all search tables. No other thread may be encoding. Later encoding builds them again.
GGML_API void ggml_quantize_free(void);

/// Whether encoding `type` without an importance matrix is refused: IQ2_XXS, IQ2_XS, IQ1_S.
GGML_API bool ggml_quantize_requires_imatrix(enum ggml_type type);

/// Encodes rows of a tensor and returns the bytes written.
///
/// `src` and `dst` are the beginnings of the whole tensor. Takes `nrows` rows of `n_per_row` floats
/// from element `start` on, which is the beginning of a row. `imatrix` gives the importance of each
/// column, `n_per_row` floats used for every row, or is NULL. Threads may encode different rows of
/// a tensor at the same time.
GGML_API size_t ggml_quantize_chunk(enum ggml_type type, const float* src, void* dst, int64_t start,
                                    int64_t nrows, int64_t n_per_row, const float* imatrix);

/// Whether `nbytes` bytes at `data` hold whole blocks of `type` whose numbers and scales are
/// finite. The reason for a refusal is logged.
GGML_API bool ggml_validate_row_data(enum ggml_type type, const void* data, size_t nbytes);

#ifdef __cplusplus
}
#endif
