#include "backends/cuda/plan.hpp"

#include <algorithm>

#include "backends/cuda/memory.hpp"
#include "ops/catalogue.hpp"

namespace heddle::cuda {
namespace {

/// Bytes that addresses of elements must be a multiple of: a GPU reads numbers no other way. Blocks
/// are read in pieces of two bytes, those of MXFP4, which have 17, in single ones.
std::size_t alignment_of(Type type) {
    if (type == GGML_TYPE_MXFP4) return 1;
    return block_size(type) > 1 ? 2 : size_of(type);
}

bool is_aligned(const Tensor& tensor) {
    const std::size_t alignment = alignment_of(tensor.type);
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment != 0) return false;
    for (int d = 0; d < kMaxDims; ++d) {
        if (tensor.ne[d] > 1 && tensor.nb[d] % alignment != 0) return false;
    }
    return true;
}

Result<> check_place(const Board& board, const Tensor& tensor) {
    if (heddle::is_empty(tensor)) return ok();
    const CudaBuffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || &buffer->board() != &board || tensor.data == nullptr) {
        return invalid(describe(tensor), " is not in memory of ", board.name);
    }
    if (is_aligned(tensor)) return ok();
    return invalid(describe(tensor), " at ", tensor.data, " is not aligned to its elements");
}

Result<> check_places(const Board& board, const Tensor& node) {
    HEDDLE_TRY(check_place(board, node));
    for (const Tensor* source : node.src) {
        if (source != nullptr) HEDDLE_TRY(check_place(board, *source));
    }
    return ok();
}

}  // namespace

std::string describe_node(const Tensor& node) {
    return text("node ", describe(node), ", ", describe_op_of(node));
}

Result<Plan> Plan::make(const Board& board, ggml_cgraph& graph) {
    Plan plan;
    const int count = ggml_graph_n_nodes(&graph);
    plan.steps.reserve(static_cast<std::size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        std::string_view reason;
        const Kernel* kernel = choose_kernel(node, &reason);
        if (kernel == nullptr) {
            return failure(Errc::unsupported, describe_node(node), ": ", reason);
        }
        if (auto placed = check_places(board, node); !placed) {
            return std::move(placed).error().within(describe_node(node));
        }
        if (kernel->scratch != nullptr) {
            plan.scratch = std::max(plan.scratch, kernel->scratch(node, board.facts));
        }
        plan.steps.push_back({kernel, &node});
    }
    return plan;
}

}  // namespace heddle::cuda
