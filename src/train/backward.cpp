#include "train/backward.hpp"

#include <algorithm>
#include <vector>

#include "core/hash_set.hpp"
#include "ops/backward_builder.hpp"
#include "ops/catalogue.hpp"

namespace heddle {
namespace {

bool is_marked(const Tensor& node, ggml_tensor_flag flag) { return (node.flags & flag) != 0; }

bool is_integer(Type type) {
    return type == GGML_TYPE_I8 || type == GGML_TYPE_I16 || type == GGML_TYPE_I32 ||
           type == GGML_TYPE_I64;
}

/// Makes a graph again what it was when this was made, unless what was done to it is kept. Tensors
/// never move within the graph's table, so its keys need not be remembered.
class Rollback {
public:
    explicit Rollback(Graph& graph)
        : graph_(graph),
          nodes_(graph.n_nodes),
          leafs_(graph.n_leafs),
          used_(graph.visited_hash_set.used,
                graph.visited_hash_set.used + bitset_words(graph.visited_hash_set.size)),
          use_counts_(graph.use_counts, graph.use_counts + graph.visited_hash_set.size),
          gradients_(graph.grads, graph.grads + graph.visited_hash_set.size),
          accumulators_(graph.grad_accs, graph.grad_accs + graph.visited_hash_set.size) {}

    Rollback(const Rollback&) = delete;
    Rollback& operator=(const Rollback&) = delete;
    ~Rollback() {
        if (kept_) return;
        graph_.n_nodes = nodes_;
        graph_.n_leafs = leafs_;
        std::ranges::copy(used_, graph_.visited_hash_set.used);
        std::ranges::copy(use_counts_, graph_.use_counts);
        std::ranges::copy(gradients_, graph_.grads);
        std::ranges::copy(accumulators_, graph_.grad_accs);
    }

    void keep() { kept_ = true; }

private:
    Graph& graph_;
    bool kept_ = false;
    int nodes_, leafs_;
    std::vector<ggml_bitset_t> used_;
    std::vector<std::int32_t> use_counts_;
    std::vector<Tensor*> gradients_, accumulators_;
};

Result<> check_graph(const Graph& graph, std::span<Tensor* const> accumulators) {
    const auto nodes = nodes_of(graph);
    if (nodes.empty()) return invalid("backward graph: the graph has no nodes");
    if (graph.grads == nullptr || graph.grad_accs == nullptr) {
        return invalid("backward graph: the graph was made without tables for gradients");
    }
    const auto has = [&](ggml_tensor_flag flag) {
        return std::ranges::any_of(nodes,
                                   [&](const Tensor* node) { return is_marked(*node, flag); });
    };
    if (!has(GGML_TENSOR_FLAG_PARAM)) {
        return invalid("backward graph: none of the ", nodes.size(), " nodes is a parameter");
    }
    if (!has(GGML_TENSOR_FLAG_LOSS)) {
        return invalid("backward graph: none of the ", nodes.size(), " nodes is a loss");
    }
    if (!accumulators.empty() && accumulators.size() != nodes.size()) {
        return invalid("backward graph: ", accumulators.size(), " accumulators for ", nodes.size(),
                       " nodes");
    }
    for (const Tensor* node : nodes) {
        // Nodes that were appended as they are cannot be found again, nor given a gradient.
        if (find(graph.visited_hash_set, node) != kNoSlot) continue;
        return invalid("backward graph: node ", describe(*node),
                       " was added without being expanded");
    }
    return ok();
}

/// Whether `node` needs a gradient: it is where they start or end, or lies between.
Result<bool> needs_gradient(const Backward& backward, const Tensor& node) {
    bool needed = is_marked(node, GGML_TENSOR_FLAG_PARAM) || is_marked(node, GGML_TENSOR_FLAG_LOSS);
    for (std::size_t slot = 0; slot < kMaxSources; ++slot) {
        if (!carries_gradient(node, slot) || !backward.wants(*node.src[slot])) continue;
        const Tensor& source = *node.src[slot];
        if (source.type != GGML_TYPE_F32 && source.type != GGML_TYPE_F16) {
            return failure(Errc::unsupported, "no gradient of ", describe(source),
                           ", which is neither f32 nor f16, at node ", describe(node));
        }
        needed = true;
    }
    return needed;
}

/// A rule may need what an operand held, so it must not have been written over. CPY, which has no
/// in-place form, writes to an operand that gets no gradient.
Result<> check_keeps_operands(const Tensor& node) {
    const OpInfo* op = find_op(node.op);
    if (node.view_src == nullptr || op == nullptr || op->is_view) return ok();
    if (op->gradient != nullptr && !op->can_run_in_place) return ok();
    return failure(Errc::unsupported, "no gradient through node ", describe(node), ": its op ",
                   describe_op_of(node), " writes over ", describe(*node.view_src));
}

Result<> check_accumulator(const Tensor& node, const Tensor& accumulator) {
    if (accumulator.type == GGML_TYPE_F32 && same_shape(accumulator, node) &&
        is_contiguous(accumulator)) {
        return ok();
    }
    return invalid("backward graph: the accumulator ", describe(accumulator),
                   " is not a dense f32 tensor with the extents of ", describe(node));
}

/// Gives `node` the gradient it starts from, where it has one.
Result<> start_gradient(Context& context, Graph& graph, Backward& backward, Tensor& node,
                        Tensor* accumulator) {
    const bool is_loss = is_marked(node, GGML_TENSOR_FLAG_LOSS);
    if (accumulator == nullptr && is_loss) {
        HEDDLE_TRY_ASSIGN(accumulator,
                          new_tensor(context, TensorSpec::dense(GGML_TYPE_F32, extents_of(node))));
        set_name(*accumulator, text("grad for ", name_of(node)));
        // A reset writes it before the graph runs, and it must last over several runs.
        accumulator->flags |= GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT;
    }
    if (accumulator == nullptr) return ok();
    HEDDLE_TRY(check_accumulator(node, *accumulator));
    graph.grad_accs[find(graph.visited_hash_set, &node)] = accumulator;
    // A loss that other losses depend on gets contributions, too. They must not stay in what it
    // starts from.
    backward.start(node, *accumulator, !is_loss);
    return ok();
}

Result<> extend(Context& context, Graph& graph, std::span<Tensor* const> accumulators) {
    const std::size_t slots = graph.visited_hash_set.size;
    std::fill_n(graph.grads, slots, nullptr);
    std::fill_n(graph.grad_accs, slots, nullptr);
    const auto forward = nodes_of(graph);  // stays what it is while the graph grows
    Backward backward(context, graph);
    for (std::size_t i = 0; i < forward.size(); ++i) {
        Tensor& node = *forward[i];
        if (is_integer(node.type)) continue;
        HEDDLE_TRY_ASSIGN(const bool needed, needs_gradient(backward, node));
        if (!needed) continue;
        HEDDLE_TRY(check_keeps_operands(node));
        backward.mark_wanted(node);
        HEDDLE_TRY(start_gradient(context, graph, backward, node,
                                  accumulators.empty() ? nullptr : accumulators[i]));
    }
    for (std::size_t i = forward.size(); i-- > 0;) {
        if (gradient_of(graph, *forward[i]) == nullptr) continue;
        HEDDLE_TRY(backward.pass_on(*forward[i]));
    }
    return ok();
}

}  // namespace

Result<> build_backward(Context& context, Graph& graph, std::span<Tensor* const> accumulators) {
    HEDDLE_TRY(check_graph(graph, accumulators));
    Rollback rollback(graph);
    HEDDLE_TRY(extend(context, graph, accumulators));
    rollback.keep();
    return ok();
}

}  // namespace heddle
