#include "backends/cpu/plan.hpp"

#include <algorithm>
#include <array>

#include "backends/cpu/fusion.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "backends/cpu/topology.hpp"
#include "core/context.hpp"
#include "ggml-backend.h"
#include "ops/catalogue.hpp"

namespace heddle::cpu {
namespace {

bool is_callers_function(Op op) {
    return op == GGML_OP_MAP_CUSTOM1 || op == GGML_OP_MAP_CUSTOM2 || op == GGML_OP_MAP_CUSTOM3 ||
           op == GGML_OP_CUSTOM;
}

/// Bit i: operand i must be there. Kernels rely on it.
std::array<std::uint16_t, GGML_OP_COUNT> required_operands() {
    std::array<std::uint16_t, GGML_OP_COUNT> masks{};
    for (const OpInfo& op : all_ops()) {
        for (std::size_t slot = 0; slot < op.sources.size(); ++slot) {
            const std::string_view name = op.sources[slot];
            if (!name.ends_with('?')) masks[op.id] |= static_cast<std::uint16_t>(1u << slot);
        }
    }
    return masks;
}

Error in_node(const Tensor& node, std::string_view reason) {
    return failure(Errc::unsupported, "node ", describe(node), ", ", describe_op_of(node), ": ",
                   reason);
}

/// Looks at the operands of one node after the other.
class OperandCheck {
public:
    OperandCheck(Memory memory) : checks_memory_(memory == Memory::checked) {}

    /// False if something is wrong; `explain` then says what.
    bool accepts(const Tensor& node) {
        if (!has_required_operands(node)) return false;
        if (!checks_memory_) return true;
        if (!is_readable(node)) return false;
        for (const Tensor* source : node.src) {
            if (source != nullptr && !is_readable(*source) && !is_for_kernel(node, *source)) {
                return false;
            }
        }
        return true;
    }

    Error explain(const Tensor& node) {
        if (static_cast<unsigned>(node.op) >= GGML_OP_COUNT) {
            return in_node(node, text("there is no op ", static_cast<int>(node.op)));
        }
        if (checks_memory_ && !is_readable(node)) return in_node(node, problem(node, "the result"));
        for (const Tensor* source : node.src) {
            if (checks_memory_ && source != nullptr && !is_readable(*source) &&
                !is_for_kernel(node, *source)) {
                return in_node(node, problem(*source, "operand " + describe(*source)));
            }
        }
        return in_node(node, "an operand is missing");
    }

private:
    bool is_readable(const Tensor& tensor) {
        // Without a buffer it lies in a context, which is host memory. Graphs use few buffers, and
        // neighbours mostly the same.
        if (tensor.buffer != nullptr && tensor.buffer != known_host_) {
            if (!ggml_backend_buffer_is_host(tensor.buffer)) return is_empty(tensor);
            known_host_ = tensor.buffer;
        }
        return tensor.data != nullptr || is_empty(tensor);
    }

    /// Repacked weights: choosing a kernel tells whether there is one that reads them.
    static bool is_for_kernel(const Tensor& node, const Tensor& source) {
        return &source == node.src[0] && source.data != nullptr && is_repacked(source);
    }

    static std::string problem(const Tensor& tensor, std::string_view what) {
        if (tensor.data == nullptr) return text(what, " has no memory");
        return text(what, " is in memory of type ", ggml_backend_buffer_name(tensor.buffer),
                    ", which the processor cannot read");
    }

    const bool checks_memory_;
    ggml_backend_buffer* known_host_ = nullptr;  ///< no buffer at all: ordinary memory of a context
};

bool is_left_out(const Tensor& node) {
    return ggml_op_is_empty(node.op) || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0;
}

}  // namespace

bool has_required_operands(const Tensor& node) {
    static const std::array<std::uint16_t, GGML_OP_COUNT> required = required_operands();
    if (static_cast<unsigned>(node.op) >= GGML_OP_COUNT) return false;
    unsigned slot = 0;
    for (unsigned wanted = required[node.op]; wanted != 0; wanted >>= 1, ++slot) {
        if ((wanted & 1) != 0 && node.src[slot] == nullptr) return false;
    }
    return true;
}

const Kernel* kernel_for(const Tensor& node, std::string_view* reason) {
    if (has_required_operands(node)) return choose_kernel(node, reason);
    *reason = "an operand is missing";
    return nullptr;
}

Result<> make_plan(const Graph& graph, int threads, Memory memory, Plan& plan, Fusion fusion) {
    const int ordinary_threads = std::min(threads, usable_cpus());
    plan.steps.clear();
    plan.steps.reserve(static_cast<std::size_t>(graph.n_nodes));
    plan.scratch = 0;
    plan.tasks = 1;
    OperandCheck operands(memory);
    for (Tensor* node : nodes_of(graph)) {
        if (is_left_out(*node)) continue;
        if (is_empty(*node)) {
            plan.steps.push_back({nullptr, node, 1});
            continue;
        }
        if (!operands.accepts(*node)) return operands.explain(*node);
        std::string_view reason;
        const Kernel* kernel = choose_kernel(*node, &reason);
        if (kernel == nullptr) return in_node(*node, reason);
        const int most = is_callers_function(node->op) ? threads : ordinary_threads;
        Demand demand;
        if (kernel->demand != nullptr) {
            demand = kernel->demand(*node, most);
        } else if (most > 1) {
            demand = rows_demand(*node, most);
        }
        const int tasks = std::clamp(demand.tasks, 1, most);
        plan.steps.push_back({kernel, node, tasks, demand.scratch});
        plan.tasks = std::max(plan.tasks, tasks);
        plan.scratch = std::max(plan.scratch, demand.scratch);
    }
    if (fusion != Fusion::off) fuse(plan, fusion == Fusion::always);
    return ok();
}

}  // namespace heddle::cpu
