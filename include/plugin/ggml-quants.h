/// Row conversions of the quantized types, for backends and tests.
///
/// Everything here works on densely packed rows in host memory and may run on several threads at
/// once. Element counts are multiples of the elements in a block.
#pragma once

#define GGML_COMMON_DECL_C  ///< Selects the C flavour of the block layouts.
#include "ggml-common.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

// clang-format off: one function per line reads as the table it is

// ------------------------------------------------------------------------------------------------
// Float to blocks, the reference
//
// quantize_row_X_ref(x, y, k) writes k / block size blocks for k floats. Deterministic, the same
// bytes on every machine.

/// Encodes `k` floats as Q1_0.
GGML_API void quantize_row_q1_0_ref(const float* GGML_RESTRICT x, block_q1_0* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q2_0.
GGML_API void quantize_row_q2_0_ref(const float* GGML_RESTRICT x, block_q2_0* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q4_0.
GGML_API void quantize_row_q4_0_ref(const float* GGML_RESTRICT x, block_q4_0* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q4_1.
GGML_API void quantize_row_q4_1_ref(const float* GGML_RESTRICT x, block_q4_1* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q5_0.
GGML_API void quantize_row_q5_0_ref(const float* GGML_RESTRICT x, block_q5_0* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q5_1.
GGML_API void quantize_row_q5_1_ref(const float* GGML_RESTRICT x, block_q5_1* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q8_0.
GGML_API void quantize_row_q8_0_ref(const float* GGML_RESTRICT x, block_q8_0* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q8_1.
GGML_API void quantize_row_q8_1_ref(const float* GGML_RESTRICT x, block_q8_1* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as MXFP4.
GGML_API void quantize_row_mxfp4_ref(const float* GGML_RESTRICT x, block_mxfp4* GGML_RESTRICT y,
                                     int64_t k);
/// Encodes `k` floats as NVFP4.
GGML_API void quantize_row_nvfp4_ref(const float* GGML_RESTRICT x, block_nvfp4* GGML_RESTRICT y,
                                     int64_t k);

/// Encodes `k` floats as Q2_K.
GGML_API void quantize_row_q2_K_ref(const float* GGML_RESTRICT x, block_q2_K* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q3_K.
GGML_API void quantize_row_q3_K_ref(const float* GGML_RESTRICT x, block_q3_K* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q4_K.
GGML_API void quantize_row_q4_K_ref(const float* GGML_RESTRICT x, block_q4_K* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q5_K.
GGML_API void quantize_row_q5_K_ref(const float* GGML_RESTRICT x, block_q5_K* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q6_K.
GGML_API void quantize_row_q6_K_ref(const float* GGML_RESTRICT x, block_q6_K* GGML_RESTRICT y,
                                    int64_t k);
/// Encodes `k` floats as Q8_K.
GGML_API void quantize_row_q8_K_ref(const float* GGML_RESTRICT x, block_q8_K* GGML_RESTRICT y,
                                    int64_t k);

/// Encodes `k` floats as TQ1_0.
GGML_API void quantize_row_tq1_0_ref(const float* GGML_RESTRICT x, block_tq1_0* GGML_RESTRICT y,
                                     int64_t k);
/// Encodes `k` floats as TQ2_0.
GGML_API void quantize_row_tq2_0_ref(const float* GGML_RESTRICT x, block_tq2_0* GGML_RESTRICT y,
                                     int64_t k);

/// Encodes `k` floats as IQ2_S.
GGML_API void quantize_row_iq2_s_ref(const float* GGML_RESTRICT x, block_iq2_s* GGML_RESTRICT y,
                                     int64_t k);
/// Encodes `k` floats as IQ3_XXS.
GGML_API void quantize_row_iq3_xxs_ref(const float* GGML_RESTRICT x, block_iq3_xxs* GGML_RESTRICT y,
                                       int64_t k);
/// Encodes `k` floats as IQ3_S.
GGML_API void quantize_row_iq3_s_ref(const float* GGML_RESTRICT x, block_iq3_s* GGML_RESTRICT y,
                                     int64_t k);
/// Encodes `k` floats as IQ4_NL.
GGML_API void quantize_row_iq4_nl_ref(const float* GGML_RESTRICT x, block_iq4_nl* GGML_RESTRICT y,
                                      int64_t k);
/// Encodes `k` floats as IQ4_XS.
GGML_API void quantize_row_iq4_xs_ref(const float* GGML_RESTRICT x, block_iq4_xs* GGML_RESTRICT y,
                                      int64_t k);

// ------------------------------------------------------------------------------------------------
// Blocks to float
//
// dequantize_row_X(x, y, k) writes k floats; exact to the last bit on every machine.

/// Decodes `k` elements of Q1_0.
GGML_API void dequantize_row_q1_0(const block_q1_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q2_0.
GGML_API void dequantize_row_q2_0(const block_q2_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q4_0.
GGML_API void dequantize_row_q4_0(const block_q4_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q4_1.
GGML_API void dequantize_row_q4_1(const block_q4_1* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q5_0.
GGML_API void dequantize_row_q5_0(const block_q5_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q5_1.
GGML_API void dequantize_row_q5_1(const block_q5_1* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q8_0.
GGML_API void dequantize_row_q8_0(const block_q8_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of MXFP4.
GGML_API void dequantize_row_mxfp4(const block_mxfp4* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of NVFP4.
GGML_API void dequantize_row_nvfp4(const block_nvfp4* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);

/// Decodes `k` elements of Q2_K.
GGML_API void dequantize_row_q2_K(const block_q2_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q3_K.
GGML_API void dequantize_row_q3_K(const block_q3_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q4_K.
GGML_API void dequantize_row_q4_K(const block_q4_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q5_K.
GGML_API void dequantize_row_q5_K(const block_q5_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q6_K.
GGML_API void dequantize_row_q6_K(const block_q6_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);
/// Decodes `k` elements of Q8_K.
GGML_API void dequantize_row_q8_K(const block_q8_K* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                  int64_t k);

/// Decodes `k` elements of TQ1_0.
GGML_API void dequantize_row_tq1_0(const block_tq1_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of TQ2_0.
GGML_API void dequantize_row_tq2_0(const block_tq2_0* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);

/// Decodes `k` elements of IQ1_S.
GGML_API void dequantize_row_iq1_s(const block_iq1_s* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of IQ1_M.
GGML_API void dequantize_row_iq1_m(const block_iq1_m* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of IQ2_XXS.
GGML_API void dequantize_row_iq2_xxs(const block_iq2_xxs* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                     int64_t k);
/// Decodes `k` elements of IQ2_XS.
GGML_API void dequantize_row_iq2_xs(const block_iq2_xs* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                    int64_t k);
/// Decodes `k` elements of IQ2_S.
GGML_API void dequantize_row_iq2_s(const block_iq2_s* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of IQ3_XXS.
GGML_API void dequantize_row_iq3_xxs(const block_iq3_xxs* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                     int64_t k);
/// Decodes `k` elements of IQ3_S.
GGML_API void dequantize_row_iq3_s(const block_iq3_s* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                   int64_t k);
/// Decodes `k` elements of IQ4_NL.
GGML_API void dequantize_row_iq4_nl(const block_iq4_nl* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                    int64_t k);
/// Decodes `k` elements of IQ4_XS.
GGML_API void dequantize_row_iq4_xs(const block_iq4_xs* GGML_RESTRICT x, float* GGML_RESTRICT y,
                                    int64_t k);

// ------------------------------------------------------------------------------------------------
// Float to blocks, weighted
//
// quantize_X(src, dst, nrows, n_per_row, imatrix) encodes whole rows and returns the bytes written.
// `imatrix` holds the importance of each column, n_per_row floats for all rows, or is NULL;
// IQ2_XXS, IQ2_XS and IQ1_S need it, the plain and FP4 types without a search ignore it.

/// Encodes `nrows` rows as Q1_0.
GGML_API size_t quantize_q1_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q2_0.
GGML_API size_t quantize_q2_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q4_0.
GGML_API size_t quantize_q4_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q4_1.
GGML_API size_t quantize_q4_1(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q5_0.
GGML_API size_t quantize_q5_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q5_1.
GGML_API size_t quantize_q5_1(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q8_0.
GGML_API size_t quantize_q8_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as MXFP4.
GGML_API size_t quantize_mxfp4(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as NVFP4.
GGML_API size_t quantize_nvfp4(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);

/// Encodes `nrows` rows as Q2_K.
GGML_API size_t quantize_q2_K(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q3_K.
GGML_API size_t quantize_q3_K(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q4_K.
GGML_API size_t quantize_q4_K(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q5_K.
GGML_API size_t quantize_q5_K(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as Q6_K.
GGML_API size_t quantize_q6_K(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                              int64_t nrows, int64_t n_per_row, const float* imatrix);

/// Encodes `nrows` rows as TQ1_0.
GGML_API size_t quantize_tq1_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as TQ2_0.
GGML_API size_t quantize_tq2_0(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);

/// Encodes `nrows` rows as IQ1_S.
GGML_API size_t quantize_iq1_s(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ1_M.
GGML_API size_t quantize_iq1_m(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ2_XXS.
GGML_API size_t quantize_iq2_xxs(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                                 int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ2_XS.
GGML_API size_t quantize_iq2_xs(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                                int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ2_S.
GGML_API size_t quantize_iq2_s(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ3_XXS.
GGML_API size_t quantize_iq3_xxs(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                                 int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ3_S.
GGML_API size_t quantize_iq3_s(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                               int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ4_NL.
GGML_API size_t quantize_iq4_nl(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                                int64_t nrows, int64_t n_per_row, const float* imatrix);
/// Encodes `nrows` rows as IQ4_XS.
GGML_API size_t quantize_iq4_xs(const float* GGML_RESTRICT src, void* GGML_RESTRICT dst,
                                int64_t nrows, int64_t n_per_row, const float* imatrix);

// clang-format on

// ------------------------------------------------------------------------------------------------
// Search tables of the codebook types; ggml_quantize_init() and ggml_quantize_free() look after
// them

/// Builds the tables for IQ2_XXS, IQ2_XS, IQ2_S, IQ1_S or IQ1_M; nothing to do if they are there.
GGML_API void iq2xs_init_impl(enum ggml_type type);

/// Releases them. No other thread may be encoding.
GGML_API void iq2xs_free_impl(enum ggml_type type);

/// Builds the tables for IQ3_XXS (`grid_size` 256) or IQ3_S (512); nothing to do if they are there.
GGML_API void iq3xs_init_impl(int grid_size);

/// Releases them. No other thread may be encoding.
GGML_API void iq3xs_free_impl(int grid_size);

#ifdef __cplusplus
}
#endif
