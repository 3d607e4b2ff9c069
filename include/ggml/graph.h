/// Graphs of tensors.
///
/// Included by `ggml.h`; programs include that one.
#pragma once

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Tensors to compute ("nodes", in order) and what they are computed from ("leafs").
///
/// Lives in the memory of a context and owns no tensors. Its layout is for backends.
struct ggml_cgraph;

// ------------------------------------------------------------------------------------------------
// Making graphs

/// An empty graph for GGML_DEFAULT_GRAPH_SIZE nodes, without gradients.
GGML_API struct ggml_cgraph* ggml_new_graph(struct ggml_context* ctx);

/// An empty graph for `size` nodes and as many leafs, with room for gradients if `grads`.
GGML_API struct ggml_cgraph* ggml_new_graph_custom(struct ggml_context* ctx, size_t size,
                                                   bool grads);

/// A new graph with the nodes of `cgraph`, and with room for gradients if that has it or
/// `force_grads`. The tensors are shared.
GGML_API struct ggml_cgraph* ggml_graph_dup(struct ggml_context* ctx, struct ggml_cgraph* cgraph,
                                            bool force_grads);

/// Copies the lists of `src`, gradients included, into the empty graph `dst`, which must be large
/// enough. The tensors are shared.
GGML_API void ggml_graph_cpy(struct ggml_cgraph* src, struct ggml_cgraph* dst);

/// Removes all nodes and leafs.
GGML_API void ggml_graph_clear(struct ggml_cgraph* cgraph);

/// Bytes that a graph of ggml_new_graph() takes in a context.
GGML_API size_t ggml_graph_overhead(void);

/// Bytes that a graph of ggml_new_graph_custom() takes in a context.
GGML_API size_t ggml_graph_overhead_custom(size_t size, bool grads);

// ------------------------------------------------------------------------------------------------
// Adding tensors

/// Adds `tensor` and all it depends on, sources before users, and marks them to be computed. What
/// is in the graph already stays where it is. Tensors without a name get one.
GGML_API void ggml_build_forward_expand(struct ggml_cgraph* cgraph, struct ggml_tensor* tensor);

/// The same without marking: fixes the order of tensors that run only if something else needs them.
GGML_API void ggml_build_forward_order(struct ggml_cgraph* cgraph, struct ggml_tensor* tensor);

/// Adds all `n_tensors` tensors and marks only what tensors[idx] depends on; returns that one.
/// Keeps the graph the same while branches are switched.
GGML_API struct ggml_tensor* ggml_build_forward_select(struct ggml_cgraph* cgraph,
                                                       struct ggml_tensor** tensors, int n_tensors,
                                                       int idx);

/// Appends `tensor` alone to the nodes: no sources, no mark, no name.
GGML_API void ggml_graph_add_node(struct ggml_cgraph* cgraph, struct ggml_tensor* tensor);

/// Extends a forward graph by the nodes that compute gradients of its losses.
///
/// The graph has room for gradients, at least one parameter and one loss. New tensors go to `ctx`.
/// `grad_accs` is NULL or has an entry for every forward node: NULL, or a tensor in which its
/// gradient is summed up over runs.
GGML_API void ggml_build_backward_expand(struct ggml_context* ctx, struct ggml_cgraph* cgraph,
                                         struct ggml_tensor** grad_accs);

// ------------------------------------------------------------------------------------------------
// Looking at graphs

/// Node capacity.
GGML_API int ggml_graph_size(struct ggml_cgraph* cgraph);

/// Number of nodes.
GGML_API int ggml_graph_n_nodes(struct ggml_cgraph* cgraph);

/// Node `i`; negative numbers count from the end. Out of range is an error.
GGML_API struct ggml_tensor* ggml_graph_node(struct ggml_cgraph* cgraph, int i);

/// The array of nodes, owned by the graph.
GGML_API struct ggml_tensor** ggml_graph_nodes(struct ggml_cgraph* cgraph);

/// The first tensor with this name among leafs, then nodes; NULL if there is none.
GGML_API struct ggml_tensor* ggml_graph_get_tensor(const struct ggml_cgraph* cgraph,
                                                   const char* name);

/// The gradient of `node` in this graph, NULL if it has none.
GGML_API struct ggml_tensor* ggml_graph_get_grad(const struct ggml_cgraph* cgraph,
                                                 const struct ggml_tensor* node);

/// The tensor in which the gradient of `node` is summed up, NULL if there is none.
GGML_API struct ggml_tensor* ggml_graph_get_grad_acc(const struct ggml_cgraph* cgraph,
                                                     const struct ggml_tensor* node);

/// Prepares a gradient graph for running: gradients of losses become 1, sums of gradients and the
/// optimiser's moments 0. NULL is fine.
GGML_API void ggml_graph_reset(struct ggml_cgraph* cgraph);

/// Logs all nodes and leafs.
GGML_API void ggml_graph_print(const struct ggml_cgraph* cgraph);

/// Writes graph `gb` to a file that Graphviz draws. `cgraph` may be NULL; nodes with gradients that
/// are not in it get another colour. A file that cannot be written is logged, in every error mode.
GGML_API void ggml_graph_dump_dot(const struct ggml_cgraph* gb, const struct ggml_cgraph* cgraph,
                                  const char* filename);

#ifdef __cplusplus
}
#endif
