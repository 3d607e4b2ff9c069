#include "runtime/graph_copy.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "core/closure.hpp"
#include "runtime/alloc/context_allocator.hpp"
#include "runtime/placement.hpp"
#include "runtime/stream.hpp"
#include "runtime/transfer.hpp"

namespace heddle {
namespace {

Result<> check_has_data(const Closure& closure) {
    for (const Tensor* tensor : closure.tensors) {
        if (tensor->data != nullptr || is_empty(*tensor)) continue;
        return invalid("graph copy: ", describe(*tensor), " has no data");
    }
    return ok();
}

/// Copies a graph step by step.
class Copier {
public:
    Copier(const Graph& graph, const Closure& closure) : graph_(graph), closure_(closure) {}

    Result<GraphCopy> run(BufferType& type) {
        HEDDLE_TRY(make_contexts());
        HEDDLE_TRY(copy_tensors());
        wire_copies();
        HEDDLE_TRY(copy_nodes());
        HEDDLE_TRY_ASSIGN(copy_.buffer, allocate_context(*copy_.tensors, type));
        HEDDLE_TRY(copy_data());
        return std::move(copy_);
    }

private:
    Result<> make_contexts() {
        std::size_t views = 0;
        for (const Tensor* tensor : closure_.tensors) views += tensor->view_src != nullptr;
        const std::size_t owners = closure_.tensors.size() - views;
        const std::size_t graph_size =
            graph_overhead(static_cast<std::size_t>(graph_.n_nodes), false);
        HEDDLE_TRY_ASSIGN(copy_.tensors,
                          make_context(owners * kTensorOverhead + graph_size, nullptr, true));
        HEDDLE_TRY_ASSIGN(copy_.views, make_context(views * kTensorOverhead, nullptr, true));
        return ok();
    }

    Tensor* copy_of(const Tensor* tensor) const {
        return tensor == nullptr ? nullptr : copies_[closure_.index_of.at(tensor)];
    }

    Result<> copy_tensors() {
        copies_.reserve(closure_.tensors.size());
        for (const Tensor* tensor : closure_.tensors) {
            const bool is_view = tensor->view_src != nullptr;
            Context& context = *(is_view ? copy_.views : copy_.tensors);
            TensorSpec spec = TensorSpec::like(*tensor);
            spec.stride = strides_of(*tensor);
            HEDDLE_TRY_ASSIGN(Tensor* const copy, new_tensor(context, spec));
            copy->op = tensor->op;
            copy->flags = tensor->flags;
            std::memcpy(copy->op_params, tensor->op_params, sizeof copy->op_params);
            set_name(*copy, name_of(*tensor));
            copy->view_offs = tensor->view_offs;
            copies_.push_back(copy);
        }
        return ok();
    }

    /// When all are there: a node may be its own operand (CPY to a new tensor). How much memory a
    /// tensor needs may depend on its sources.
    void wire_copies() {
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            const Tensor& tensor = *closure_.tensors[i];
            for (int k = 0; k < kMaxSources; ++k) copies_[i]->src[k] = copy_of(tensor.src[k]);
            copies_[i]->view_src = copy_of(tensor.view_src);
        }
    }

    Result<> copy_nodes() {
        HEDDLE_TRY_ASSIGN(copy_.graph, new_graph(*copy_.tensors,
                                                 static_cast<std::size_t>(graph_.n_nodes), false));
        for (const Tensor* node : nodes_of(graph_)) {
            HEDDLE_TRY(append_node(*copy_.graph, *copy_of(node)));
        }
        return ok();
    }

    Result<> copy_data() {
        for (std::size_t i = 0; i < copies_.size(); ++i) {
            Tensor& copy = *copies_[i];
            if (copy.view_src == nullptr) {
                if (!is_empty(copy)) HEDDLE_TRY(copy_contents(*closure_.tensors[i], copy));
            } else if (copy.view_src->data != nullptr) {  // else a view of an empty tensor
                HEDDLE_TRY(place_view(copy));
            }
        }
        return ok();
    }

    /// Tensors in a context are in no buffer; their data are where they point to.
    static Result<> copy_contents(const Tensor& from, Tensor& to) {
        if (from.buffer != nullptr) return copy_tensor(from, to);
        return write_tensor(to, from.data, 0, byte_size(from));
    }

    const Graph& graph_;
    const Closure& closure_;
    std::vector<Tensor*> copies_;  ///< in the order of the closure
    GraphCopy copy_;
};

}  // namespace

Result<GraphCopy> copy_graph_to(Stream& stream, const Graph& graph) {
    HEDDLE_TRY_ASSIGN(BufferType* const type, default_buffer_type(stream));
    // Leafs that no node needs are not copied; they may have no data.
    HEDDLE_TRY_ASSIGN(const Closure closure, closure_of(slice(graph, 0, graph.n_nodes)));
    HEDDLE_TRY(check_has_data(closure));
    return Copier(graph, closure).run(*type);
}

}  // namespace heddle
