#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "backends/cuda/kernels/products/passed_column.hpp"
#include "core/tensor.hpp"
#include "ops/objections.hpp"

/// How a CUDA device computes a node: a list of kernels, each of which says which nodes it
/// declines.
namespace heddle::cuda {

/// What is known of a device when a kernel is chosen and launched.
struct DeviceFacts {
    int multiprocessors = 0;           ///< 132 on an H200
    int architecture = 0;              ///< compute capability * 100: 900
    std::size_t shared_per_block = 0;  ///< opt-in limit in bytes
};

/// An index in data that points outside of its table, as a kernel found it.
struct IndexFault {
    std::int64_t index, extent;
    int op;
    int is_there;  ///< not 0: the others are written
};

/// Where kernels report such an index: the first that claims the sink does. Null: nowhere.
struct FaultSink {
    unsigned* claim = nullptr;              ///< memory of the device
    volatile IndexFault* report = nullptr;  ///< memory of the host that the device can write
};

/// Where a kernel is launched.
struct Launch {
    cudaStream_t stream;
    std::byte* scratch;  ///< as many bytes as the row's `scratch` asked for, aligned to 256
    const DeviceFacts& device;
    FaultSink faults = {};
    bool is_chained = false;      ///< the kernel before is of the same graph: see chain.cuh
    bool reads_ahead = false;     ///< weights may be read before the kernels before have finished
    unsigned* tickets = nullptr;  ///< kTickets zeros, which a kernel leaves as such; null: none
    PassedColumn taken = {};      ///< the activations, as the launch before left them
    PassedColumn left = {};       ///< where the result goes besides, coded,
    const Tensor* left_weights = nullptr;  ///< times the weights of the norm that follows
};

inline constexpr int kTickets = 1024;

/// A kernel is a row: it says why it declines a node, how much scratch it needs, and launches.
struct Kernel {
    const char* name;
    Op op;

    /// Empty if this kernel can run the node, else why not. Looks at types, shapes and strides,
    /// never at data.
    std::string_view (*objection)(const Tensor& node);

    /// Bytes of device memory; null: none.
    std::size_t (*scratch)(const Tensor& node, const DeviceFacts& device);

    /// Enqueues the work and returns; the caller checks cudaGetLastError. Never synchronises,
    /// allocates or copies to the host: launches are captured and replayed.
    void (*launch)(const Tensor& node, const Launch& launch);
};

/// The kernel that runs `node`, or null and, in `*why`, what each one asked has against it.
const Kernel* choose_kernel(const Tensor& node, Objections* why = nullptr);

// Each family's kernels, best first for each op.
std::span<const Kernel> binary_kernels();    ///< add, sub, mul, div, add1, add_id
std::span<const Kernel> unary_kernels();     ///< unary, sqr .. cos, scale, clamp, leaky_relu
std::span<const Kernel> glu_kernels();       ///< gated units
std::span<const Kernel> generate_kernels();  ///< fill, arange, timestep_embedding, tri, diag, masks
std::span<const Kernel> copy_kernels();      ///< cpy, dup, cont
std::span<const Kernel> index_kernels();     ///< get_rows, set_rows, get_rows_back
std::span<const Kernel> assemble_kernels();  ///< concat, repeat, pad, roll, set, acc, windows
std::span<const Kernel> norm_kernels();      ///< norm, rms_norm, l2_norm, group_norm
std::span<const Kernel> reduce_kernels();    ///< sum, sum_rows, mean, cumsum, argmax, count_equal
std::span<const Kernel> sort_kernels();      ///< argsort, top_k
std::span<const Kernel> soft_max_kernels();  ///< soft_max and its gradient
std::span<const Kernel> rope_kernels();      ///< rope and its gradient
std::span<const Kernel> convolution_kernels();  ///< convolutions and patches
std::span<const Kernel> image_kernels();        ///< upscale, pooling
std::span<const Kernel> state_space_kernels();  ///< ssm_conv, ssm_scan
std::span<const Kernel> recurrent_kernels();    ///< rwkv, gla, delta net, solve_tri
std::span<const Kernel> stream_kernels();       ///< hyper-connections, lightning indexer
std::span<const Kernel> training_kernels();     ///< losses, backward ops, optimiser steps
std::span<const Kernel> products_kernels();     ///< mul_mat, mul_mat_id, out_prod
std::span<const Kernel> attention_kernels();    ///< flash_attn_ext

}  // namespace heddle::cuda
