// Row functions of the block formats, under the names that compiled plug-ins link. All of them go
// through the codec of their type.

#include "capi/boundary.hpp"
#include "ggml-quants.h"
#include "quant/codec.hpp"

using namespace heddle;

namespace {

std::size_t encode(const char* function, Type type, const float* src, void* dst, std::int64_t rows,
                   std::int64_t columns, const float* importance) {
    return capi::value_or_fail(
        [&]() -> Result<std::size_t> {
            if (rows > 0) {
                HEDDLE_TRY(capi::require(src, function, "the source"));
                HEDDLE_TRY(capi::require(dst, function, "the destination"));
            }
            HEDDLE_TRY(quant::encode_rows(type, src, dst, rows, columns, importance));
            return static_cast<std::size_t>(rows) * row_size(type, columns);
        },
        std::size_t{0});
}

}  // namespace

// One line per exported name: the three shapes differ only in the type.
#define ENCODE_ROW(suffix, type)                                                       \
    void quantize_row_##suffix##_ref(const float* x, block_##suffix* y, int64_t k) {   \
        if (capi::are_rows(x, y, k, __func__)) quant::codec_of(type)->encode(x, y, k); \
    }
#define DECODE_ROW(suffix, type)                                                       \
    void dequantize_row_##suffix(const block_##suffix* x, float* y, int64_t k) {       \
        if (capi::are_rows(x, y, k, __func__)) quant::codec_of(type)->decode(x, y, k); \
    }
#define ENCODE_ROWS(suffix, type)                                                           \
    size_t quantize_##suffix(const float* src, void* dst, int64_t nrows, int64_t n_per_row, \
                             const float* imatrix) {                                        \
        return encode(__func__, type, src, dst, nrows, n_per_row, imatrix);                 \
    }

ENCODE_ROW(q1_0, GGML_TYPE_Q1_0)
ENCODE_ROW(q2_0, GGML_TYPE_Q2_0)
ENCODE_ROW(q4_0, GGML_TYPE_Q4_0)
ENCODE_ROW(q4_1, GGML_TYPE_Q4_1)
ENCODE_ROW(q5_0, GGML_TYPE_Q5_0)
ENCODE_ROW(q5_1, GGML_TYPE_Q5_1)
ENCODE_ROW(q8_0, GGML_TYPE_Q8_0)
ENCODE_ROW(q8_1, GGML_TYPE_Q8_1)
ENCODE_ROW(mxfp4, GGML_TYPE_MXFP4)
ENCODE_ROW(nvfp4, GGML_TYPE_NVFP4)
ENCODE_ROW(q2_K, GGML_TYPE_Q2_K)
ENCODE_ROW(q3_K, GGML_TYPE_Q3_K)
ENCODE_ROW(q4_K, GGML_TYPE_Q4_K)
ENCODE_ROW(q5_K, GGML_TYPE_Q5_K)
ENCODE_ROW(q6_K, GGML_TYPE_Q6_K)
ENCODE_ROW(q8_K, GGML_TYPE_Q8_K)
ENCODE_ROW(tq1_0, GGML_TYPE_TQ1_0)
ENCODE_ROW(tq2_0, GGML_TYPE_TQ2_0)
ENCODE_ROW(iq3_xxs, GGML_TYPE_IQ3_XXS)
ENCODE_ROW(iq4_nl, GGML_TYPE_IQ4_NL)
ENCODE_ROW(iq4_xs, GGML_TYPE_IQ4_XS)
ENCODE_ROW(iq3_s, GGML_TYPE_IQ3_S)
ENCODE_ROW(iq2_s, GGML_TYPE_IQ2_S)

DECODE_ROW(q1_0, GGML_TYPE_Q1_0)
DECODE_ROW(q2_0, GGML_TYPE_Q2_0)
DECODE_ROW(q4_0, GGML_TYPE_Q4_0)
DECODE_ROW(q4_1, GGML_TYPE_Q4_1)
DECODE_ROW(q5_0, GGML_TYPE_Q5_0)
DECODE_ROW(q5_1, GGML_TYPE_Q5_1)
DECODE_ROW(q8_0, GGML_TYPE_Q8_0)
DECODE_ROW(mxfp4, GGML_TYPE_MXFP4)
DECODE_ROW(nvfp4, GGML_TYPE_NVFP4)
DECODE_ROW(q2_K, GGML_TYPE_Q2_K)
DECODE_ROW(q3_K, GGML_TYPE_Q3_K)
DECODE_ROW(q4_K, GGML_TYPE_Q4_K)
DECODE_ROW(q5_K, GGML_TYPE_Q5_K)
DECODE_ROW(q6_K, GGML_TYPE_Q6_K)
DECODE_ROW(q8_K, GGML_TYPE_Q8_K)
DECODE_ROW(tq1_0, GGML_TYPE_TQ1_0)
DECODE_ROW(tq2_0, GGML_TYPE_TQ2_0)
DECODE_ROW(iq2_xxs, GGML_TYPE_IQ2_XXS)
DECODE_ROW(iq2_xs, GGML_TYPE_IQ2_XS)
DECODE_ROW(iq2_s, GGML_TYPE_IQ2_S)
DECODE_ROW(iq3_xxs, GGML_TYPE_IQ3_XXS)
DECODE_ROW(iq1_s, GGML_TYPE_IQ1_S)
DECODE_ROW(iq1_m, GGML_TYPE_IQ1_M)
DECODE_ROW(iq4_nl, GGML_TYPE_IQ4_NL)
DECODE_ROW(iq4_xs, GGML_TYPE_IQ4_XS)
DECODE_ROW(iq3_s, GGML_TYPE_IQ3_S)

ENCODE_ROWS(iq2_xxs, GGML_TYPE_IQ2_XXS)
ENCODE_ROWS(iq2_xs, GGML_TYPE_IQ2_XS)
ENCODE_ROWS(iq2_s, GGML_TYPE_IQ2_S)
ENCODE_ROWS(iq3_xxs, GGML_TYPE_IQ3_XXS)
ENCODE_ROWS(iq1_s, GGML_TYPE_IQ1_S)
ENCODE_ROWS(iq1_m, GGML_TYPE_IQ1_M)
ENCODE_ROWS(iq4_nl, GGML_TYPE_IQ4_NL)
ENCODE_ROWS(iq4_xs, GGML_TYPE_IQ4_XS)
ENCODE_ROWS(iq3_s, GGML_TYPE_IQ3_S)
ENCODE_ROWS(tq1_0, GGML_TYPE_TQ1_0)
ENCODE_ROWS(tq2_0, GGML_TYPE_TQ2_0)
ENCODE_ROWS(q2_K, GGML_TYPE_Q2_K)
ENCODE_ROWS(q3_K, GGML_TYPE_Q3_K)
ENCODE_ROWS(q4_K, GGML_TYPE_Q4_K)
ENCODE_ROWS(q5_K, GGML_TYPE_Q5_K)
ENCODE_ROWS(q6_K, GGML_TYPE_Q6_K)
ENCODE_ROWS(q1_0, GGML_TYPE_Q1_0)
ENCODE_ROWS(q2_0, GGML_TYPE_Q2_0)
ENCODE_ROWS(q4_0, GGML_TYPE_Q4_0)
ENCODE_ROWS(q4_1, GGML_TYPE_Q4_1)
ENCODE_ROWS(q5_0, GGML_TYPE_Q5_0)
ENCODE_ROWS(q5_1, GGML_TYPE_Q5_1)
ENCODE_ROWS(q8_0, GGML_TYPE_Q8_0)
ENCODE_ROWS(mxfp4, GGML_TYPE_MXFP4)
ENCODE_ROWS(nvfp4, GGML_TYPE_NVFP4)

#undef ENCODE_ROW
#undef DECODE_ROW
#undef ENCODE_ROWS

// Search tables are built on demand; these names remain for code that asks early.
void iq2xs_init_impl(enum ggml_type type) { quant::prepare_search(type); }
void iq2xs_free_impl(enum ggml_type) { quant::drop_search_tables(); }
void iq3xs_init_impl(int grid_size) {
    quant::prepare_search(grid_size == 256 ? GGML_TYPE_IQ3_XXS : GGML_TYPE_IQ3_S);
}
void iq3xs_free_impl(int) { quant::drop_search_tables(); }
