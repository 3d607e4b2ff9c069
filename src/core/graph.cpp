#include "core/graph.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <new>
#include <vector>

#include "core/hash_set.hpp"

namespace heddle {
namespace {

/// Where the tables of a graph lie, in bytes from its start.
struct Layout {
    std::size_t hash_size, nodes, leafs, use_counts, keys, gradients, accumulators, used, total;
};

Layout lay_out(std::size_t capacity, bool gradients) {
    Layout at{};
    at.hash_size = hash_capacity(capacity * 2);
    std::size_t end = sizeof(Graph);
    const auto table = [&](std::size_t count, std::size_t size) {
        end = (end + size - 1) / size * size;
        const std::size_t start = end;
        end += count * size;
        return start;
    };
    at.nodes = table(capacity, sizeof(Tensor*));
    at.leafs = table(capacity, sizeof(Tensor*));
    at.keys = table(at.hash_size, sizeof(Tensor*));
    at.gradients = table(gradients ? at.hash_size : 0, sizeof(Tensor*));
    at.accumulators = table(gradients ? at.hash_size : 0, sizeof(Tensor*));
    at.use_counts = table(at.hash_size, sizeof(std::int32_t));
    at.used = table(bitset_words(at.hash_size), sizeof(ggml_bitset_t));
    at.total = end;
    return at;
}

constexpr std::size_t kMaxCapacity = std::size_t{1} << 30;  // node counts are ints

/// "node_17" without the cost of a format string: every node of every graph gets one.
void set_numbered_name(Tensor& tensor, std::string_view prefix, int number) {
    char name[32];
    std::memcpy(name, prefix.data(), prefix.size());
    char* end = std::to_chars(name + prefix.size(), name + sizeof name, number).ptr;
    std::memcpy(tensor.name, name, static_cast<std::size_t>(end - name));
    tensor.name[end - name] = '\0';
}

/// One tensor on the way to being added: its sources below `next` are done.
struct Visit {
    Tensor* tensor;
    int next;
    bool is_new;  ///< false: known before, visited again only to pass the mark on
};

/// Depth-first, post-order, with a stack of its own: graphs are deeper than call stacks.
class Expansion {
public:
    Expansion(Graph& graph, bool compute)
        : graph_(graph),
          compute_(compute),
          first_node_(graph.n_nodes),
          first_leaf_(graph.n_leafs) {}
    Expansion(const Expansion&) = delete;
    Expansion& operator=(const Expansion&) = delete;
    /// Also after an exception: memory may run out on the way.
    ~Expansion() {
        if (!complete_) undo();
    }

    Result<> run(Tensor& tensor) {
        auto done = walk(tensor);
        complete_ = done.has_value();
        return done;
    }

private:
    Result<> walk(Tensor& start) {
        HEDDLE_TRY(enter(start));
        while (!stack_.empty()) {
            const std::size_t place = stack_.size() - 1;
            HEDDLE_TRY(advance(place));
            if (stack_.size() > place + 1) continue;  // a source came first
            const Visit done = stack_.back();
            stack_.pop_back();
            if (done.is_new) HEDDLE_TRY(append(*done.tensor));
        }
        return ok();
    }

    /// Goes through the sources of the visit at `place` until one must be visited before it.
    Result<> advance(std::size_t place) {
        Tensor& tensor = *stack_[place].tensor;
        const bool is_new = stack_[place].is_new;
        for (int step = stack_[place].next; step < kMaxSources; ++step) {
            Tensor* source = source_at(tensor, step);
            if (source == nullptr || !(is_new || is_unmarked(*source))) continue;
            stack_[place].next = step;  // what `undo` would find done
            HEDDLE_TRY_ASSIGN(const std::size_t slot, enter(*source));
            if (is_new) ++graph_.use_counts[slot];
            if (stack_.size() > place + 1) {
                stack_[place].next = step + 1;
                return ok();
            }
        }
        stack_[place].next = kMaxSources;
        return ok();
    }

    Tensor* source_at(const Tensor& tensor, int step) const {
        const bool reversed = graph_.order == GGML_CGRAPH_EVAL_ORDER_RIGHT_TO_LEFT;
        return tensor.src[reversed ? kMaxSources - 1 - step : step];
    }

    static bool is_unmarked(const Tensor& tensor) {
        return tensor.op != kNoOp && !(tensor.flags & GGML_TENSOR_FLAG_COMPUTE);
    }

    bool passes_mark_on(const Tensor& tensor) const {
        return compute_ &&
               std::any_of(tensor.src, tensor.src + kMaxSources, [](const Tensor* source) {
                   return source != nullptr && is_unmarked(*source);
               });
    }

    /// Marks `tensor` and makes it known; its sources follow from the stack. Gives its slot.
    Result<std::size_t> enter(Tensor& tensor) {
        if (compute_ && tensor.op != kNoOp) tensor.flags |= GGML_TENSOR_FLAG_COMPUTE;
        const std::size_t slot = probe(graph_.visited_hash_set, &tensor);
        if (slot == kNoSlot) {
            return failure(Errc::out_of_memory, "graph: no room for more than ",
                           graph_.visited_hash_set.size, " tensors");
        }
        if (!is_used(graph_.visited_hash_set, slot)) {
            stack_.push_back({&tensor, 0, true});  // first: this alone can fail
            occupy(graph_.visited_hash_set, slot, &tensor);
            graph_.use_counts[slot] = 0;
        } else if (passes_mark_on(tensor)) {
            stack_.push_back({&tensor, 0, false});
        }
        return slot;
    }

    Result<> append(Tensor& tensor) {
        if (tensor.op == kNoOp && !(tensor.flags & GGML_TENSOR_FLAG_PARAM)) {
            if (graph_.n_leafs >= graph_.size) return take_back(tensor, "leafs");
            if (tensor.name[0] == '\0') set_numbered_name(tensor, "leaf_", graph_.n_leafs);
            graph_.leafs[graph_.n_leafs++] = &tensor;
        } else {
            if (graph_.n_nodes >= graph_.size) return take_back(tensor, "nodes");
            if (tensor.name[0] == '\0') set_numbered_name(tensor, "node_", graph_.n_nodes);
            graph_.nodes[graph_.n_nodes++] = &tensor;
        }
        return ok();
    }

    /// `tensor` goes back on the stack, so that `undo` sees it.
    Error take_back(Tensor& tensor, std::string_view what) {
        stack_.push_back({&tensor, kMaxSources, true});
        return no_room(what);
    }

    Error no_room(std::string_view what) const {
        return failure(Errc::out_of_memory, "graph: no room for more than ", graph_.size, ' ',
                       what);
    }

    /// Calls `visit(tensor, counted_sources)` for all that this expansion put in.
    template <class Visitor>
    void for_each_new(const Visitor& visit) const {
        for (int i = first_node_; i < graph_.n_nodes; ++i) visit(*graph_.nodes[i], kMaxSources);
        for (int i = first_leaf_; i < graph_.n_leafs; ++i) visit(*graph_.leafs[i], kMaxSources);
        for (const Visit& open : stack_) {
            if (open.is_new) visit(*open.tensor, open.next);
        }
    }

    /// Takes out again all that this expansion put in. Allocates nothing.
    void undo() noexcept {
        HashSet& known = graph_.visited_hash_set;
        for_each_new([&](const Tensor& tensor, int counted_sources) {
            for (int step = 0; step < counted_sources; ++step) {
                const Tensor* source = source_at(tensor, step);
                if (source != nullptr) --graph_.use_counts[find(known, source)];
            }
        });
        // Entries may have been probed past each other: all lose their keys before any goes.
        for_each_new(
            [&](const Tensor& tensor, int) { known.keys[find(known, &tensor)] = nullptr; });
        for (std::size_t slot = 0; slot < known.size; ++slot) {
            if (is_used(known, slot) && known.keys[slot] == nullptr) vacate(known, slot);
        }
        graph_.n_nodes = first_node_;
        graph_.n_leafs = first_leaf_;
    }

    Graph& graph_;
    const bool compute_;
    const int first_node_, first_leaf_;
    bool complete_ = false;
    std::vector<Visit> stack_;
};

}  // namespace

std::size_t hash_capacity(std::size_t minimum) {
    const auto is_prime = [](std::size_t n) {
        for (std::size_t d = 3; d * d <= n; d += 2) {
            if (n % d == 0) return false;
        }
        return true;
    };
    if (minimum <= 2) return 2;
    std::size_t candidate = minimum | 1;
    while (!is_prime(candidate)) candidate += 2;
    return candidate;
}

std::size_t graph_overhead(std::size_t capacity, bool gradients) {
    const std::size_t size = lay_out(std::min(capacity, kMaxCapacity), gradients).total;
    return sizeof(Object) + (size + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

Result<Graph*> new_graph(Context& context, std::size_t capacity, bool gradients) {
    if (capacity > kMaxCapacity) {
        return invalid("graph: a capacity of ", capacity, " nodes is above the limit ",
                       kMaxCapacity);
    }
    const Layout at = lay_out(capacity, gradients);
    HEDDLE_TRY_ASSIGN(std::byte * memory, new_object(context, GGML_OBJECT_TYPE_GRAPH, at.total));
    const auto tensors = [&](std::size_t offset) {
        return reinterpret_cast<Tensor**>(memory + offset);
    };
    auto* graph = new (memory) Graph{};
    graph->size = static_cast<int>(capacity);
    graph->nodes = tensors(at.nodes);
    graph->leafs = tensors(at.leafs);
    graph->use_counts = reinterpret_cast<std::int32_t*>(memory + at.use_counts);
    graph->visited_hash_set.size = at.hash_size;
    graph->visited_hash_set.keys = tensors(at.keys);
    graph->visited_hash_set.used = reinterpret_cast<ggml_bitset_t*>(memory + at.used);
    graph->order = GGML_CGRAPH_EVAL_ORDER_LEFT_TO_RIGHT;
    if (gradients) {
        graph->grads = tensors(at.gradients);
        graph->grad_accs = tensors(at.accumulators);
        std::memset(graph->grads, 0, at.hash_size * sizeof(Tensor*));
        std::memset(graph->grad_accs, 0, at.hash_size * sizeof(Tensor*));
    }
    clear(*graph);
    return graph;
}

Result<> expand(Graph& graph, Tensor& tensor, bool compute) {
    return Expansion(graph, compute).run(tensor);
}

Result<> append_node(Graph& graph, Tensor& tensor) {
    if (graph.n_nodes >= graph.size) {
        return failure(Errc::out_of_memory, "graph: no room for more than ", graph.size, " nodes");
    }
    graph.nodes[graph.n_nodes++] = &tensor;
    return ok();
}

void clear(Graph& graph) {
    graph.n_nodes = graph.n_leafs = 0;
    const std::size_t words = bitset_words(graph.visited_hash_set.size);
    std::memset(graph.visited_hash_set.used, 0, words * sizeof(ggml_bitset_t));
}

Result<> copy_graph(const Graph& from, Graph& to) {
    if (to.size < from.n_nodes || to.size < from.n_leafs ||
        to.visited_hash_set.size < from.visited_hash_set.size) {
        return invalid("graph copy: ", from.n_nodes, " nodes and ", from.n_leafs,
                       " leafs do not fit a graph of capacity ", to.size);
    }
    if (from.grads != nullptr && to.grads == nullptr) {
        return invalid(
            "graph copy: the source has gradients, the destination has no tables for them");
    }
    clear(to);
    std::copy_n(from.nodes, from.n_nodes, to.nodes);
    std::copy_n(from.leafs, from.n_leafs, to.leafs);
    to.n_nodes = from.n_nodes;
    to.n_leafs = from.n_leafs;
    to.order = from.order;
    const std::size_t slots = to.visited_hash_set.size;
    if (to.grads != nullptr) {
        std::fill_n(to.grads, slots, nullptr);
        std::fill_n(to.grad_accs, slots, nullptr);
    }
    for (std::size_t slot = 0; slot < from.visited_hash_set.size; ++slot) {
        if (!is_used(from.visited_hash_set, slot)) continue;
        Tensor* key = from.visited_hash_set.keys[slot];
        const std::size_t target = probe(to.visited_hash_set, key);
        occupy(to.visited_hash_set, target, key);
        to.use_counts[target] = from.use_counts[slot];
        if (from.grads != nullptr) {
            to.grads[target] = from.grads[slot];
            to.grad_accs[target] = from.grad_accs[slot];
        }
    }
    return ok();
}

Result<Graph*> duplicate_graph(Context& context, const Graph& graph, bool force_gradients) {
    const bool gradients = graph.grads != nullptr || force_gradients;
    HEDDLE_TRY_ASSIGN(Graph * copy,
                      new_graph(context, static_cast<std::size_t>(graph.size), gradients));
    HEDDLE_TRY(copy_graph(graph, *copy));
    return copy;
}

Graph slice(const Graph& graph, int begin, int end) {
    Graph part{};
    part.n_nodes = end - begin;
    part.nodes = graph.nodes + begin;
    part.use_counts = graph.use_counts;
    part.visited_hash_set = graph.visited_hash_set;
    part.order = graph.order;
    return part;
}

Tensor* find_tensor(const Graph& graph, std::string_view name) {
    for (const auto tensors : {leafs_of(graph), nodes_of(graph)}) {
        for (Tensor* tensor : tensors) {
            if (name_of(*tensor) == name) return tensor;
        }
    }
    return nullptr;
}

int use_count(const Graph& graph, const Tensor& tensor) {
    const std::size_t slot = find(graph.visited_hash_set, &tensor);
    return slot == kNoSlot ? 0 : graph.use_counts[slot];
}

Tensor* gradient_of(const Graph& graph, const Tensor& tensor) {
    const std::size_t slot = find(graph.visited_hash_set, &tensor);
    return slot == kNoSlot || graph.grads == nullptr ? nullptr : graph.grads[slot];
}

Tensor* accumulator_of(const Graph& graph, const Tensor& tensor) {
    const std::size_t slot = find(graph.visited_hash_set, &tensor);
    return slot == kNoSlot || graph.grad_accs == nullptr ? nullptr : graph.grad_accs[slot];
}

std::uint64_t next_graph_uid() {
    static std::atomic<std::uint64_t> last{0};
    return ++last;
}

}  // namespace heddle
