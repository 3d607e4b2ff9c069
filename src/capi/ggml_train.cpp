// Gradients of graphs.

#include "capi/boundary.hpp"
#include "ggml.h"
#include "train/backward.hpp"
#include "train/reset.hpp"

using namespace heddle;
using capi::require;

void ggml_build_backward_expand(ggml_context* ctx, ggml_cgraph* cgraph, ggml_tensor** grad_accs) {
    capi::done([&]() -> Result<> {
        HEDDLE_TRY(require(ctx, "backward graph", "the context"));
        HEDDLE_TRY(require(cgraph, "backward graph", "the graph"));
        const auto count = static_cast<std::size_t>(grad_accs != nullptr ? cgraph->n_nodes : 0);
        return build_backward(*ctx, *cgraph, {grad_accs, count});
    });
}

void ggml_graph_reset(ggml_cgraph* cgraph) {
    if (cgraph == nullptr) return;
    capi::done([&] { return reset_gradients(*cgraph); });
}
