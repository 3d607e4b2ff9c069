// ggml-cpu.h: features of the CPU that kernels use.

#include "backends/cpu/isa.hpp"
#include "ggml-cpu.h"

using heddle::cpu::used_features;

int ggml_cpu_has_sse3(void) { return used_features().sse3; }
int ggml_cpu_has_ssse3(void) { return used_features().ssse3; }
int ggml_cpu_has_avx(void) { return used_features().avx; }
int ggml_cpu_has_avx2(void) { return used_features().avx2; }
int ggml_cpu_has_bmi2(void) { return used_features().bmi2; }
int ggml_cpu_has_f16c(void) { return used_features().f16c; }
int ggml_cpu_has_fma(void) { return used_features().fma; }
int ggml_cpu_has_avx512(void) { return used_features().avx512; }
int ggml_cpu_has_avx512_vbmi(void) { return used_features().avx512_vbmi; }
int ggml_cpu_has_avx512_vnni(void) { return used_features().avx512_vnni; }
int ggml_cpu_has_neon(void) { return used_features().neon; }
int ggml_cpu_has_arm_fma(void) { return used_features().arm_fma; }
int ggml_cpu_has_dotprod(void) { return used_features().dotprod; }
int ggml_cpu_has_matmul_int8(void) { return used_features().matmul_int8; }
int ggml_cpu_has_sve(void) { return used_features().sve; }
int ggml_cpu_get_sve_cnt(void) { return used_features().sve_bytes; }
int ggml_cpu_has_riscv_v(void) { return used_features().riscv_v; }
int ggml_cpu_has_vsx(void) { return used_features().vsx; }
int ggml_cpu_has_wasm_simd(void) { return used_features().wasm_simd; }

// No kernel uses these, whatever the CPU has.
int ggml_cpu_has_avx_vnni(void) { return 0; }
int ggml_cpu_has_avx512_bf16(void) { return 0; }
int ggml_cpu_has_amx_int8(void) { return 0; }
int ggml_cpu_has_fp16_va(void) { return 0; }
int ggml_cpu_has_sme(void) { return 0; }
int ggml_cpu_has_sme2(void) { return 0; }
int ggml_cpu_get_rvv_vlen(void) { return 0; }
int ggml_cpu_has_vxe(void) { return 0; }
int ggml_cpu_has_llamafile(void) { return 0; }
