#include "backends/cuda/plan.hpp"

#include <algorithm>
#include <array>

#include "backends/cuda/fusion.hpp"
#include "backends/cuda/kernel_list.hpp"
#include "backends/cuda/kernels/attention/attention.hpp"
#include "backends/cuda/memory.hpp"
#include "backends/cuda/passed_columns.hpp"
#include "backends/cuda/product_fusion.hpp"
#include "core/graph.hpp"
#include "ggml/op_list.h"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/order_check.hpp"

namespace heddle::cuda {
namespace {

/// Bytes that addresses of elements must be a multiple of: a GPU reads numbers no other way. Blocks
/// are read in pieces of two bytes, those of MXFP4, which have 17, in single ones.
std::size_t alignment_of(Type type) {
    if (type == GGML_TYPE_MXFP4) return 1;
    return block_size(type) > 1 ? 2 : size_of(type);
}

Result<> check_place(const Board& board, const Tensor& tensor) {
    if (heddle::is_empty(tensor)) return ok();
    const CudaBuffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || &buffer->board() != &board || tensor.data == nullptr) {
        return invalid(describe(tensor), " is not in memory of ", board.name);
    }
    const std::size_t size = byte_size(tensor);
    HEDDLE_TRY(buffer->check_range(tensor, {0, size, 1, size, size}));
    if (gpu::has_elements_at(tensor, alignment_of(tensor.type))) return ok();
    return invalid(describe(tensor), " at ", tensor.data, " is not aligned to its elements");
}

/// Checks of the nodes of a graph, one after the other. What was accepted is known again: sources
/// are nodes before, and layers read the same inputs.
class GraphPlaces {
public:
    explicit GraphPlaces(const Board& board) : board_(board) {}

    Result<> check(const Tensor& node) {
        HEDDLE_TRY(check_tensor(node));
        for (const Tensor* source : node.src) {
            if (source != nullptr) HEDDLE_TRY(check_tensor(*source));
        }
        return ok();
    }

private:
    static constexpr std::size_t kPlaces = 1024;  ///< several times the tensors of a layer

    Result<> check_tensor(const Tensor& tensor) {
        constexpr std::size_t kTensors = 16;  // so many bytes at least are between two tensors
        const auto address = reinterpret_cast<std::uintptr_t>(&tensor) / kTensors;
        const Tensor*& accepted = accepted_[(address ^ address / kPlaces) % kPlaces];
        if (accepted == &tensor) return ok();
        HEDDLE_TRY(check_place(board_, tensor));
        accepted = &tensor;
        return ok();
    }

    const Board& board_;
    std::array<const Tensor*, kPlaces> accepted_{};  ///< by address; of several the latest stays
};

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

/// What the steps of a plan write.
class Written {
public:
    explicit Written(const std::vector<Step>& steps) {
        for (const Step& step : steps) {
            for (const Tensor* node : step.nodes()) nodes_.push_back(node);
        }
    }

    /// Whether no node writes what others may read before the nodes before them have finished.
    bool has_no_weights() const {
        return std::ranges::none_of(nodes_, [](const Tensor* node) { return is_weight(*node); });
    }

    /// Whether no node writes a byte of `tensor`. Layers ask for the same few tensors.
    bool is_apart_from(const Tensor& tensor) {
        const auto known = std::ranges::find(asked_, &tensor, &Answer::tensor);
        if (known != asked_.end()) return known->is_apart;
        const bool is_apart = std::ranges::none_of(
            nodes_, [&](const Tensor* node) { return overlap(tensor, *node); });
        asked_.push_back({&tensor, is_apart});
        return is_apart;
    }

private:
    struct Answer {
        const Tensor* tensor;
        bool is_apart;
    };
    std::vector<const Tensor*> nodes_;
    std::vector<Answer> asked_;
};

/// Whether all that the ends of a group read besides its products is there before the graph runs.
bool has_constant_inputs(const ColumnGroup& group, Written& written) {
    for (const RopeStore& end : group.ends) {
        for (const Tensor* node : {end.rope, end.store}) {
            if (node == nullptr) continue;
            for (std::size_t i = 1; i < std::size(node->src); ++i) {
                // Behind the indices of a SET_ROWS stands what it writes to.
                if (node->src[i] == nullptr || (node->op == GGML_OP_SET_ROWS && i > 1)) continue;
                if (!written.is_apart_from(*node->src[i])) return false;
            }
        }
    }
    return true;
}

bool has_constant_weights(const ColumnGroup& group) {
    for (int i = 0; i < group.count; ++i) {
        if (!is_weight(*group.products[static_cast<std::size_t>(i)]->src[0])) return false;
    }
    return group.norm == nullptr || is_weight(group.norm_weights());
}

void allow_reading_ahead(std::vector<Step>& steps) {
    Written written(steps);
    const bool are_constant = written.has_no_weights();
    for (Step& step : steps) {
        auto* group = std::get_if<ColumnGroup>(&step.work);
        if (group == nullptr) continue;
        step.reads_ahead = are_constant && has_constant_weights(*group);
        group->has_early_inputs = has_constant_inputs(*group, written);
    }
}

}  // namespace

const char* Step::name() const {
    return std::visit(Overloaded{[](const SingleNode& one) { return one.kernel->name; },
                                 [](const ColumnGroup&) { return "gemv_column"; },
                                 [](const RopeStoreGroup&) { return "rope_store"; },
                                 [](const ProductGroup& group) {
                                     // What reads its products is part of no key: see `add_to`.
                                     return group.gated != nullptr ? "product_group_gated"
                                                                   : "product_group";
                                 }},
                      work);
}

StepNodes Step::nodes() const {
    StepNodes nodes;
    std::visit(Overloaded{[&](const SingleNode& one) { nodes.add(one.node); },
                          [&](const ColumnGroup& group) {
                              nodes.add(group.norm);
                              nodes.add(group.scale);
                              for (const Tensor* product : group.products) nodes.add(product);
                              nodes.add(group.gate);
                              nodes.add(group.sum);
                              for (const RopeStore& end : group.ends) {
                                  nodes.add(end.rope);
                                  nodes.add(end.store);
                              }
                          },
                          [&](const RopeStoreGroup& group) {
                              for (const RopeStore& member : group.members) {
                                  nodes.add(member.rope);
                                  nodes.add(member.store);
                              }
                          },
                          [&](const ProductGroup& group) {
                              for (const Tensor* node : {group.norm, group.scale, group.glu}) {
                                  nodes.add(node);
                              }
                              for (const Tensor* product : group.products) nodes.add(product);
                              nodes.add(group.sum);
                          }},
               work);
    return nodes;
}

bool Step::is_wide(const DeviceFacts& device) const {
    const auto* one = std::get_if<SingleNode>(&work);
    if (one == nullptr) return std::holds_alternative<ColumnGroup>(work);
    return is_one_wave(*one->node, *one->kernel, device);
}

void Step::launch(const Launch& launch) const {
    std::visit(Overloaded{[&](const SingleNode& one) { one.kernel->launch(*one.node, launch); },
                          [&](const ColumnGroup& group) { launch_columns(group, launch); },
                          [&](const RopeStoreGroup& group) { launch_rope_store(group, launch); },
                          [&](const ProductGroup& group) { launch_group(group, launch); }},
               work);
}

std::string describe_node(const Tensor& node) {
    return text("node ", describe(node), ", ", describe_op_of(node));
}

Result<Plan> Plan::make(const Board& board, ggml_cgraph& graph, Memory memory) {
    HEDDLE_TRY(check_order(nodes_of(graph)));
    Plan plan;
    const int count = ggml_graph_n_nodes(&graph);
    plan.steps.reserve(static_cast<std::size_t>(std::max(count, 0)));
    GraphCheck soundness;
    GraphPlaces places(board);
    for (int i = 0; i < count; ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        const Kernel* kernel = soundness.check(node) ? choose_sound_kernel(node) : nullptr;
        if (kernel == nullptr) {
            Objections why;
            choose_kernel(node, &why);
            return failure(Errc::unsupported, describe_node(node), ": ", why.text_for(node));
        }
        if (memory == Memory::checked) {
            auto placed = places.check(node);
            if (!placed) return std::move(placed).error().within(describe_node(node));
        }
        if (kernel->scratch != nullptr) {
            plan.scratch = std::max(plan.scratch, kernel->scratch(node, board.facts));
        }
        plan.steps.push_back({SingleNode{kernel, &node}});
    }
    if (board.options.is_fusing) {
        fuse(plan.steps, graph, board.facts);
        fuse_products(plan.steps, graph, board.facts);
    }
    allow_reading_ahead(plan.steps);
    if (board.options.is_fusing) pass_columns(plan.steps);
    return plan;
}

}  // namespace heddle::cuda
