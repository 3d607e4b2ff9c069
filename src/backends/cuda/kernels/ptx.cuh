#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

/// Instructions that CUDA C++ has no names for.
namespace heddle::cuda {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- barriers in shared memory and bulk copies (Hopper) ----------------------------------------

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals)
                 : "memory");
}

/// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

/// Arrives, and lets the phase wait for `bytes` of copies besides.
__device__ __forceinline__ void barrier_arrive_expecting(std::uint64_t* barrier, unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

/// Until the phase of this parity has ended.
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

/// A policy for data that is read once.
__device__ __forceinline__ std::uint64_t evict_first_policy() {
    std::uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

/// Copies `bytes` to shared memory; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, unsigned bytes,
                                          std::uint64_t* barrier, std::uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
        : "memory");
}

/// Where a box begins, element by element.
struct BoxPlace {
    int unit, row, matrix = 0, sequence = 0;
};

/// Copies a box of a tensor to shared memory, at a multiple of 128 bytes; zeros where there is
/// nothing.
__device__ __forceinline__ void tensor_copy(void* to, const void* map, const BoxPlace& at,
                                            std::uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
        "l"(map), "r"(at.unit), "r"(at.row), "r"(at.matrix), "r"(at.sequence),
        "r"(shared_address(barrier))
        : "memory");
}

/// Brings the description of a tensor to where the copy engine reads it.
__device__ __forceinline__ void prefetch_tensor_map(const void* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Makes what this thread wrote to shared memory visible to tensor cores and the copy engine.
__device__ __forceinline__ void fence_for_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Makes what other kernels wrote to global memory visible to this thread's bulk copies.
__device__ __forceinline__ void fence_for_async_global() {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// As below, with a number that is known.
template <int kId>
__device__ __forceinline__ void named_barrier(int threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(threads) : "memory");
}

/// A barrier for some warps of the block: `id` 1 to 15, `threads` in all.
__device__ __forceinline__ void named_barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// As `named_barrier`, but goes on: others wait for this warp, it does not.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Copies `bytes` to shared memory; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, unsigned bytes,
                                          std::uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

/// Copies `bytes` from shared memory; addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_store(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bulk_stores_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Until all of this thread's stores have read what they store.
__device__ __forceinline__ void bulk_stores_wait() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Brings the line of this address into L2, for whatever will read it.
__device__ __forceinline__ void prefetch_to_l2(const void* at) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(at)));
}

/// Reads what a kernel was told, which no cache has yet, so that later reads do not wait for memory
/// one after the other. For each quarter of a multiprocessor, by one warp of it.
template <class Arguments>
__device__ __forceinline__ void touch_arguments(const Arguments& a) {
    constexpr int kLine = 64 / 4, kWords = sizeof(Arguments) / 4;
    const auto* words = reinterpret_cast<const int*>(&a);
    if (threadIdx.x >= 4 * 32) return;
    int sum = 0;
    for (int i = threadIdx.x % 32 * kLine; i < kWords; i += 32 * kLine) sum ^= words[i];
    asm volatile("" ::"r"(sum));
}

// ---- small asynchronous copies -----------------------------------------------------------------

/// Copies 16 bytes to shared memory; zeros if not `there`.
__device__ __forceinline__ void copy16(void* to, const void* from, bool there) {
    const unsigned bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void copies_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Until at most `kPending` committed groups are under way.
template <int kPending>
__device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// ---- tensor cores ------------------------------------------------------------------------------

/// Four 8 x 8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&r)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// d += a * b: 16 x 16 halves times 16 x 8 halves, f32 sums.
__device__ __forceinline__ void multiply_halves(float (&d)[4], const std::uint32_t (&a)[4],
                                                std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply_bfloats(float (&d)[4], const std::uint32_t (&a)[4],
                                                 std::uint32_t b0, std::uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two floats as halves, `low` in the lower half.
__device__ __forceinline__ std::uint32_t pack_halves(float low, float high) {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}

__device__ __forceinline__ std::uint32_t pack_bfloats(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}

}  // namespace heddle::cuda
