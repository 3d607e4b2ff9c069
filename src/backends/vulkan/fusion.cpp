#include "backends/vulkan/fusion.hpp"

#include <algorithm>

#include "backends/gpu/gather_products.hpp"
#include "backends/gpu/tensor_ranges.hpp"
#include "ggml/op_list.h"

namespace heddle::vulkan {
namespace {

// ---- memory ------------------------------------------------------------------------------------

using gpu::are_apart, gpu::overlap;

bool has_same_place(const Tensor& a, const Tensor& b) {
    return a.data == b.data && std::equal(std::begin(a.nb), std::end(a.nb), std::begin(b.nb));
}

bool is_vector(const Tensor& tensor, std::int64_t length) {
    return tensor.type == GGML_TYPE_F32 && tensor.ne[0] == length && row_count(tensor) == 1 &&
           tensor.nb[0] == sizeof(float);
}

bool is_aligned_vector(const Tensor& tensor, std::int64_t length) {
    return is_vector(tensor, length) && reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
}

// ---- what fits together ------------------------------------------------------------------------

bool is_scaled_norm(const ScaledNorm& pair) {
    const Tensor &norm = *pair.norm, &product = *pair.product;
    if (product.src[0] != &norm && product.src[1] != &norm) return false;
    const Tensor &x = *norm.src[0], &factor = pair.weights();
    if (&factor == &norm || factor.type != GGML_TYPE_F32 || product.type != GGML_TYPE_F32) {
        return false;
    }
    if (!same_shape(product, norm)) return false;
    // Each element is read before it is written, if they lie in the same place.
    if (overlap(product, x) && !has_same_place(product, x)) return false;
    return !overlap(product, factor);
}

/// Rows of the store are the heads of a token side by side, all of them and in their order.
bool is_rope_store(const RopeStore& pair) {
    const Tensor &rope = *pair.rope, &store = *pair.store, &rows = *store.src[0];
    if (&rows != &rope && rows.view_src != &rope) return false;
    if (rope.type != GGML_TYPE_F32 || block_size(store.type) > 1 || rope.ne[3] != 1) return false;
    if (rows.data != rope.data || !is_contiguous(rope) || !is_contiguous(rows)) return false;
    if (rows.ne[0] != rope.ne[0] * rope.ne[1] || rows.ne[1] != rope.ne[2]) return false;
    if (rows.ne[2] != 1 || rows.ne[3] != 1) return false;
    return std::ranges::none_of(rope.src, [&](const Tensor* source) {
        return source != nullptr && overlap(*source, store);
    });
}

/// Results are apart from what all workgroups read, and from each other. A sum may take the place
/// of its addend.
bool is_safe(const ColumnGroup& group) {
    const StepNodes results = Step{nullptr, group}.results();
    for (const Tensor* result : results) {
        if (!is_vector(*result, result->ne[0]) || overlap(*result, group.activations())) {
            return false;
        }
        if (group.norm != nullptr &&
            overlap(*result, ScaledNorm{group.norm, group.scale}.weights())) {
            return false;
        }
        for (int i = 0; i < group.count; ++i) {
            if (overlap(*result, *group.products[static_cast<std::size_t>(i)]->src[0])) {
                return false;
            }
        }
        for (const Tensor* other : results) {
            if (other != result && overlap(*result, *other)) return false;
        }
    }
    if (group.sum == nullptr) return true;
    return !overlap(*group.sum, group.addend()) || group.sum->data == group.addend().data;
}

// ---- steps -------------------------------------------------------------------------------------

/// The node of a step that is not fused yet and has this op; else null.
const Tensor* single(const Step& step, Op op) {
    const Tensor* node = step.single();
    return node != nullptr && node->op == op ? node : nullptr;
}

class Fuser {
public:
    Fuser(std::vector<Step>& steps, const Graph& graph) : steps_(steps), graph_(graph) {}

    void run() {
        for (at_ = 0; at_ < steps_.size(); ++at_) {
            if (!join_norm() && !join_gate() && !join_sum()) join_rope();
        }
    }

private:
    using Members = std::vector<std::size_t>;  ///< steps, in order

    /// Whether the node's result is read `count` times, by no other node, and need not be written.
    bool is_read_only_by(const Tensor& node, int count) const {
        return (node.flags & GGML_TENSOR_FLAG_OUTPUT) == 0 && use_count(graph_, node) == count;
    }

    /// Whether step `from` could come before all steps behind `to`, `members` apart.
    bool may_move(std::size_t from, std::size_t to, const Members& members) const {
        for (std::size_t i = to; i < from; ++i) {
            if (std::ranges::find(members, i) != members.end()) continue;
            for (const Tensor* node : steps_[i].nodes()) {
                if (!are_apart(*steps_[from].single(), *node)) return false;
            }
        }
        return true;
    }

    /// Replaces the members by one step at the place of the first.
    template <class Work>
    bool replace(const Members& members, const Kernel* kernel, const Work& work) {
        steps_[members.front()] = {kernel, work};
        for (std::size_t i = members.size(); i-- > 1;) {
            steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(members[i]));
        }
        return true;
    }

    const Tensor* product_at(std::size_t i) const {
        const Tensor* product = single(steps_[i], GGML_OP_MUL_MAT);
        return product != nullptr && is_column_kernel(steps_[i].kernel) ? product : nullptr;
    }

    /// Adds products of `x` with weights of one type, among the steps from `from` on.
    void find_products(const Tensor& x, std::size_t from, ColumnGroup& group,
                       Members& members) const {
        for (std::size_t i = from; i < std::min(steps_.size(), from + gpu::kProductReach); ++i) {
            const Tensor* product = product_at(i);
            if (product == nullptr || product->src[1] != &x) continue;
            if (group.count == static_cast<int>(group.products.size())) return;
            const bool fits =
                group.count == 0 || product->src[0]->type == group.first().src[0]->type;
            if (!fits || !may_move(i, from, members)) continue;
            group.products[static_cast<std::size_t>(group.count++)] = product;
            members.push_back(i);
        }
    }

    /// The GLU of the group's two products, if there is one.
    bool find_gate(ColumnGroup& group, Members& members) const {
        if (group.count != 2) return false;
        const Tensor *a = group.products[0], *b = group.products[1];
        if (!is_read_only_by(*a, 1) || !is_read_only_by(*b, 1) || !same_shape(*a, *b)) return false;
        // The shader goes through both matrices with one stride.
        if (a->src[0]->nb[1] != b->src[0]->nb[1]) return false;
        const std::size_t end = std::min(steps_.size(), members.back() + gpu::kProductReach);
        for (std::size_t i = members.back() + 1; i < end; ++i) {
            const Tensor* glu = single(steps_[i], GGML_OP_GLU);
            if (glu == nullptr || (glu->src[0] != a && glu->src[0] != b)) continue;
            if (glu->src[1] != (glu->src[0] == a ? b : a) || glu->type != GGML_TYPE_F32) break;
            if (!may_move(i, members.front(), members)) break;
            group.gate = glu;
            group.products = {glu->src[0], glu->src[1]};
            members.push_back(i);
            return true;
        }
        return false;
    }

    /// RMS_NORM and MUL, with all products of their result and perhaps their GLU.
    bool join_norm() {
        const Tensor* norm = single(steps_[at_], GGML_OP_RMS_NORM);
        if (norm == nullptr || at_ + 1 >= steps_.size()) return false;
        const Tensor* scale = single(steps_[at_ + 1], GGML_OP_MUL);
        if (scale == nullptr || !is_read_only_by(*norm, 1)) return false;
        const ScaledNorm pair{norm, scale};
        if (!is_scaled_norm(pair)) return false;
        return join_normed_products(pair) || replace({at_, at_ + 1}, steps_[at_].kernel, pair);
    }

    /// Every workgroup takes the norm again, so all readers of it must be in the group.
    bool join_normed_products(const ScaledNorm& pair) {
        const std::int64_t length = pair.norm->ne[0];
        if (!is_aligned_vector(*pair.norm->src[0], length) || !is_vector(*pair.product, length) ||
            !is_aligned_vector(pair.weights(), length)) {
            return false;
        }
        ColumnGroup group{.norm = pair.norm, .scale = pair.product};
        Members members{at_, at_ + 1};
        find_products(*pair.product, at_ + 2, group, members);
        if (group.count == 0 || !is_read_only_by(*pair.product, group.count)) return false;
        const Kernel* const kernel = steps_[members[2]].kernel;
        ColumnGroup gated = group;
        Members with_gate = members;
        if (find_gate(gated, with_gate) && is_safe(gated)) return replace(with_gate, kernel, gated);
        return is_safe(group) && replace(members, kernel, group);
    }

    /// Two products of a column and their GLU.
    bool join_gate() {
        const Tensor* first = product_at(at_);
        if (first == nullptr) return false;
        ColumnGroup group;
        Members members;
        find_products(*first->src[1], at_, group, members);
        if (group.count > 2) group.products[2] = nullptr, group.count = 2, members.pop_back();
        if (!find_gate(group, members) || !is_safe(group)) return false;
        return replace(members, steps_[at_].kernel, group);
    }

    /// A product and a sum with something of its shape.
    bool join_sum() {
        const Tensor* product = product_at(at_);
        if (product == nullptr || at_ + 1 >= steps_.size()) return false;
        const Tensor* sum = single(steps_[at_ + 1], GGML_OP_ADD);
        if (sum == nullptr || !is_read_only_by(*product, 1) || sum->src[0] == sum->src[1]) {
            return false;
        }
        if (sum->src[0] != product && sum->src[1] != product) return false;
        const ColumnGroup group{.products = {product}, .count = 1, .sum = sum};
        if (!is_vector(group.addend(), product->ne[0]) || !is_safe(group)) return false;
        return replace({at_, at_ + 1}, steps_[at_].kernel, group);
    }

    bool join_rope() {
        const Tensor* rope = single(steps_[at_], GGML_OP_ROPE);
        if (rope == nullptr || at_ + 1 >= steps_.size()) return false;
        const Tensor* store = single(steps_[at_ + 1], GGML_OP_SET_ROWS);
        if (store == nullptr || !is_read_only_by(*rope, 1)) return false;
        const Tensor& rows = *store->src[0];
        if (&rows != rope && !is_read_only_by(rows, 1)) return false;
        const RopeStore pair{rope, store};
        return is_rope_store(pair) && replace({at_, at_ + 1}, steps_[at_].kernel, pair);
    }

    std::vector<Step>& steps_;
    const Graph& graph_;
    std::size_t at_ = 0;
};

}  // namespace

void fuse(std::vector<Step>& steps, const Graph& graph) {
    if (graph.use_counts != nullptr) Fuser(steps, graph).run();
}

}  // namespace heddle::vulkan
