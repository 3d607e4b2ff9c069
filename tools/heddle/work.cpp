#include "work.hpp"

#include "ggml/op_list.h"
#include "ops/catalogue.hpp"

// The catalogue's names are not those of the C++ API, so files that use the latter come here.
namespace heddle::tool {

Work work_of(const ggml_tensor& node) {
    const OpInfo* op = find_op(node.op);
    if (op == nullptr || op->is_view || node.op == GGML_OP_NONE) return {};
    const Cost cost = cost_of(node);
    return {cost.flops, cost.bytes};
}

Work work_of(ggml_cgraph* graph) {
    Work all;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) all += work_of(*ggml_graph_node(graph, i));
    return all;
}

}  // namespace heddle::tool
