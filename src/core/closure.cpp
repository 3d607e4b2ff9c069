#include "core/closure.hpp"

namespace heddle {
namespace {

/// A tensor whose dependencies below `next` are done. The last one is what it is a view of.
struct Visit {
    Tensor* tensor;
    int next;
};

constexpr int kDependencies = kMaxSources + 1;

Tensor* dependency(const Tensor& tensor, int number) {
    return number < kMaxSources ? tensor.src[number] : tensor.view_src;
}

/// Depth first with a stack of its own: graphs are deeper than call stacks.
class Walk {
public:
    explicit Walk(Closure& closure) : closure_(closure) {}

    void add(Tensor* start) {
        enter(start);
        while (!stack_.empty()) {
            Visit& top = stack_.back();
            if (top.next < kDependencies) {
                enter(dependency(*top.tensor, top.next++));
                continue;
            }
            closure_.index_of[top.tensor] = closure_.tensors.size();
            closure_.tensors.push_back(top.tensor);
            stack_.pop_back();
        }
    }

private:
    void enter(Tensor* tensor) {
        if (tensor != nullptr && closure_.index_of.try_emplace(tensor, 0).second) {
            stack_.push_back({tensor, 0});
        }
    }

    Closure& closure_;
    std::vector<Visit> stack_;
};

}  // namespace

Result<Closure> closure_of(const Graph& graph) {
    Closure closure;
    const auto expected = static_cast<std::size_t>(graph.n_nodes) * 2;
    closure.tensors.reserve(expected);
    closure.index_of.reserve(expected);
    Walk walk(closure);
    for (int i = 0; i < graph.n_leafs; ++i) {
        if (graph.leafs[i] == nullptr) return invalid("graph: leaf ", i, " is NULL");
        walk.add(graph.leafs[i]);
    }
    for (int i = 0; i < graph.n_nodes; ++i) {
        if (graph.nodes[i] == nullptr) return invalid("graph: node ", i, " is NULL");
        walk.add(graph.nodes[i]);
    }
    return closure;
}

}  // namespace heddle
