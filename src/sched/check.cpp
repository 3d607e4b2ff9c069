#include "sched/check.hpp"

#include "core/prefetch.hpp"
#include "ops/check.hpp"
#include "ops/order_check.hpp"

namespace heddle::sched {
namespace {

/// What a node changes when its turn comes: itself. Views and plain tensors only say where memory
/// is.
bool is_computed(const GraphIndex& index, TensorId id) {
    return index.is_node(id) && !index.is_view(id) && index.facts(id).op != kNoOp;
}

/// The tensor that `node` reads from source `source` although it has no value yet, or kNoTensor.
TensorId find_too_early(const GraphIndex& index, TensorId node, const GraphIndex::Source& source) {
    for (const TensorId read : {source.tensor, index.root(source.tensor)}) {
        if (read < node || !is_computed(index, read)) continue;
        if (read == node && may_be_itself(index.facts(node).op, source.slot)) continue;
        return read;
    }
    return kNoTensor;
}

}  // namespace

Result<> check_graph(const GraphIndex& index) {
    const auto nodes = static_cast<TensorId>(index.nodes().size());
    GraphCheck graph;
    for (TensorId node = 0; node < nodes && index.is_node(node); ++node) {
        if (const TensorId soon = node + static_cast<TensorId>(kReadAhead); soon < nodes) {
            prefetch(&index[soon]);
        }
        if (auto sound = graph.check(index[node]); !sound) {
            return std::move(sound).error().within(text("node ", describe(index[node])));
        }
        if (!is_computed(index, node)) continue;
        for (const GraphIndex::Source& source : index.sources(node)) {
            const TensorId read = find_too_early(index, node, source);
            if (read != kNoTensor) return read_too_early(index[node], node, index[read], read);
        }
    }
    return ok();
}

}  // namespace heddle::sched
