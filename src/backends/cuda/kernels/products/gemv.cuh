#pragma once

#include "backends/cuda/kernels/products/gemv_ring.cuh"

/// What the matrix-vector rows share.
namespace heddle::cuda {

/// Columns for each matrix of weights: all of them where there is one matrix.
inline bool has_one_matrix(const Tensor& a) { return a.ne[2] == 1 && a.ne[3] == 1; }

inline std::int64_t columns_per_matrix(const Tensor& node) {
    return has_one_matrix(*node.src[0]) ? node.ne[1] * node.ne[2] * node.ne[3] : node.ne[1];
}

/// Arguments of a MUL_MAT, but for the activations.
inline GemvArguments mul_mat_arguments(const Tensor& node) {
    const Tensor &a = *node.src[0], &b = *node.src[1];
    GemvArguments arguments{};
    arguments.weights = weights_of(a, node);
    arguments.segments = has_one_matrix(a) ? 1 : node.ne[2] * node.ne[3];
    arguments.extent2 = has_one_matrix(a) ? 1 : node.ne[2];
    arguments.segment_columns = static_cast<int>(columns_per_matrix(node));
    arguments.y = static_cast<float*>(node.data);
    arguments.acts = activations_of(b);
    return arguments;
}

/// Arguments of a MUL_MAT_ID, but for the activations.
inline GemvArguments mul_mat_id_arguments(const Tensor& node, const Launch& launch) {
    const Tensor &as = *node.src[0], &b = *node.src[1], &ids = *node.src[2];
    GemvArguments arguments{};
    arguments.weights = weights_of(as, node);
    arguments.segments = node.ne[1] * node.ne[2];
    arguments.extent2 = arguments.segments;
    arguments.segment_columns = 1;
    arguments.y = static_cast<float*>(node.data);
    arguments.acts = activations_of(b);
    arguments.ids = static_cast<const std::int32_t*>(ids.data);
    arguments.ids_stride = static_cast<std::int64_t>(ids.nb[1] / sizeof(std::int32_t));
    arguments.experts = as.ne[2];
    arguments.is_expert = index_check(node, launch);
    arguments.slots = node.ne[1];
    arguments.shared_rows = b.ne[1];
    return arguments;
}

/// Devices before Hopper have no bulk copies.
inline bool has_bulk_copies(const Launch& launch) { return launch.device.architecture >= 900; }

}  // namespace heddle::cuda
