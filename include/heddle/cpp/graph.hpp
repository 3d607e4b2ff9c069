/// Graphs: what is to be computed, in order. Part of `heddle/heddle.hpp`.
#pragma once

#include <initializer_list>

#include "context.hpp"

namespace heddle::api {

/// The nodes that lead to some results; lives in their context.
class Graph {
public:
    /// The graph that computes `results`, in this order, with room for `capacity` nodes (0: as
    /// many as the context has by now). Fails with the reason if an op could not be built.
    static Result<Graph> of(Context& context, std::span<const Tensor> results,
                            std::size_t capacity = 0) {
        HEDDLE_TRY(context.check());
        if (results.empty()) return invalid("a graph of no results");
        if (capacity == 0) capacity = detail::graph_capacity(context.tensors());
        ggml_cgraph* made =
            detail::call([&] { return ggml_new_graph_custom(context.c(), capacity, false); });
        if (made == nullptr)
            return detail::last_failure(Errc::out_of_memory, "no room for a graph");
        for (const Tensor& result : results) {
            if (!result) return invalid("a result of the graph could not be built");
            detail::call([&] {
                ggml_build_forward_expand(made, result.c());
                return 0;
            });
            HEDDLE_TRY(detail::check_said(Errc::out_of_memory));
        }
        return Graph(made, results.back());
    }
    static Result<Graph> of(Context& context, std::initializer_list<Tensor> results,
                            std::size_t capacity = 0) {
        return of(context, std::span(results.begin(), results.size()), capacity);
    }
    static Result<Graph> of(Context& context, const Tensor& result, std::size_t capacity = 0) {
        return of(context, std::span(&result, 1), capacity);
    }

    Tensor result() const { return result_; }  ///< the last one given
    int nodes() const { return ggml_graph_n_nodes(graph_); }
    /// In the order in which they are computed.
    ggml_tensor* node(int index) const { return ggml_graph_node(graph_, index); }
    ggml_cgraph* c() const { return graph_; }

private:
    Graph(ggml_cgraph* graph, Tensor result) : graph_(graph), result_(result) {}

    ggml_cgraph* graph_;
    Tensor result_;
};

}  // namespace heddle::api
