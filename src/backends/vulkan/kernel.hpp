#pragma once

#include <span>
#include <string_view>

#include "backends/vulkan/recorder.hpp"
#include "ops/objections.hpp"

/// How a Vulkan device computes a node: a list of kernels, each of which says which nodes it
/// declines.
namespace heddle::vulkan {

/// A kernel is a row: it says why it declines a node, how much scratch it needs, and records.
struct Kernel {
    const char* name;
    Op op;

    /// Empty if this kernel can run the node, else why not. Looks at types, shapes and strides,
    /// never at data.
    std::string_view (*objection)(const Tensor& node);

    /// Records the work. Depends on nothing but the node and the device.
    void (*record)(const Tensor& node, Recorder& recorder);

    /// Bytes of device memory; null: none.
    std::size_t (*scratch)(const Tensor& node, const DeviceFacts& device) = nullptr;

    /// Null: the kernel runs on every device. Else why it declines a node on this one.
    std::string_view (*device_objection)(const Tensor& node, const DeviceFacts& device) = nullptr;

    bool writes_operands = false;  ///< besides its result
};

/// The kernel that runs `node`, or null and, in `*why`, what each one asked has against it.
const Kernel* choose_kernel(const Tensor& node, const DeviceFacts& device,
                            Objections* why = nullptr);

/// Whether the node is computed by the kernel of single columns, whose products can be joined.
bool is_column_kernel(const Kernel* kernel);

// Each family's kernels, best first for each op.
std::span<const Kernel> elementwise_kernels();  ///< unary, binary, gated units
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
std::span<const Kernel> recurrent_kernels();    ///< ssm, rwkv, gla, delta net, solve_tri
std::span<const Kernel> stream_kernels();       ///< hyper-connections, lightning indexer
std::span<const Kernel> training_kernels();     ///< losses, backward ops, optimiser steps
std::span<const Kernel> column_kernels();       ///< mul_mat of a single column
std::span<const Kernel> product_kernels();      ///< mul_mat, mul_mat_id, out_prod
std::span<const Kernel> attention_kernels();    ///< flash_attn_ext

}  // namespace heddle::vulkan
