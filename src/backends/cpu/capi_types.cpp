// ggml-cpu.h: what the CPU can do with element types.

#include "backends/cpu/dot/convert.hpp"
#include "backends/cpu/type_traits.hpp"
#include "core/boundary.hpp"
#include "ggml-cpu.h"

using namespace heddle::cpu;

const ggml_type_traits_cpu* ggml_get_type_traits_cpu(ggml_type type) {
    return &cpu_traits_of(type);
}

void ggml_cpu_fp32_to_fp32(const float* x, float* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) copy_f32_row(x, y, n);
}
void ggml_cpu_fp32_to_i32(const float* x, int32_t* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) f32_to_i32_row(x, y, n);
}
void ggml_cpu_fp32_to_fp16(const float* x, ggml_fp16_t* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) f32_to_f16_row(x, y, n);
}
void ggml_cpu_fp16_to_fp32(const ggml_fp16_t* x, float* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) f16_to_f32_row(x, y, n);
}
void ggml_cpu_fp32_to_bf16(const float* x, ggml_bf16_t* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) f32_to_bf16_row(x, y, n);
}
void ggml_cpu_bf16_to_fp32(const ggml_bf16_t* x, float* y, int64_t n) {
    if (heddle::capi::are_rows(x, y, n, __func__)) bf16_to_f32_row(x, y, n);
}
