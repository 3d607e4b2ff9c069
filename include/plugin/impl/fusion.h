/// Whether nodes of a graph may be computed together without writing the results in between.
///
/// Included by `ggml-impl.h`.
#pragma once

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The most nodes ggml_can_fuse_subgraph() looks at; a longer run is not fused.
#define GGML_MAX_FUSED_NODES 64

/// Whether node `idx` can continue a chain of fused nodes: it runs `op`, is computed, and, unless
/// `previous` is negative, has node `previous` as its first or second source and its shape.
static inline bool ggml_continues_chain(const struct ggml_cgraph* cgraph, int idx, int previous,
                                        enum ggml_op op) {
    if (idx < 0 || idx >= cgraph->n_nodes) return false;
    const struct ggml_tensor* node = cgraph->nodes[idx];
    if (node->op != op || (node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) return false;
    if (previous < 0) return true;
    const struct ggml_tensor* source = cgraph->nodes[previous];
    if (node->src[0] != source && node->src[1] != source) return false;
    return ggml_are_same_shape(node, source);
}

/// Whether the nodes at `node_idxs` form a chain of `ops` that may be fused.
///
/// All are computed; each has the one before it as its first or second source and the same shape;
/// each but the last is used once, by the next, and is neither a view nor an output.
static inline bool ggml_can_fuse_ext(const struct ggml_cgraph* cgraph, const int* node_idxs,
                                     const enum ggml_op* ops, int num_ops) {
    for (int i = 0; i < num_ops; ++i) {
        const int previous = i == 0 ? -1 : node_idxs[i - 1];
        if (!ggml_continues_chain(cgraph, node_idxs[i], previous, ops[i])) return false;
        if (i + 1 < num_ops && !ggml_node_has_n_uses(cgraph, node_idxs[i], 1)) return false;
    }
    return true;
}

/// The same for the `num_ops` nodes that begin at `node_idx`.
static inline bool ggml_can_fuse(const struct ggml_cgraph* cgraph, int node_idx,
                                 const enum ggml_op* ops, int num_ops) {
    for (int i = 0; i < num_ops; ++i) {
        const int previous = i == 0 ? -1 : node_idx + i - 1;
        if (!ggml_continues_chain(cgraph, node_idx + i, previous, ops[i])) return false;
        if (i + 1 < num_ops && !ggml_node_has_n_uses(cgraph, node_idx + i, 1)) return false;
    }
    return true;
}

/// Whether the `count` nodes at `node_idxs`, with the given `ops`, may be fused into one step that
/// writes only the nodes listed in `outputs` (indices into the graph's nodes).
///
/// All are computed. Every node that is not among `outputs` is used only by nodes of the group, is
/// no output of the graph, and is a view, if at all, of tensors inside the group or of weights.
GGML_API bool ggml_can_fuse_subgraph_ext(const struct ggml_cgraph* cgraph, const int* node_idxs,
                                         int count, const enum ggml_op* ops, const int* outputs,
                                         int num_outputs);

/// The same for the `count` nodes that begin at `node_idx`.
static inline bool ggml_can_fuse_subgraph(const struct ggml_cgraph* cgraph, int node_idx, int count,
                                          const enum ggml_op* ops, const int* outputs,
                                          int num_outputs) {
    int node_idxs[GGML_MAX_FUSED_NODES];
    if (count < 1 || count > GGML_MAX_FUSED_NODES) return false;
    if (node_idx < 0 || node_idx > cgraph->n_nodes - count) return false;
    for (int i = 0; i < count; ++i) node_idxs[i] = node_idx + i;
    return ggml_can_fuse_subgraph_ext(cgraph, node_idxs, count, ops, outputs, num_outputs);
}

#ifdef __cplusplus
}  // extern "C"

#include <array>
#include <initializer_list>

/// ggml_can_fuse() for a list written in place.
inline bool ggml_can_fuse(const struct ggml_cgraph* cgraph, int node_idx,
                          std::initializer_list<enum ggml_op> ops) {
    return ggml_can_fuse(cgraph, node_idx, ops.begin(), static_cast<int>(ops.size()));
}

/// ggml_can_fuse_subgraph() for lists written in place.
inline bool ggml_can_fuse_subgraph(const struct ggml_cgraph* cgraph, int start_idx,
                                   std::initializer_list<enum ggml_op> ops,
                                   std::initializer_list<int> outputs) {
    return ggml_can_fuse_subgraph(cgraph, start_idx, static_cast<int>(ops.size()), ops.begin(),
                                  outputs.begin(), static_cast<int>(outputs.size()));
}

/// Whether every edge {node, slot, source} exists: source `slot` of node `start_idx + node` is node
/// `start_idx + source`.
inline bool ggml_check_edges(const struct ggml_cgraph* cgraph, int start_idx,
                             std::initializer_list<std::array<int, 3>> edges) {
    for (const std::array<int, 3>& edge : edges) {
        const struct ggml_tensor* node = cgraph->nodes[start_idx + edge[0]];
        if (node->src[edge[1]] != cgraph->nodes[start_idx + edge[2]]) return false;
    }
    return true;
}
#endif
