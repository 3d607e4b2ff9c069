#include "ops/print_graph.hpp"

#include <iomanip>
#include <ostream>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "ops/catalogue.hpp"

namespace heddle {
namespace {

std::string_view op_name_of(const Tensor& tensor) {
    const OpInfo* op = find_op(tensor.op);
    return op == nullptr ? "unknown op" : op->name;
}

std::string_view symbol_of(const Tensor& tensor) {
    const OpInfo* op = find_op(tensor.op);
    return op == nullptr ? "?" : op->symbol;
}

bool is_trained(const Tensor& tensor) { return (tensor.flags & GGML_TENSOR_FLAG_PARAM) != 0; }

/// Draws one graph. Gradients have no vertex of their own: they are a field of the node they belong
/// to, and edges that touch them end there.
class Drawing {
public:
    Drawing(const Graph& graph, const Graph* forward)
        : graph_(graph), has_forward_(forward != nullptr) {
        for (const Tensor* node : nodes_of(graph)) {
            if (const Tensor* gradient = gradient_of(graph, *node)) owners_.emplace(gradient, node);
        }
        if (forward != nullptr) {
            const auto nodes = nodes_of(*forward);
            forward_.insert(nodes.begin(), nodes.end());
        }
    }

    std::string draw() {
        out_ << "digraph G {\n  newrank = true;\n  rankdir = TB;\n";
        const auto nodes = nodes_of(graph_);
        const auto leafs = leafs_of(graph_);
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (!owners_.contains(nodes[i])) node_vertex(*nodes[i], i);
        }
        for (std::size_t i = 0; i < leafs.size(); ++i) leaf_vertex(*leafs[i], i);
        for (const Tensor* node : nodes) {
            const bool to_gradient = owners_.contains(node);
            edges(*node, to_gradient ? "; style = dashed; arrowhead = empty; "
                                     : "; style = solid; arrowhead = vee; ");
        }
        for (const Tensor* leaf : leafs) edges(*leaf, "; ");
        out_ << "}\n";
        return std::move(out_).str();
    }

private:
    void node_vertex(const Tensor& node, std::size_t index) {
        const Tensor* gradient = gradient_of(graph_, node);
        begin_vertex(node, colour_of(node, gradient));
        title(node);
        out_ << '|' << index << " [" << node.ne[0] << ", " << node.ne[1];
        if (!is_matrix(node)) out_ << ", " << node.ne[2];
        out_ << "] | <x>" << symbol_of(node);
        if (gradient != nullptr) out_ << " | <g>" << symbol_of(*gradient);
        out_ << "\"; ]\n";
    }

    void leaf_vertex(const Tensor& leaf, std::size_t index) {
        begin_vertex(leaf, "pink");
        out_ << "<x>";
        title(leaf);
        out_ << "|CONST " << index << " [" << leaf.ne[0] << ", " << leaf.ne[1] << ']';
        const std::int64_t count = element_count(leaf);
        if (count < 5 && leaf.data != nullptr) {
            out_ << " | (";
            for (std::int64_t i = 0; i < count; ++i) out_ << (i == 0 ? "#" : ", #");
            out_ << ')';
        }
        out_ << "\"; ]\n";
    }

    std::string_view colour_of(const Tensor& node, const Tensor* gradient) const {
        if (is_trained(node)) return "yellow";
        if (gradient == nullptr) return "white";
        return !has_forward_ || forward_.contains(&node) ? "green" : "lightblue";
    }

    void begin_vertex(const Tensor& tensor, std::string_view colour) {
        out_ << "  \"" << static_cast<const void*>(&tensor)
             << "\" [ style = filled; fillcolor = " << colour << "; shape = record; label=\"";
    }

    /// Name and type. Characters that mean something in a record are escaped: names are free.
    void title(const Tensor& tensor) {
        for (const char c : name_of(tensor)) {
            if (std::string_view("\"\\|{}<>").find(c) != std::string_view::npos) out_ << '\\';
            out_ << c;
        }
        if (!name_of(tensor).empty()) out_ << ' ';
        out_ << '(' << name_of(tensor.type) << ')';
    }

    void edges(const Tensor& user, std::string_view look) {
        for (int slot = 0; slot < kMaxSources; ++slot) {
            if (user.src[slot] == nullptr) continue;
            out_ << "  ";
            end_point(*user.src[slot]);
            out_ << " -> ";
            end_point(user);
            out_ << " [ label = \"src " << slot << '"' << look << "]\n";
        }
    }

    void end_point(const Tensor& tensor) {
        const auto owner = owners_.find(&tensor);
        const Tensor* drawn = owner == owners_.end() ? &tensor : owner->second;
        out_ << '"' << static_cast<const void*>(drawn) << "\":" << (drawn == &tensor ? 'x' : 'g');
    }

    const Graph& graph_;
    const bool has_forward_;
    std::unordered_map<const Tensor*, const Tensor*> owners_;  ///< gradient -> first node it is of
    std::unordered_set<const Tensor*> forward_;
    std::ostringstream out_;
};

}  // namespace

std::string graph_text(const Graph& graph) {
    std::ostringstream out;
    out << "=== GRAPH ===\nn_nodes = " << graph.n_nodes << '\n';
    int index = 0;
    for (const Tensor* node : nodes_of(graph)) {
        const bool has_gradient = gradient_of(graph, *node) != nullptr;
        out << " - " << std::setw(3) << index++ << ": [ " << std::setw(5) << node->ne[0] << ", "
            << std::setw(5) << node->ne[1] << ", " << std::setw(5) << node->ne[2] << "] "
            << std::setw(16) << op_name_of(*node) << ' '
            << (is_trained(*node) ? 'x'
                : has_gradient    ? 'g'
                                  : ' ')
            << '\n';
    }
    out << "n_leafs = " << graph.n_leafs << '\n';
    index = 0;
    for (const Tensor* leaf : leafs_of(graph)) {
        out << " - " << std::setw(3) << index++ << ": [ " << std::setw(5) << leaf->ne[0] << ", "
            << std::setw(5) << leaf->ne[1] << "] " << std::setw(8) << op_name_of(*leaf) << ' '
            << std::setw(16) << name_of(*leaf) << '\n';
    }
    out << "========================================\n";
    return std::move(out).str();
}

std::string graph_dot(const Graph& graph, const Graph* forward) {
    return Drawing(graph, forward).draw();
}

}  // namespace heddle
