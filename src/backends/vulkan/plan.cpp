#include "backends/vulkan/plan.hpp"

#include <algorithm>

#include "backends/gpu/tensor_ranges.hpp"
#include "backends/vulkan/fusion.hpp"
#include "core/graph.hpp"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/order_check.hpp"

namespace heddle::vulkan {
namespace {

std::string describe_node(const Tensor& node) {
    return text("node ", describe(node), ", ", describe_op_of(node));
}

/// Bytes that addresses of elements must be a multiple of.
std::size_t alignment_of(Type type) {
    if (type == GGML_TYPE_MXFP4) return 1;
    if (block_size(type) > 1) return size_of(type) % 4 == 0 ? 4 : 2;
    return size_of(type);
}

Result<> check_place(const Site& site, const Tensor& tensor) {
    if (heddle::is_empty(tensor)) return ok();
    const VulkanBuffer* buffer = buffer_of(tensor);
    if (buffer == nullptr || &buffer->site() != &site || tensor.data == nullptr) {
        return invalid(describe(tensor), " is not in memory of ", site.board().name);
    }
    HEDDLE_TRY(buffer->position(tensor, 0, byte_size(tensor)));
    if (gpu::has_elements_at(tensor, alignment_of(tensor.type))) return ok();
    return invalid(describe(tensor), " at ", tensor.data, " is not aligned to its elements");
}

Result<> check_places(const Site& site, const Tensor& node) {
    HEDDLE_TRY(check_place(site, node));
    for (const Tensor* source : node.src) {
        if (source != nullptr) HEDDLE_TRY(check_place(site, *source));
    }
    return ok();
}

std::string describe_operand(const Tensor& tensor) {
    std::string words = text(' ', ggml_type_name(tensor.type), ' ', tensor.ne[0]);
    for (int d = 1; d < ggml_n_dims(&tensor); ++d) words += text('x', tensor.ne[d]);
    return words;
}

/// The kernel and its operands: nodes of the same words take the same time.
std::string describe_step(const Step& step) {
    std::string words = text(step.name(), ':');
    for (const Tensor* node : step.nodes()) {
        words += text(' ', describe_op_of(*node));
        for (const Tensor* source : node->src) {
            if (source != nullptr) words += describe_operand(*source);
        }
    }
    return words;
}

/// What a step reads and writes. Results between its nodes are neither.
void add_ranges(const Step& step, std::vector<gpu::Range>& reads, std::vector<gpu::Range>& writes) {
    reads.clear();
    writes.clear();
    const StepNodes nodes = step.nodes(), results = step.results();
    for (const Tensor* result : results) writes.push_back(gpu::range_of(*result));
    for (const Tensor* node : nodes) {
        for (const Tensor* source : node->src) {
            if (source == nullptr || source->data == nullptr) continue;
            if (nodes.contain(source) || nodes.contain(source->view_src)) continue;
            const bool is_written = step.single() != nullptr && step.kernel->writes_operands;
            (is_written ? writes : reads).push_back(gpu::range_of(*source));
        }
    }
}

}  // namespace

Result<Plan> Plan::make(const Site& site, ggml_cgraph& graph) {
    HEDDLE_TRY(check_order(nodes_of(graph)));
    Plan plan;
    const DeviceFacts& device = site.board().facts;
    const int count = ggml_graph_n_nodes(&graph);
    plan.steps.reserve(static_cast<std::size_t>(std::max(count, 0)));
    for (int i = 0; i < count; ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        const Kernel* kernel = choose_kernel(node, device);
        if (kernel == nullptr) {
            Objections why;
            choose_kernel(node, device, &why);
            return failure(Errc::unsupported, describe_node(node), ": ", why.text_for(node));
        }
        if (auto placed = check_places(site, node); !placed) {
            return std::move(placed).error().within(describe_node(node));
        }
        if (kernel->scratch != nullptr) {
            plan.scratch = std::max(plan.scratch, kernel->scratch(node, device));
        }
        plan.steps.push_back({kernel, &node});
    }
    if (site.board().options.is_fusing) fuse(plan.steps, graph);
    return plan;
}

void Plan::record(Recorder& recorder, bool is_timed) const {
    gpu::Hazards hazards;
    std::vector<gpu::Range> reads, writes;
    for (const Step& step : steps) {
        add_ranges(step, reads, writes);
        if (step.kernel->scratch != nullptr && step.single() != nullptr) {
            writes.push_back({recorder.scratch(), recorder.scratch() + scratch});
        }
        if (hazards.add(reads, writes)) recorder.barrier();
        if (is_timed) recorder.mark(describe_step(step));
        step.record(recorder);
    }
}

gpu::ReplayKey Plan::key() const {
    gpu::ReplayKey key;
    for (const Step& step : steps) {
        const bool is_single = step.single() != nullptr;
        const void* const how = is_single ? static_cast<const void*>(step.kernel) : step.name();
        for (const Tensor* node : step.nodes()) key.add(how, *node);
    }
    return key;
}

std::size_t scratch_of(const DeviceFacts& device, ggml_cgraph& graph) {
    std::size_t most = 0;
    for (int i = 0; i < ggml_graph_n_nodes(&graph); ++i) {
        const Tensor& node = *ggml_graph_node(&graph, i);
        if (!plugin::wants_computing(node)) continue;
        const Kernel* const kernel = choose_kernel(node, device);
        if (kernel == nullptr || kernel->scratch == nullptr) continue;
        most = std::max(most, kernel->scratch(node, device));
    }
    return most;
}

}  // namespace heddle::vulkan
