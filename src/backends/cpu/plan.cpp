#include "backends/cpu/plan.hpp"

#include <algorithm>

#include "backends/cpu/fusion.hpp"
#include "backends/cpu/repack/buffer_type.hpp"
#include "backends/cpu/topology.hpp"
#include "backends/host_memory_check.hpp"
#include "core/context.hpp"
#include "impl/view_ops.h"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/custom.hpp"
#include "ops/order_check.hpp"

namespace heddle::cpu {
namespace {

Error in_node(const Tensor& node, std::string_view reason) {
    return failure(Errc::unsupported, "node ", describe(node), ", ", describe_op_of(node), ": ",
                   reason);
}

Error declined(const Tensor& node) {
    Objections why;
    choose_kernel(node, &why);
    return in_node(node, why.text_for(node));
}

/// Looks at the memory of one node after the other. The nodes themselves have been checked.
class MemoryCheck {
public:
    /// False if there is something in the way of computing `node`; `explain` then says what.
    bool accepts(const Tensor& node) {
        if (!host_.is_readable(node)) return false;
        for (const Tensor* source : node.src) {
            if (source != nullptr && !is_readable(node, *source)) return false;
        }
        return true;
    }

    Error explain(const Tensor& node) {
        if (!host_.is_readable(node)) return in_node(node, host_.problem(node, "the result"));
        const Tensor* const* source = node.src;
        while (*source == nullptr || is_readable(node, **source)) ++source;
        return in_node(node, host_.problem(**source, "operand " + describe(**source)));
    }

private:
    /// Repacked weights are left to the kernels: choosing one tells whether there is one that reads
    /// them.
    bool is_readable(const Tensor& node, const Tensor& source) {
        return host_.is_readable(source) ||
               (&source == node.src[0] && source.data != nullptr && is_repacked(source));
    }

    HostMemoryCheck host_;
};

bool is_left_out(const Tensor& node) {
    return ggml_op_is_empty(node.op) || (node.flags & GGML_TENSOR_FLAG_COMPUTE) == 0;
}

}  // namespace

const Kernel* kernel_for(const Tensor& node, Objections* why) {
    if (check_node(node)) return choose_kernel(node, why);
    if (why != nullptr) why->add({}, kUnsoundNode);
    return nullptr;
}

Result<> make_plan(const Graph& graph, int threads, Memory memory, Plan& plan, Fusion fusion) {
    const int ordinary_threads = std::min(threads, usable_cpus());
    plan.steps.clear();
    plan.steps.reserve(static_cast<std::size_t>(graph.n_nodes));
    plan.scratch = 0;
    plan.tasks = 1;
    MemoryCheck in_memory;
    GraphCheck nodes;
    OrderCheck order(static_cast<std::size_t>(graph.n_nodes));
    for (int i = 0; i < graph.n_nodes; ++i) {
        Tensor* const node = graph.nodes[i];
        if (node == nullptr) return invalid("node ", i, " of the graph is NULL");
        if (is_left_out(*node)) continue;
        if (auto sound = nodes.check(*node); !sound) {
            return std::move(sound).error().within(text("node ", describe(*node)));
        }
        order.enter(*node);
        if (is_empty(*node)) {
            plan.steps.push_back({nullptr, node, 1});
            continue;
        }
        if (memory == Memory::checked && !in_memory.accepts(*node)) {
            return in_memory.explain(*node);
        }
        const Kernel* kernel = choose_kernel(*node);
        if (kernel == nullptr) return declined(*node);
        const int most = ops::runs_callers_function(node->op) ? threads : ordinary_threads;
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
    HEDDLE_TRY(order.finish(nodes_of(graph)));
    if (fusion != Fusion::off) fuse(plan, fusion == Fusion::always);
    return ok();
}

}  // namespace heddle::cpu
