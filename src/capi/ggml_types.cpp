// Element types: names, sizes, conversions, quantisation.

#include <array>
#include <cstddef>

#include "capi/boundary.hpp"
#include "core/half.hpp"
#include "ggml-impl.h"
#include "ggml/op_list.h"
#include "ops/catalogue.hpp"
#include "quant/codec.hpp"
#include "quant/traits.hpp"

using namespace heddle;

int64_t ggml_blck_size(ggml_type type) { return block_size(type); }
size_t ggml_type_size(ggml_type type) { return size_of(type); }
size_t ggml_row_size(ggml_type type, int64_t ne) {
    const TypeInfo& info = type_info(type);
    return info.block == 0
               ? 0
               : info.bytes * static_cast<std::size_t>(ne) / static_cast<std::size_t>(info.block);
}
double ggml_type_sizef(ggml_type type) {
    const TypeInfo& info = type_info(type);
    return info.block == 0 ? 0 : static_cast<double>(info.bytes) / static_cast<double>(info.block);
}
const char* ggml_type_name(ggml_type type) { return type_info(type).name; }
bool ggml_is_quantized(ggml_type type) { return type_info(type).is_quantized; }
const ggml_type_traits* ggml_get_type_traits(ggml_type type) { return &quant::traits_of(type); }

ggml_type ggml_ftype_to_ggml_type(ggml_ftype ftype) {
    switch (ftype) {
        case GGML_FTYPE_ALL_F32:
            return GGML_TYPE_F32;
        case GGML_FTYPE_MOSTLY_F16:
            return GGML_TYPE_F16;
        case GGML_FTYPE_MOSTLY_BF16:
            return GGML_TYPE_BF16;
        case GGML_FTYPE_MOSTLY_Q1_0:
            return GGML_TYPE_Q1_0;
        case GGML_FTYPE_MOSTLY_Q2_0:
            return GGML_TYPE_Q2_0;
        case GGML_FTYPE_MOSTLY_Q4_0:
            return GGML_TYPE_Q4_0;
        case GGML_FTYPE_MOSTLY_Q4_1:
            return GGML_TYPE_Q4_1;
        case GGML_FTYPE_MOSTLY_Q5_0:
            return GGML_TYPE_Q5_0;
        case GGML_FTYPE_MOSTLY_Q5_1:
            return GGML_TYPE_Q5_1;
        case GGML_FTYPE_MOSTLY_Q8_0:
            return GGML_TYPE_Q8_0;
        case GGML_FTYPE_MOSTLY_MXFP4:
            return GGML_TYPE_MXFP4;
        case GGML_FTYPE_MOSTLY_NVFP4:
            return GGML_TYPE_NVFP4;
        case GGML_FTYPE_MOSTLY_Q2_K:
            return GGML_TYPE_Q2_K;
        case GGML_FTYPE_MOSTLY_Q3_K:
            return GGML_TYPE_Q3_K;
        case GGML_FTYPE_MOSTLY_Q4_K:
            return GGML_TYPE_Q4_K;
        case GGML_FTYPE_MOSTLY_Q5_K:
            return GGML_TYPE_Q5_K;
        case GGML_FTYPE_MOSTLY_Q6_K:
            return GGML_TYPE_Q6_K;
        case GGML_FTYPE_MOSTLY_IQ1_S:
            return GGML_TYPE_IQ1_S;
        case GGML_FTYPE_MOSTLY_IQ1_M:
            return GGML_TYPE_IQ1_M;
        case GGML_FTYPE_MOSTLY_IQ2_XXS:
            return GGML_TYPE_IQ2_XXS;
        case GGML_FTYPE_MOSTLY_IQ2_XS:
            return GGML_TYPE_IQ2_XS;
        case GGML_FTYPE_MOSTLY_IQ2_S:
            return GGML_TYPE_IQ2_S;
        case GGML_FTYPE_MOSTLY_IQ3_XXS:
            return GGML_TYPE_IQ3_XXS;
        case GGML_FTYPE_MOSTLY_IQ3_S:
            return GGML_TYPE_IQ3_S;
        case GGML_FTYPE_MOSTLY_IQ4_NL:
            return GGML_TYPE_IQ4_NL;
        case GGML_FTYPE_MOSTLY_IQ4_XS:
            return GGML_TYPE_IQ4_XS;
        case GGML_FTYPE_MOSTLY_Q4_1_SOME_F16:
        case GGML_FTYPE_UNKNOWN:
            break;
    }
    capi::fail(invalid("file type ", static_cast<int>(ftype), " does not name one element type"));
    return GGML_TYPE_COUNT;
}

// ---- half floats -------------------------------------------------------------------------------

float ggml_fp16_to_fp32(ggml_fp16_t x) { return f16_to_f32(x); }
ggml_fp16_t ggml_fp32_to_fp16(float x) { return f32_to_f16(x); }
void ggml_fp16_to_fp32_row(const ggml_fp16_t* x, float* y, int64_t n) {
    if (capi::are_rows(x, y, n, __func__)) quant::f16_to_f32_row(x, y, n);
}
void ggml_fp32_to_fp16_row(const float* x, ggml_fp16_t* y, int64_t n) {
    if (capi::are_rows(x, y, n, __func__)) quant::f32_to_f16_row(x, y, n);
}

ggml_bf16_t ggml_fp32_to_bf16(float x) { return {f32_to_bf16(x)}; }
float ggml_bf16_to_fp32(ggml_bf16_t x) { return bf16_to_f32(x.bits); }
void ggml_bf16_to_fp32_row(const ggml_bf16_t* x, float* y, int64_t n) {
    if (capi::are_rows(x, y, n, __func__)) quant::bf16_to_f32_row(x, y, n);
}
void ggml_fp32_to_bf16_row_ref(const float* x, ggml_bf16_t* y, int64_t n) {
    if (capi::are_rows(x, y, n, __func__)) quant::f32_to_bf16_row(x, y, n);
}
void ggml_fp32_to_bf16_row(const float* x, ggml_bf16_t* y, int64_t n) {
    if (capi::are_rows(x, y, n, __func__)) quant::f32_to_bf16_row(x, y, n);
}

// ---- quantisation ------------------------------------------------------------------------------

void ggml_quantize_init(ggml_type type) {
    capi::done([&]() -> Result<> {
        quant::prepare_search(type);
        return ok();
    });
}

void ggml_quantize_free(void) { quant::drop_search_tables(); }

bool ggml_quantize_requires_imatrix(ggml_type type) {
    const quant::Codec* codec = quant::codec_of(type);
    return codec != nullptr && codec->needs_importance;
}

size_t ggml_quantize_chunk(ggml_type type, const float* src, void* dst, int64_t start,
                           int64_t nrows, int64_t n_per_row, const float* imatrix) {
    return capi::value_or_fail(
        [&]() -> Result<std::size_t> {
            HEDDLE_TRY(capi::require(src, "quantize", "the source"));
            HEDDLE_TRY(capi::require(dst, "quantize", "the destination"));
            if (n_per_row <= 0 || nrows < 0 || start < 0 || start % n_per_row != 0) {
                return invalid("quantize: ", nrows, " rows of ", n_per_row, " values from value ",
                               start, " on are not whole rows");
            }
            const std::size_t row = row_size(type, n_per_row);
            std::byte* to =
                static_cast<std::byte*>(dst) + static_cast<std::size_t>(start / n_per_row) * row;
            HEDDLE_TRY(quant::encode_rows(type, src + start, to, nrows, n_per_row, imatrix));
            return static_cast<std::size_t>(nrows) * row;
        },
        std::size_t{0});
}

bool ggml_validate_row_data(ggml_type type, const void* data, size_t nbytes) {
    const auto valid = capi::guarded([&]() -> Result<> {
        if (nbytes > 0) HEDDLE_TRY(capi::require(data, "validate", "the data"));
        return quant::validate(type, {static_cast<const std::byte*>(data), nbytes});
    });
    if (!valid) capi::report(valid.error());
    return valid.has_value();
}

// ---- ops ---------------------------------------------------------------------------------------

// Names of the catalogue are literals, so they end in a zero as C wants them.
const char* ggml_op_name(ggml_op op) {
    const OpInfo* info = find_op(op);
    return info == nullptr ? "unknown op" : info->name.data();
}
const char* ggml_op_symbol(ggml_op op) {
    const OpInfo* info = find_op(op);
    return info == nullptr ? "unknown op" : info->symbol.data();
}
const char* ggml_unary_op_name(ggml_unary_op op) { return name_of(op).data(); }
const char* ggml_glu_op_name(ggml_glu_op op) { return name_of(op).data(); }
const char* ggml_op_desc(const ggml_tensor* t) {
    return capi::is_null(t, __func__, "the tensor") ? "" : describe_op_of(*t).data();
}

bool ggml_op_can_inplace(ggml_op op) {
    const OpInfo* info = find_op(op);
    return info != nullptr && info->may_reuse_source;
}

ggml_unary_op ggml_get_unary_op(const ggml_tensor* tensor) {
    return capi::value_or_fail(
        [&]() -> Result<ggml_unary_op> {
            HEDDLE_TRY(capi::require(tensor, "ggml_get_unary_op", "the tensor"));
            if (tensor->op != GGML_OP_UNARY)
                return invalid(describe(*tensor), " is not a UNARY node");
            return static_cast<ggml_unary_op>(tensor->op_params[0]);
        },
        GGML_UNARY_OP_COUNT);
}

ggml_glu_op ggml_get_glu_op(const ggml_tensor* tensor) {
    return capi::value_or_fail(
        [&]() -> Result<ggml_glu_op> {
            HEDDLE_TRY(capi::require(tensor, "ggml_get_glu_op", "the tensor"));
            if (tensor->op != GGML_OP_GLU) return invalid(describe(*tensor), " is not a GLU node");
            return static_cast<ggml_glu_op>(tensor->op_params[0]);
        },
        GGML_GLU_OP_COUNT);
}

// ---- thread pool parameters --------------------------------------------------------------------

void ggml_threadpool_params_init(ggml_threadpool_params* p, int n_threads) {
    if (capi::is_null(p, __func__, "the parameters")) return;
    *p = {};
    p->n_threads = n_threads;
    p->prio = GGML_SCHED_PRIO_NORMAL;
    p->poll = 50;
}

ggml_threadpool_params ggml_threadpool_params_default(int n_threads) {
    ggml_threadpool_params params;
    ggml_threadpool_params_init(&params, n_threads);
    return params;
}

bool ggml_threadpool_params_match(const ggml_threadpool_params* p0,
                                  const ggml_threadpool_params* p1) {
    if (capi::is_null(p0, __func__, "the first of the parameters")) return false;
    if (capi::is_null(p1, __func__, "the second of the parameters")) return false;
    return p0->n_threads == p1->n_threads && p0->prio == p1->prio && p0->poll == p1->poll &&
           p0->strict_cpu == p1->strict_cpu &&
           std::equal(std::begin(p0->cpumask), std::end(p0->cpumask), p1->cpumask);
}
