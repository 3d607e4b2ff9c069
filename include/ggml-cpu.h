/// The CPU backend: computing graphs directly, thread pools, features of the processor.
#pragma once

#include "ggml-backend.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

// ------------------------------------------------------------------------------------------------
// Backend

/// A stream on the processor, which the caller owns; NULL if that fails.
GGML_BACKEND_API ggml_backend_t ggml_backend_cpu_init(void);

/// Whether `backend` is such a stream. False for NULL.
GGML_BACKEND_API bool ggml_backend_is_cpu(ggml_backend_t backend);

/// Number of threads; GGML_DEFAULT_N_THREADS at first.
GGML_BACKEND_API void ggml_backend_cpu_set_n_threads(ggml_backend_t backend_cpu, int n_threads);

/// Threads to use, which stay the caller's; NULL for threads of the stream's own.
GGML_BACKEND_API void ggml_backend_cpu_set_threadpool(ggml_backend_t backend_cpu,
                                                      ggml_threadpool_t threadpool);

/// Who is asked after each node whether to stop; NULL for nobody.
GGML_BACKEND_API void ggml_backend_cpu_set_abort_callback(ggml_backend_t backend_cpu,
                                                          ggml_abort_callback abort_callback,
                                                          void* abort_callback_data);

/// Whether to use the plainest kernels only, as a reference for others.
GGML_BACKEND_API void ggml_backend_cpu_set_use_ref(ggml_backend_t backend_cpu, bool use_ref);

/// The registration of the processor.
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_cpu_reg(void);

/// Prepares tables of the CPU backend. Done by all functions that need them; calling it again is
/// fine.
GGML_BACKEND_API void ggml_cpu_init(void);

// ------------------------------------------------------------------------------------------------
// Computing a graph without a backend

/// How ggml_graph_compute() shall run a graph.
struct ggml_cplan {
    size_t work_size;    ///< Bytes of scratch memory needed.
    uint8_t* work_data;  ///< That memory, provided by the caller; may be NULL for size 0.

    int n_threads;                       ///< Threads to use.
    struct ggml_threadpool* threadpool;  ///< Where they are; NULL makes threads for this run.

    ggml_abort_callback abort_callback;  ///< Asked after each node; true stops. May be NULL.
    void* abort_callback_data;           ///< Handed to it.

    bool use_ref;  ///< Plainest kernels only.
};

/// Plans a run with `n_threads` threads; 0 or less means those of the pool, or
/// GGML_DEFAULT_N_THREADS. The caller provides `work_data` afterwards.
GGML_BACKEND_API struct ggml_cplan ggml_graph_plan(const struct ggml_cgraph* cgraph, int n_threads,
                                                   struct ggml_threadpool* threadpool);

/// Computes all nodes in order and waits. All tensors are in host memory.
GGML_BACKEND_API enum ggml_status ggml_graph_compute(struct ggml_cgraph* cgraph,
                                                     struct ggml_cplan* cplan);

/// Plans and computes, with scratch memory from `ctx`, which must have room for it.
GGML_BACKEND_API enum ggml_status ggml_graph_compute_with_ctx(struct ggml_context* ctx,
                                                              struct ggml_cgraph* cgraph,
                                                              int n_threads);

// ------------------------------------------------------------------------------------------------
// Thread pools

/// A pool of threads, which the caller owns; `params` may be released afterwards. Priority and
/// processors hold for the calling thread as well, which computes along.
GGML_BACKEND_API struct ggml_threadpool* ggml_threadpool_new(struct ggml_threadpool_params* params);

/// Stops the threads and releases the pool, which must not be computing. NULL is fine.
GGML_BACKEND_API void ggml_threadpool_free(struct ggml_threadpool* threadpool);

/// Number of threads, the caller's included.
GGML_BACKEND_API int ggml_threadpool_get_n_threads(struct ggml_threadpool* threadpool);

/// Lets the threads sleep. Computing wakes them.
GGML_BACKEND_API void ggml_threadpool_pause(struct ggml_threadpool* threadpool);

/// Wakes the threads.
GGML_BACKEND_API void ggml_threadpool_resume(struct ggml_threadpool* threadpool);

/// How threads spread over the memory nodes of a large machine.
enum ggml_numa_strategy GGML_ENUM_INT {
    GGML_NUMA_STRATEGY_DISABLED = 0,    ///< Not at all.
    GGML_NUMA_STRATEGY_DISTRIBUTE = 1,  ///< Evenly over all nodes.
    GGML_NUMA_STRATEGY_ISOLATE = 2,     ///< On the node the program started on.
    GGML_NUMA_STRATEGY_NUMACTL = 3,     ///< On the processors given by numactl.
    GGML_NUMA_STRATEGY_MIRROR = 4,      ///< Accepted, without effect.
    GGML_NUMA_STRATEGY_COUNT = 5,       ///< Number of strategies.
};

/// Chooses a strategy for the process; the first call counts. Linux only.
GGML_BACKEND_API void ggml_numa_init(enum ggml_numa_strategy numa);

/// Whether ggml_numa_init() found more than one memory node.
GGML_BACKEND_API bool ggml_is_numa(void);

// ------------------------------------------------------------------------------------------------
// Elements in host memory
//
// For types I8, I16, I32, F16, BF16 and F32, with the conversions of C.

/// A tensor in `ctx` that holds one integer. The context holds data.
GGML_BACKEND_API struct ggml_tensor* ggml_new_i32(struct ggml_context* ctx, int32_t value);

/// A tensor in `ctx` that holds one number. The context holds data.
GGML_BACKEND_API struct ggml_tensor* ggml_new_f32(struct ggml_context* ctx, float value);

/// Sets all elements to `value`; returns `tensor`.
GGML_BACKEND_API struct ggml_tensor* ggml_set_i32(struct ggml_tensor* tensor, int32_t value);

/// Sets all elements to `value`; returns `tensor`.
GGML_BACKEND_API struct ggml_tensor* ggml_set_f32(struct ggml_tensor* tensor, float value);

/// Element number `i` in logical order.
GGML_BACKEND_API int32_t ggml_get_i32_1d(const struct ggml_tensor* tensor, int i);

/// Sets element number `i` in logical order.
GGML_BACKEND_API void ggml_set_i32_1d(const struct ggml_tensor* tensor, int i, int32_t value);

/// Element (i0, i1, i2, i3).
GGML_BACKEND_API int32_t ggml_get_i32_nd(const struct ggml_tensor* tensor, int i0, int i1, int i2,
                                         int i3);

/// Sets element (i0, i1, i2, i3).
GGML_BACKEND_API void ggml_set_i32_nd(const struct ggml_tensor* tensor, int i0, int i1, int i2,
                                      int i3, int32_t value);

/// Element number `i` in logical order.
GGML_BACKEND_API float ggml_get_f32_1d(const struct ggml_tensor* tensor, int i);

/// Sets element number `i` in logical order.
GGML_BACKEND_API void ggml_set_f32_1d(const struct ggml_tensor* tensor, int i, float value);

/// Element (i0, i1, i2, i3).
GGML_BACKEND_API float ggml_get_f32_nd(const struct ggml_tensor* tensor, int i0, int i1, int i2,
                                       int i3);

/// Sets element (i0, i1, i2, i3).
GGML_BACKEND_API void ggml_set_f32_nd(const struct ggml_tensor* tensor, int i0, int i1, int i2,
                                      int i3, float value);

// ------------------------------------------------------------------------------------------------
// Types on the CPU

/// Dot product of `n` elements: row `x` of a type with row `y` of its vec_dot_type.
///
/// `nrc` is 1: the result goes to *s. Or 2, if the type's `nrows` is 2: two rows of each, `bx` and
/// `by` bytes apart, and four results, `bs` floats apart.
typedef void (*ggml_vec_dot_t)(int n, float* GGML_RESTRICT s, size_t bs,
                               const void* GGML_RESTRICT x, size_t bx, const void* GGML_RESTRICT y,
                               size_t by, int nrc);

/// What the CPU backend can do with a type.
struct ggml_type_traits_cpu {
    ggml_from_float_t from_float;  ///< Encoder; may be NULL.
    ggml_vec_dot_t vec_dot;        ///< Dot product; may be NULL.
    enum ggml_type vec_dot_type;   ///< Type of its second operand.
    int64_t nrows;                 ///< Rows it takes at once.
};

/// The CPU traits of `type`. Static; a row of zeros where there are none.
GGML_BACKEND_API const struct ggml_type_traits_cpu* ggml_get_type_traits_cpu(enum ggml_type type);

/// Copies `n` floats.
GGML_BACKEND_API void ggml_cpu_fp32_to_fp32(const float* x, float* y, int64_t n);

/// Converts `n` floats to integers, towards zero.
GGML_BACKEND_API void ggml_cpu_fp32_to_i32(const float* x, int32_t* y, int64_t n);

/// Converts `n` floats to half floats.
GGML_BACKEND_API void ggml_cpu_fp32_to_fp16(const float* x, ggml_fp16_t* y, int64_t n);

/// Converts `n` half floats to floats.
GGML_BACKEND_API void ggml_cpu_fp16_to_fp32(const ggml_fp16_t* x, float* y, int64_t n);

/// Converts `n` floats to brain floats.
GGML_BACKEND_API void ggml_cpu_fp32_to_bf16(const float* x, ggml_bf16_t* y, int64_t n);

/// Converts `n` brain floats to floats.
GGML_BACKEND_API void ggml_cpu_bf16_to_fp32(const ggml_bf16_t* x, float* y, int64_t n);

// ------------------------------------------------------------------------------------------------
// Features of this processor: 1 if it has them and they are used, else 0

/// x86: SSE3.
GGML_BACKEND_API int ggml_cpu_has_sse3(void);

/// x86: SSSE3.
GGML_BACKEND_API int ggml_cpu_has_ssse3(void);

/// x86: AVX.
GGML_BACKEND_API int ggml_cpu_has_avx(void);

/// x86: AVX-VNNI.
GGML_BACKEND_API int ggml_cpu_has_avx_vnni(void);

/// x86: AVX2.
GGML_BACKEND_API int ggml_cpu_has_avx2(void);

/// x86: BMI2.
GGML_BACKEND_API int ggml_cpu_has_bmi2(void);

/// x86: half float conversions.
GGML_BACKEND_API int ggml_cpu_has_f16c(void);

/// x86: fused multiply-add.
GGML_BACKEND_API int ggml_cpu_has_fma(void);

/// x86: AVX-512.
GGML_BACKEND_API int ggml_cpu_has_avx512(void);

/// x86: AVX-512 VBMI.
GGML_BACKEND_API int ggml_cpu_has_avx512_vbmi(void);

/// x86: AVX-512 VNNI.
GGML_BACKEND_API int ggml_cpu_has_avx512_vnni(void);

/// x86: AVX-512 BF16.
GGML_BACKEND_API int ggml_cpu_has_avx512_bf16(void);

/// x86: AMX on bytes.
GGML_BACKEND_API int ggml_cpu_has_amx_int8(void);

/// Arm: NEON.
GGML_BACKEND_API int ggml_cpu_has_neon(void);

/// Arm: fused multiply-add.
GGML_BACKEND_API int ggml_cpu_has_arm_fma(void);

/// Arm: half float arithmetic.
GGML_BACKEND_API int ggml_cpu_has_fp16_va(void);

/// Arm: dot products of bytes.
GGML_BACKEND_API int ggml_cpu_has_dotprod(void);

/// Arm: matrix products of bytes.
GGML_BACKEND_API int ggml_cpu_has_matmul_int8(void);

/// Arm: SVE.
GGML_BACKEND_API int ggml_cpu_has_sve(void);

/// Bytes of an SVE vector, 0 without SVE.
GGML_BACKEND_API int ggml_cpu_get_sve_cnt(void);

/// Arm: SME.
GGML_BACKEND_API int ggml_cpu_has_sme(void);

/// Arm: SME2.
GGML_BACKEND_API int ggml_cpu_has_sme2(void);

/// RISC-V: vectors.
GGML_BACKEND_API int ggml_cpu_has_riscv_v(void);

/// Bytes of a RISC-V vector, 0 without vectors.
GGML_BACKEND_API int ggml_cpu_get_rvv_vlen(void);

/// POWER: VSX.
GGML_BACKEND_API int ggml_cpu_has_vsx(void);

/// z/Architecture: vector enhancements.
GGML_BACKEND_API int ggml_cpu_has_vxe(void);

/// WebAssembly: SIMD.
GGML_BACKEND_API int ggml_cpu_has_wasm_simd(void);

/// Matrix kernels of the llamafile project.
GGML_BACKEND_API int ggml_cpu_has_llamafile(void);

#ifdef __cplusplus
}
#endif
