#pragma once

#include "backends/cuda/kernels/ptx.cuh"

/// Products of a warp group on Hopper's tensor cores (wgmma), which run while the threads go on.
///
/// A warp group is four warps from a multiple of four on; all of its threads call together. Lane i
/// of warp w has of the sums, 64 rows by N columns: rows 16 w + i / 4 and 8 below it, columns
/// 8 j + 2 (i % 4) and the next, as d[4 j .. 4 j + 3], row by row.
namespace heddle::cuda {

/// Code for sm_90a alone has these instructions.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HEDDLE_HAS_WGMMA 1
#else
#define HEDDLE_HAS_WGMMA 0
#endif

/// Before products read registers that other instructions wrote.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most `kPending` committed groups are under way.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving uses of a register across waits.
template <int kCount>
__device__ __forceinline__ void wgmma_settle(float (&d)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// More or fewer registers for each thread of the warp group.
template <int kCount>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// An operand in shared memory, from a multiple of 1024 on: rows of 128 bytes, whose groups of 16
/// are swapped as `swizzled` says. The next k = 16 is two further.
__device__ __forceinline__ std::uint64_t swizzled_operand(const void* tile) {
    constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kRowsOf8 = 1024 >> 4;
    return kSwizzle128 | kRowsOf8 << 32 | std::uint64_t{1} << 16 |
           (shared_address(tile) & 0x3ffffu) >> 4;
}

/// As above, of k rows of 64 columns each; the next 64 columns lie `apart` bytes further.
__device__ __forceinline__ std::uint64_t transposed_operand(const void* tile, unsigned apart) {
    constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kRowsOf8 = 1024 >> 4;
    return kSwizzle128 | kRowsOf8 << 32 | std::uint64_t{apart >> 4} << 16 |
           (shared_address(tile) & 0x3ffffu) >> 4;
}

/// Where group `group` of 16 bytes of row `row` lies in its 128 bytes.
__host__ __device__ constexpr int swizzled(int row, int group) { return group ^ (row & 7); }

/// d = a b or d += a b, of k = 16. A is four registers or lies in shared memory, b lies there:
/// rows of k, or, transposed, k rows.
template <int kColumns>
struct Wgmma;

#define HEDDLE_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HEDDLE_D8(i) HEDDLE_D4(i), HEDDLE_D4(i + 4)
#define HEDDLE_D16(i) HEDDLE_D8(i), HEDDLE_D8(i + 8)
#define HEDDLE_D32(i) HEDDLE_D16(i), HEDDLE_D16(i + 16)
#define HEDDLE_D64(i) HEDDLE_D32(i), HEDDLE_D32(i + 32)

#define HEDDLE_PRODUCT(columns, type, sums, operands, flag, transposed)                           \
    "{ .reg .pred p; setp.ne.b32 p, " flag                                                        \
    ", 0;\n"                                                                                      \
    "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" sums "}, " operands \
    ", p, 1, 1, " transposed "; }\n"

#define HEDDLE_WGMMA(N, count, sums, of_registers, of_shared, f1, t1, f2, t2, bound)            \
    template <>                                                                                 \
    struct Wgmma<N> {                                                                           \
        static constexpr int kSums = count;                                                     \
        template <bool kAdds, bool kTransposed = false>                                         \
        __device__ __forceinline__ static void multiply(float (&d)[count],                      \
                                                        const std::uint32_t (&a)[4],            \
                                                        std::uint64_t b) {                      \
            asm volatile(HEDDLE_PRODUCT(#N, "f16", sums, of_registers, f1, t1)                  \
                         : bound                                                                \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int(kAdds)), \
                           "n"(int(kTransposed)));                                              \
        }                                                                                       \
        template <bool kAdds>                                                                   \
        __device__ __forceinline__ static void multiply(float (&d)[count], std::uint64_t a,     \
                                                        std::uint64_t b) {                      \
            asm volatile(HEDDLE_PRODUCT(#N, "f16", sums, of_shared, f2, t2)                     \
                         : bound                                                                \
                         : "l"(a), "l"(b), "n"(int(kAdds)));                                    \
        }                                                                                       \
        template <bool kAdds>                                                                   \
        __device__ __forceinline__ static void multiply_bf16(float (&d)[count],                 \
                                                             const std::uint32_t (&a)[4],       \
                                                             std::uint64_t b) {                 \
            asm volatile(HEDDLE_PRODUCT(#N, "bf16", sums, of_registers, f1, t1)                 \
                         : bound                                                                \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(int(kAdds)), \
                           "n"(0));                                                             \
        }                                                                                       \
    }

// clang-format off
#define HEDDLE_BOUND_16 HEDDLE_D8(0)
HEDDLE_WGMMA(16, 8,
             "%0, %1, %2, %3, %4, %5, %6, %7",
             "{%8, %9, %10, %11}, %12", "%8, %9", "%13", "%14", "%10", "0, 0", HEDDLE_BOUND_16);
#define HEDDLE_BOUND_32 HEDDLE_D16(0)
HEDDLE_WGMMA(32, 16,
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",
             "{%16, %17, %18, %19}, %20", "%16, %17", "%21", "%22", "%18", "0, 0", HEDDLE_BOUND_32);
#define HEDDLE_BOUND_64 HEDDLE_D32(0)
HEDDLE_WGMMA(64, 32,
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
             "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",
             "{%32, %33, %34, %35}, %36", "%32, %33", "%37", "%38", "%34", "0, 0", HEDDLE_BOUND_64);
#define HEDDLE_BOUND_96 HEDDLE_D32(0), HEDDLE_D16(32)
HEDDLE_WGMMA(96, 48,
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
             "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
             "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47",
             "{%48, %49, %50, %51}, %52", "%48, %49", "%53", "%54", "%50", "0, 0", HEDDLE_BOUND_96);
#define HEDDLE_BOUND_128 HEDDLE_D64(0)
HEDDLE_WGMMA(128, 64,
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
             "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
             "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
             "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
             "{%64, %65, %66, %67}, %68", "%64, %65", "%69", "%70", "%66", "0, 0", HEDDLE_BOUND_128);
#define HEDDLE_BOUND_256 HEDDLE_D64(0), HEDDLE_D64(64)
HEDDLE_WGMMA(256, 128,
             "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
             "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
             "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
             "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "
             "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "
             "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "
             "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
             "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "
             "%126, %127",
             "{%128, %129, %130, %131}, %132", "%128, %129", "%133", "%134", "%130", "0, 0", HEDDLE_BOUND_256);
// clang-format on

#undef HEDDLE_WGMMA
#undef HEDDLE_PRODUCT

}  // namespace heddle::cuda
