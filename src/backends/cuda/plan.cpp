#include "backends/cuda/plan.hpp"

#include <algorithm>

#include "backends/cuda/fusion.hpp"
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
    const std::size_t size = byte_size(tensor);
    HEDDLE_TRY(buffer->check_range(tensor, {0, size, 1, size, size}));
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

// ---- steps -------------------------------------------------------------------------------------

template <class... Bodies>
struct Overloaded : Bodies... {
    using Bodies::operator()...;
};
template <class... Bodies>
Overloaded(Bodies...) -> Overloaded<Bodies...>;

bool is_weight(const Tensor& tensor) {
    const Tensor& root = tensor.view_src != nullptr ? *tensor.view_src : tensor;
    return root.buffer != nullptr && root.buffer->usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

/// Whether no node writes what others may read before the nodes before them have finished.
bool are_weights_constant(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
        for (const Tensor* node : step.nodes()) {
            if (is_weight(*node)) return false;
        }
    }
    return true;
}

void allow_reading_ahead(std::vector<Step>& steps) {
    if (!are_weights_constant(steps)) return;
    for (Step& step : steps) {
        const auto* group = std::get_if<ColumnGroup>(&step.work);
        if (group == nullptr) continue;
        step.reads_ahead = true;
        for (int i = 0; i < group->count; ++i) {
            step.reads_ahead &= is_weight(*group->products[static_cast<std::size_t>(i)]->src[0]);
        }
    }
}

}  // namespace

const char* Step::name() const {
    return std::visit(Overloaded{[](const SingleNode& one) { return one.kernel->name; },
                                 [](const ColumnGroup&) { return "gemv_column"; },
                                 [](const RopeStoreGroup&) { return "rope_store"; }},
                      work);
}

std::vector<const Tensor*> Step::nodes() const {
    std::vector<const Tensor*> nodes;
    const auto add = [&](const Tensor* node) {
        if (node != nullptr) nodes.push_back(node);
    };
    std::visit(Overloaded{[&](const SingleNode& one) { add(one.node); },
                          [&](const ColumnGroup& group) {
                              add(group.norm);
                              add(group.scale);
                              for (const Tensor* product : group.products) add(product);
                              add(group.gate);
                              add(group.sum);
                          },
                          [&](const RopeStoreGroup& group) {
                              for (const RopeStore& member : group.members) {
                                  add(member.rope);
                                  add(member.store);
                              }
                          }},
               work);
    return nodes;
}

void Step::launch(const Launch& launch) const {
    std::visit(Overloaded{[&](const SingleNode& one) { one.kernel->launch(*one.node, launch); },
                          [&](const ColumnGroup& group) { launch_columns(group, launch); },
                          [&](const RopeStoreGroup& group) { launch_rope_store(group, launch); }},
               work);
}

void Step::add_to(gpu::ReplayKey& key) const {
    const auto* one = std::get_if<SingleNode>(&work);
    const void* const how = one != nullptr ? static_cast<const void*>(one->kernel) : name();
    for (const Tensor* node : nodes()) key.add(how, *node);
}

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
        plan.steps.push_back({SingleNode{kernel, &node}});
    }
    if (board.options.is_fusing) fuse(plan.steps, graph, board.facts);
    allow_reading_ahead(plan.steps);
    return plan;
}

}  // namespace heddle::cuda
