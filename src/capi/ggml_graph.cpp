// Graphs, and what backends need to look into them.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "capi/boundary.hpp"
#include "core/graph.hpp"
#include "core/hash_set.hpp"
#include "core/log.hpp"
#include "core/whole_file.hpp"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ops/print_graph.hpp"

using namespace heddle;
using capi::is_null;
using capi::require;

// ---- making graphs -----------------------------------------------------------------------------

ggml_cgraph* ggml_new_graph(ggml_context* ctx) {
    return ggml_new_graph_custom(ctx, GGML_DEFAULT_GRAPH_SIZE, false);
}

ggml_cgraph* ggml_new_graph_custom(ggml_context* ctx, size_t size, bool grads) {
    return capi::made([&]() -> Result<Graph*> {
        HEDDLE_TRY(require(ctx, "new graph", "the context"));
        return new_graph(*ctx, size, grads);
    });
}

size_t ggml_graph_overhead(void) { return graph_overhead(GGML_DEFAULT_GRAPH_SIZE, false); }
size_t ggml_graph_overhead_custom(size_t size, bool grads) { return graph_overhead(size, grads); }

ggml_cgraph* ggml_graph_dup(ggml_context* ctx, ggml_cgraph* cgraph, bool force_grads) {
    return capi::made([&]() -> Result<Graph*> {
        HEDDLE_TRY(require(ctx, "graph copy", "the context"));
        HEDDLE_TRY(require(cgraph, "graph copy", "the graph"));
        return duplicate_graph(*ctx, *cgraph, force_grads);
    });
}

void ggml_graph_cpy(ggml_cgraph* src, ggml_cgraph* dst) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(src, "graph copy", "the source"));
        HEDDLE_TRY(require(dst, "graph copy", "the destination"));
        return copy_graph(*src, *dst);
    });
}

void ggml_graph_clear(ggml_cgraph* cgraph) {
    if (!is_null(cgraph, __func__, "the graph")) clear(*cgraph);
}

// ---- filling graphs ----------------------------------------------------------------------------

namespace {

void expand_or_fail(ggml_cgraph* cgraph, ggml_tensor* tensor, bool compute) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(cgraph, "graph expansion", "the graph"));
        HEDDLE_TRY(require(tensor, "graph expansion", "the tensor"));
        return expand(*cgraph, *tensor, compute);
    });
}

}  // namespace

void ggml_build_forward_expand(ggml_cgraph* cgraph, ggml_tensor* tensor) {
    expand_or_fail(cgraph, tensor, true);
}

void ggml_build_forward_order(ggml_cgraph* cgraph, ggml_tensor* tensor) {
    expand_or_fail(cgraph, tensor, false);
}

ggml_tensor* ggml_build_forward_select(ggml_cgraph* cgraph, ggml_tensor** tensors, int n_tensors,
                                       int idx) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(cgraph, "graph selection", "the graph"));
        HEDDLE_TRY(require(tensors, "graph selection", "the list of tensors"));
        if (idx < 0 || idx >= n_tensors) {
            return invalid("graph selection: number ", idx, " of ", n_tensors, " tensors");
        }
        for (int i = 0; i < n_tensors; ++i) {
            HEDDLE_TRY(require(tensors[i], "graph selection", "a tensor"));
            HEDDLE_TRY(expand(*cgraph, *tensors[i], i == idx));
        }
        return tensors[idx];
    });
}

void ggml_graph_add_node(ggml_cgraph* cgraph, ggml_tensor* tensor) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(cgraph, "graph", "the graph"));
        HEDDLE_TRY(require(tensor, "graph", "the tensor"));
        return append_node(*cgraph, *tensor);
    });
}

// ---- looking into graphs -----------------------------------------------------------------------

namespace {

/// What `get` finds in the graph; nothing, after failing, where there is none.
template <class Get>
auto of(const Graph* graph, const char* function, Get get) {
    return capi::peek(graph, function, "the graph", get);
}

}  // namespace

int ggml_graph_size(ggml_cgraph* cgraph) {
    return of(cgraph, __func__, [](const Graph& g) { return g.size; });
}
int ggml_graph_n_nodes(ggml_cgraph* cgraph) {
    return of(cgraph, __func__, [](const Graph& g) { return g.n_nodes; });
}
ggml_tensor** ggml_graph_nodes(ggml_cgraph* cgraph) {
    return of(cgraph, __func__, [](const Graph& g) { return g.nodes; });
}

ggml_tensor* ggml_graph_node(ggml_cgraph* cgraph, int i) {
    return capi::made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(cgraph, "graph node", "the graph"));
        const int index = i < 0 ? cgraph->n_nodes + i : i;
        if (index < 0 || index >= cgraph->n_nodes) {
            return invalid("graph node: number ", i, " of ", cgraph->n_nodes, " nodes");
        }
        return cgraph->nodes[index];
    });
}

ggml_tensor* ggml_graph_get_tensor(const ggml_cgraph* cgraph, const char* name) {
    if (cgraph == nullptr || name == nullptr) return nullptr;
    return find_tensor(*cgraph, name);
}

ggml_tensor* ggml_graph_get_grad(const ggml_cgraph* cgraph, const ggml_tensor* node) {
    if (node == nullptr) return nullptr;  // what does not exist has none
    return of(cgraph, __func__, [&](const Graph& g) { return gradient_of(g, *node); });
}
ggml_tensor* ggml_graph_get_grad_acc(const ggml_cgraph* cgraph, const ggml_tensor* node) {
    if (node == nullptr) return nullptr;
    return of(cgraph, __func__, [&](const Graph& g) { return accumulator_of(g, *node); });
}

// ---- showing graphs ----------------------------------------------------------------------------

void ggml_graph_print(const ggml_cgraph* cgraph) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(cgraph, "graph print", "the graph"));
        log(GGML_LOG_LEVEL_INFO, graph_text(*cgraph));
        return ok();
    });
}

void ggml_graph_dump_dot(const ggml_cgraph* gb, const ggml_cgraph* cgraph, const char* filename) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(gb, "graph drawing", "the graph"));
        HEDDLE_TRY(require(filename, "graph drawing", "the file name"));
        // A file that cannot be written never ends a program.
        auto written = write_whole_file(filename, graph_dot(*gb, cgraph));
        if (!written) return capi::report(written.error()), ok();
        log_line(GGML_LOG_LEVEL_INFO, "graph drawing: dot -Tpng ", filename, " -o ", filename,
                 ".png");
        return ok();
    });
}

// ---- for backends ------------------------------------------------------------------------------

ggml_cgraph ggml_graph_view(ggml_cgraph* cgraph, int i0, int i1) {
    return capi::value_or_fail(
        [&]() -> Result<Graph> {
            HEDDLE_TRY(require(cgraph, "graph view", "the graph"));
            if (i0 < 0 || i1 < i0 || i1 > cgraph->n_nodes) {
                return invalid("graph view: nodes ", i0, " to ", i1, " of ", cgraph->n_nodes);
            }
            return slice(*cgraph, i0, i1);
        },
        Graph{});
}

uint64_t ggml_graph_next_uid(void) { return next_graph_uid(); }

namespace {

/// Above this no machine has the memory, and looking for a prime takes long.
constexpr std::size_t kMaxSlots = std::size_t{1} << 40;

}  // namespace

size_t ggml_hash_size(size_t min_sz) {
    return min_sz > kMaxSlots ? min_sz | 1 : hash_capacity(min_sz);
}

ggml_hash_set ggml_hash_set_new(size_t size) {
    return capi::value_or_fail(
        [&]() -> Result<HashSet> {
            if (size > kMaxSlots) {
                return failure(Errc::out_of_memory, "hash set: ", size,
                               " slots are above the limit ", kMaxSlots);
            }
            // Its owner is C code, which releases it with ggml_hash_set_free().
            HashSet set{.size = hash_capacity(size), .used = nullptr, .keys = nullptr};
            const std::size_t words = bitset_words(set.size);
            set.used = static_cast<ggml_bitset_t*>(std::calloc(words, sizeof(ggml_bitset_t)));
            set.keys = static_cast<Tensor**>(std::calloc(set.size, sizeof(Tensor*)));
            if (set.used != nullptr && set.keys != nullptr) return set;
            ggml_hash_set_free(&set);
            return failure(Errc::out_of_memory, "hash set: no memory for ", size, " slots");
        },
        HashSet{});
}

void ggml_hash_set_free(ggml_hash_set* hash_set) {
    if (hash_set == nullptr) return;
    std::free(hash_set->used);
    std::free(hash_set->keys);
}

void ggml_hash_set_reset(ggml_hash_set* hash_set) {
    if (is_null(hash_set, __func__, "the hash set") || hash_set->used == nullptr) return;
    std::fill_n(hash_set->used, bitset_words(hash_set->size), ggml_bitset_t{0});
}

namespace {

/// A run of nodes that shall be computed in one step.
class FusionGroup {
public:
    FusionGroup(const Graph& graph, std::span<const int> indices, std::span<const int> outputs)
        : graph_(graph), indices_(indices), outputs_(outputs) {}

    /// Whether all nodes exist, run the given ops and are computed.
    bool matches(const ggml_op* ops) const {
        return std::all_of(indices_.begin(), indices_.end(), [&](const int& index) {
            if (index < 0 || index >= graph_.n_nodes) return false;
            const Tensor& node = *graph_.nodes[index];
            return node.op == ops[&index - indices_.data()] &&
                   (node.flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
        });
    }

    /// Whether nothing outside reads the nodes that would not be written.
    bool is_closed() const {
        return std::all_of(indices_.begin(), indices_.end(), [&](int index) {
            if (std::find(outputs_.begin(), outputs_.end(), index) != outputs_.end()) return true;
            const Tensor& node = *graph_.nodes[index];
            return (node.flags & GGML_TENSOR_FLAG_OUTPUT) == 0 &&
                   uses_of(node) == use_count(graph_, node) && sees_only_known_memory(node);
        });
    }

private:
    bool contains(const Tensor* tensor) const {
        return std::any_of(indices_.begin(), indices_.end(),
                           [&](int index) { return graph_.nodes[index] == tensor; });
    }

    int uses_of(const Tensor& tensor) const {
        int uses = 0;
        for (const int index : indices_) {
            const Tensor& user = *graph_.nodes[index];
            uses += static_cast<int>(std::count(user.src, user.src + kMaxSources, &tensor));
        }
        return uses;
    }

    static bool is_constant(const Tensor& tensor) {
        return tensor.buffer != nullptr &&
               tensor.buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
               (tensor.flags & GGML_TENSOR_FLAG_PARAM) == 0;
    }

    bool sees_only_known_memory(const Tensor& node) const {
        for (const Tensor* base = node.view_src; base != nullptr; base = base->view_src) {
            if (!contains(base) && !is_constant(*base)) return false;
        }
        return true;
    }

    const Graph& graph_;
    std::span<const int> indices_, outputs_;
};

}  // namespace

bool ggml_can_fuse_subgraph_ext(const ggml_cgraph* cgraph, const int* node_idxs, int count,
                                const ggml_op* ops, const int* outputs, int num_outputs) {
    if (cgraph == nullptr || node_idxs == nullptr || ops == nullptr || count < 1) return false;
    if (num_outputs < 0 || (num_outputs > 0 && outputs == nullptr)) return false;
    const FusionGroup group(*cgraph, {node_idxs, static_cast<std::size_t>(count)},
                            {outputs, static_cast<std::size_t>(num_outputs)});
    return group.matches(ops) && group.is_closed();
}
