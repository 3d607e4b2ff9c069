#include "runtime/meta/states.hpp"

#include "core/log.hpp"
#include "ggml/op_list.h"
#include "heddle/backend/nodes.hpp"
#include "ops/catalogue.hpp"
#include "ops/view.hpp"
#include "runtime/buffer_type.hpp"
#include "runtime/meta/buffer.hpp"

namespace heddle::meta {
namespace {

/// Whether `tensor` is a view that computes nothing.
bool is_mere_view(const Tensor& tensor) {
    return tensor.view_src != nullptr && plugin::computes_nothing(tensor);
}

/// The dimension of `view` that is cut, if it shows its source the way views mostly do.
int likely_dim(const Tensor& view, const Split& source) {
    if (!source.is_cut()) return -1;
    const std::size_t dim = source.dim();
    if (view.op == GGML_OP_PERMUTE) return unpack<ops::Permute::Params>(view).axis[dim];
    if (view.op == GGML_OP_TRANSPOSE) return static_cast<int>(dim < 2 ? 1 - dim : dim);
    const Tensor* const from = view.src[0] != nullptr ? view.src[0] : view.view_src;
    return from->nb[dim] == view.nb[dim] ? static_cast<int>(dim) : -1;
}

/// A computed sum, or a view of one.
bool is_computed_sum(const Tensor& tensor, const Split& root_split) {
    const Tensor& root = is_mere_view(tensor) ? *tensor.view_src : tensor;
    return root_split.is_sum() && root.op != GGML_OP_NONE;
}

}  // namespace

/// Walks with a stack of its own: graphs are deeper than call stacks.
Result<Split> States::of(const Tensor& tensor) {
    std::vector<const Tensor*> waiting{&tensor};
    while (!waiting.empty()) {
        const Tensor& top = *waiting.back();
        if (!known_.contains(&top)) {
            HEDDLE_TRY_ASSIGN(const bool is_given, find_given(top));
            if (!is_given) {
                if (push_missing(top, waiting)) continue;
                HEDDLE_TRY_ASSIGN(Split split, evaluate(top));
                talk(top, split);
                known_[&top] = std::move(split);
            }
        }
        waiting.pop_back();
    }
    return known_.at(&tensor);
}

/// Whether the tensor lies in a way that does not follow from its sources; it is known then.
Result<bool> States::find_given(const Tensor& tensor) {
    const Tensor& root = tensor.view_src != nullptr ? *tensor.view_src : tensor;
    const bool is_leaf = tensor.view_src == nullptr && tensor.op == GGML_OP_NONE;
    if (root.buffer == nullptr) {
        if (is_leaf) known_[&tensor] = mirrored();
        return is_leaf;
    }
    JoinedDevice* const owner = joined(root.buffer->buft);
    if (owner == nullptr || !owner->is_over_same_devices(device_)) {
        known_[&tensor] = mirrored();
        return true;
    }
    if (tensor.view_src != nullptr) return false;
    if (JoinedBuffer* const buffer = joined(root.buffer)) {
        auto given = buffer->given_split(tensor);
        if (!given && !is_leaf) return false;
        known_[&tensor] = given ? *std::move(given) : mirrored();
        return true;
    }
    // A buffer of no bytes, which only asks what would be.
    if (!is_leaf) return false;
    HEDDLE_TRY_ASSIGN(known_[&tensor], owner->ask(tensor));
    return true;
}

/// Puts what `tensor` follows from on the stack; false if all of it is known.
bool States::push_missing(const Tensor& tensor, std::vector<const Tensor*>& waiting) const {
    const std::size_t before = waiting.size();
    const auto need = [&](const Tensor* other) {
        const bool is_other = other != nullptr && other != &tensor;
        if (is_other && !known_.contains(other)) waiting.push_back(other);
    };
    need(tensor.view_src);
    for (const Tensor* source : tensor.src) need(source);
    return waiting.size() > before;
}

Result<NodeSources> States::sources_of(const Tensor& node) {
    NodeSources sources;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const Tensor* const source = node.src[i];
        if (source == nullptr || source == &node) continue;  // casts are their own target
        HEDDLE_TRY_ASSIGN(Split split, of(*source));
        const Tensor& root = is_mere_view(*source) ? *source->view_src : *source;
        HEDDLE_TRY_ASSIGN(const Split root_split, of(root));
        const bool is_sum = is_computed_sum(*source, root_split);
        if (is_sum) split = mirrored();
        sources[i] = {source, std::move(split), is_sum};
    }
    return sources;
}

Result<Split> States::view_of(const Tensor& view) {
    const Tensor& root = *view.view_src;
    const Split& whole = known_.at(&root);
    if (!whole.is_cut()) return root.op != GGML_OP_NONE ? mirrored() : whole;
    const Tensor* const source = view.src[0];
    const int hint = likely_dim(view, source != nullptr ? known_.at(source) : whole);
    HEDDLE_TRY_ASSIGN(const CutView found, cut_view(root, whole, view, hint));
    return found.split;
}

Result<Split> States::evaluate(const Tensor& tensor) {
    Split place;
    if (tensor.view_src != nullptr) {
        auto found = view_of(tensor);
        if (!found) {
            return std::move(found).error().within(
                text("node ", heddle::describe(tensor), ", ", describe_op_of(tensor)));
        }
        place = *std::move(found);
        if (is_mere_view(tensor)) return place;
    }
    HEDDLE_TRY_ASSIGN(const NodeSources sources, sources_of(tensor));
    HEDDLE_TRY_ASSIGN(Split split, derive(tensor, sources, device_.size()));
    const bool fits =
        tensor.view_src == nullptr || split == place || (split.is_sum() && place.is_mirrored());
    if (fits) return split;
    return failure(
        Errc::unsupported, "node ", heddle::describe(tensor), ", ", describe_op_of(tensor),
        ": its result is ", meta::describe(split, device_.size()), ", its place in ",
        heddle::describe(*tensor.view_src), " is ", meta::describe(place, device_.size()));
}

void States::talk(const Tensor& tensor, const Split& split) {
    if (!device_.is_talkative()) return;
    log_line(GGML_LOG_LEVEL_INFO, device_.name(), ": ", heddle::describe(tensor), " = ",
             describe_op_of(tensor), ": ", meta::describe(split, device_.size()));
}

}  // namespace heddle::meta
