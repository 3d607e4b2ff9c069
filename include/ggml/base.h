/// Foundations of the C API: export markers, compiler attributes, limits and assertions.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef _WIN32
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00  ///< Windows 10, the oldest Windows supported.
#endif
#endif

// ------------------------------------------------------------------------------------------------
// Export markers and attributes

/// Marks a function of the libraries `ggml-base` and `ggml`.
///
/// `GGML_SHARED` says that these are shared libraries, `GGML_BUILD` that we are building them.
#if !defined(GGML_SHARED)
#define GGML_API extern
#elif !defined(_WIN32) || defined(__MINGW32__)
#define GGML_API __attribute__((visibility("default"))) extern
#elif defined(GGML_BUILD)
#define GGML_API __declspec(dllexport) extern
#else
#define GGML_API __declspec(dllimport) extern
#endif

/// Wraps a whole declaration; its users get a compiler warning that carries `hint`.
#if defined(__GNUC__)
#define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#elif defined(_MSC_VER)
#define GGML_DEPRECATED(func, hint) __declspec(deprecated(hint)) func
#else
#define GGML_DEPRECATED(func, hint) func
#endif

/// Lets the compiler check printf-like arguments: positions of the format and of the first value.
#if defined(__MINGW32__) && !defined(__clang__)
#define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(gnu_printf, __VA_ARGS__)))
#elif defined(__GNUC__)
#define GGML_ATTRIBUTE_FORMAT(...) __attribute__((format(printf, __VA_ARGS__)))
#else
#define GGML_ATTRIBUTE_FORMAT(...)
#endif

/// Stands behind the name of an enumeration. C callers may pass and store any number; in C++
/// reading such a value is only defined if the enumeration has a type. Values behave as they do
/// without it.
#if defined(__cplusplus)
#define GGML_ENUM_INT : int
#else
#define GGML_ENUM_INT
#endif

/// Marks a function that never returns. Stands first in its declaration.
#if defined(__cplusplus)
#define GGML_NORETURN [[noreturn]]
#elif defined(_MSC_VER)
#define GGML_NORETURN __declspec(noreturn)
#else
#define GGML_NORETURN _Noreturn
#endif

/// Promises that nothing else reaches the same memory while the pointer lives.
#if defined(_MSC_VER)
#define GGML_RESTRICT __restrict
#elif defined(__cplusplus)
#define GGML_RESTRICT __restrict__
#else
#define GGML_RESTRICT restrict
#endif

// ------------------------------------------------------------------------------------------------
// Numbers

#define GGML_FILE_MAGIC 0x67676d6c  ///< The bytes "ggml": magic of model files older than GGUF.
#define GGML_FILE_VERSION 2         ///< Version of those files.

#define GGML_QNT_VERSION 2            ///< Generation of the quantized formats.
#define GGML_QNT_VERSION_FACTOR 1000  ///< Old files store `version * factor + ftype` in one field.

#define GGML_MAX_DIMS 4         ///< Dimensions of every tensor; unused ones have extent 1.
#define GGML_MAX_PARAMS 2048    ///< Kept for programs that name it; the library has no such limit.
#define GGML_MAX_SRC 10         ///< Operands a tensor can have.
#define GGML_MAX_N_THREADS 512  ///< Threads a thread pool can have.
#define GGML_MAX_OP_PARAMS 64   ///< Bytes of parameters stored in a tensor.

#ifndef GGML_MAX_NAME
/// Bytes of a tensor's name, terminator included.
///
/// May be set before inclusion, but then alike for the library, its plug-ins and the program,
/// because it changes the size of `struct ggml_tensor`.
#define GGML_MAX_NAME 64
#endif

#define GGML_DEFAULT_N_THREADS 4      ///< Threads used where a caller asks for none in particular.
#define GGML_DEFAULT_GRAPH_SIZE 2048  ///< Node capacity of a graph made without a size.

/// Alignment in bytes of every object in a context's memory.
#if UINTPTR_MAX == 0xFFFFFFFF
#define GGML_MEM_ALIGN 4
#elif defined(__EMSCRIPTEN__)
#define GGML_MEM_ALIGN 8
#else
#define GGML_MEM_ALIGN 16
#endif

#define GGML_EXIT_SUCCESS 0  ///< Old name of success; see `enum ggml_status`.
#define GGML_EXIT_ABORTED 1  ///< Old name of "stopped by a callback"; see `enum ggml_status`.

// ------------------------------------------------------------------------------------------------
// Small helpers

/// Says that variable `x` is left unused on purpose.
#define GGML_UNUSED(x) ((void)(x))

/// The same for several variables. Nothing is evaluated.
#ifdef __CUDACC__
#define GGML_UNUSED_VARS(...) ggml_unused_vars_impl(__VA_ARGS__)
#else
#define GGML_UNUSED_VARS(...) ((void)sizeof(ggml_unused_vars_impl(0, __VA_ARGS__)))
#endif

/// `x` rounded up to a multiple of `n`, a power of two. Evaluates `n` twice.
#define GGML_PAD(x, n) (((x) + (n)-1) & ~((n)-1))

/// Stops the program with a printf-like message, see ggml_abort().
#define GGML_ABORT(...) ggml_abort(__FILE__, __LINE__, __VA_ARGS__)

/// Stops the program when `x` is false, in every kind of build. An expression of type void.
#define GGML_ASSERT(x) ((x) ? (void)0 : GGML_ABORT("GGML_ASSERT(%s) failed", #x))

/// Says that control cannot get here: checked in debug builds, believed in release builds.
#ifndef NDEBUG
#define GGML_UNREACHABLE() GGML_ABORT("statement should be unreachable")
#elif defined(__GNUC__)
#define GGML_UNREACHABLE() __builtin_unreachable()
#elif defined(_MSC_VER)
#define GGML_UNREACHABLE() __assume(0)
#else
#define GGML_UNREACHABLE() ((void)0)
#endif

// ------------------------------------------------------------------------------------------------
// Local copies of extents and strides, for kernels
//
// GGML_TENSOR_LOCALS(int64_t, ne0, src0, ne) declares ne00, ne01, ne02 and ne03 as src0->ne[0..3].
// A NULL pointer gives zeros. Each form ends its last statement itself; a semicolon after it is
// harmless.

#define GGML_TENSOR_LOCAL(type, prefix, pointer, array, i)              \
    const type prefix##i = (pointer) != NULL ? (pointer)->array[i] : 0; \
    GGML_UNUSED(prefix##i);

/// Declares `prefix0`.
#define GGML_TENSOR_LOCALS_1(type, prefix, pointer, array) \
    GGML_TENSOR_LOCAL(type, prefix, pointer, array, 0)

/// Declares `prefix0` and `prefix1`.
#define GGML_TENSOR_LOCALS_2(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_1(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL(type, prefix, pointer, array, 1)

/// Declares `prefix0` to `prefix2`.
#define GGML_TENSOR_LOCALS_3(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_2(type, prefix, pointer, array)     \
    GGML_TENSOR_LOCAL(type, prefix, pointer, array, 2)

/// Declares `prefix0` to `prefix3`.
#define GGML_TENSOR_LOCALS(type, prefix, pointer, array) \
    GGML_TENSOR_LOCALS_3(type, prefix, pointer, array)   \
    GGML_TENSOR_LOCAL(type, prefix, pointer, array, 3)

/// ne00.., nb00.. of `src0` and ne0.., nb0.. of `dst`.
#define GGML_TENSOR_UNARY_OP_LOCALS            \
    GGML_TENSOR_LOCALS(int64_t, ne0, src0, ne) \
    GGML_TENSOR_LOCALS(size_t, nb0, src0, nb)  \
    GGML_TENSOR_LOCALS(int64_t, ne, dst, ne)   \
    GGML_TENSOR_LOCALS(size_t, nb, dst, nb)

/// ne00.., nb00.. of `src0` and ne10.., nb10.. of `src1`.
#define GGML_TENSOR_BINARY_OP_LOCALS01         \
    GGML_TENSOR_LOCALS(int64_t, ne0, src0, ne) \
    GGML_TENSOR_LOCALS(size_t, nb0, src0, nb)  \
    GGML_TENSOR_LOCALS(int64_t, ne1, src1, ne) \
    GGML_TENSOR_LOCALS(size_t, nb1, src1, nb)

/// Those of `src0`, `src1` and `dst`.
#define GGML_TENSOR_BINARY_OP_LOCALS         \
    GGML_TENSOR_BINARY_OP_LOCALS01           \
    GGML_TENSOR_LOCALS(int64_t, ne, dst, ne) \
    GGML_TENSOR_LOCALS(size_t, nb, dst, nb)

/// Those of `src0`, `src1`, `src2` (ne20.., nb20..) and `dst`.
#define GGML_TENSOR_TERNARY_OP_LOCALS          \
    GGML_TENSOR_BINARY_OP_LOCALS               \
    GGML_TENSOR_LOCALS(int64_t, ne2, src2, ne) \
    GGML_TENSOR_LOCALS(size_t, nb2, src2, nb)

#ifdef __CUDACC__
/// Behind GGML_UNUSED_VARS, for device code.
template <typename... Args>
__host__ __device__ constexpr void ggml_unused_vars_impl(Args&&...) noexcept {}
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef __CUDACC__
/// Behind GGML_UNUSED_VARS, which looks at the type of a call only. Defined nowhere.
char ggml_unused_vars_impl(int first, ...);
#endif

/// Receives the message of a fatal error before the program stops.
typedef void (*ggml_abort_callback_t)(const char* error_message);

/// Sets who is told before ggml_abort() stops the program; NULL restores printing to stderr.
/// Returns the callback set before, NULL if there was none.
GGML_API ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t callback);

/// Stops the program with a printf-like message that says `file` and `line`.
GGML_NORETURN GGML_ATTRIBUTE_FORMAT(3, 4) GGML_API
    void ggml_abort(const char* file, int line, const char* fmt, ...);

#ifdef __cplusplus
}
#endif
