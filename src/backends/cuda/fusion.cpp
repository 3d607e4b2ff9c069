#include "backends/cuda/fusion.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "backends/cuda/rope_fusion.hpp"
#include "backends/cuda/step_list.hpp"
#include "backends/gpu/gather_products.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

/// The node of a step that is not fused yet and has this op; else null.
const Tensor* single(const Step& step, Op op) {
    const auto* one = std::get_if<SingleNode>(&step.work);
    return one != nullptr && one->node->op == op ? one->node : nullptr;
}

bool is_vector_of(const Tensor& tensor, std::int64_t length) {
    return tensor.type == GGML_TYPE_F32 && tensor.ne[0] == length && row_count(tensor) == 1 &&
           tensor.nb[0] == sizeof(float);
}

class Fuser {
public:
    Fuser(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device)
        : steps_(steps), graph_(graph), device_(device) {}

    void run() {
        for (at_ = 0; at_ < steps_.size(); ++at_) {
            if (!join_norm() && !join_gate() && !join_sum()) join_ropes();
        }
    }

private:
    /// Whether the node's result is read `count` times, by no other node, and need not be written.
    bool is_read_only_by(const Tensor& node, int count) const {
        return (node.flags & GGML_TENSOR_FLAG_OUTPUT) == 0 && use_count(graph_, node) == count;
    }

    bool is_column(const Tensor& product) const {
        return column_objection(product, device_).empty();
    }

    /// Whether step `from` could come before all steps behind `to`, `members` apart.
    bool may_move(std::size_t from, std::size_t to, std::span<const std::size_t> members) const {
        const Tensor& moved = *std::get<SingleNode>(steps_[from].work).node;
        for (std::size_t i = to; i < from; ++i) {
            if (std::ranges::find(members, i) != members.end()) continue;
            for (const Tensor* node : steps_[i].nodes()) {
                if (!are_apart(moved, *node)) return false;
            }
        }
        return true;
    }

    /// Whether a result is apart from positions and places in caches that all blocks read.
    static bool is_apart_from_inputs(const Tensor& result, const ColumnGroup& group) {
        for (const RopeStore& end : group.ends) {
            if (end.store != nullptr && overlap(result, *end.store->src[1])) return false;
            if (end.rope == nullptr) continue;
            if (overlap(result, *end.rope->src[1])) return false;
            if (end.rope->src[2] != nullptr && overlap(result, *end.rope->src[2])) return false;
        }
        return true;
    }

    /// Results of the group apart from what all its blocks read, and from each other; the sum may
    /// replace its addend.
    static bool is_safe(const ColumnGroup& group) {
        const int results = group.gate != nullptr ? 1 : group.count;
        for (int i = 0; i < results; ++i) {
            const Tensor& result = group.result(i);
            if (!group.has_end(i) && !is_vector_of(result, result.ne[0])) return false;
            if (!is_apart_from_inputs(result, group)) return false;
            if (overlap(result, group.activations())) return false;
            if (group.norm != nullptr && overlap(result, group.norm_weights())) return false;
            for (int k = 0; k < group.count; ++k) {
                if (overlap(result, *group.products[static_cast<std::size_t>(k)]->src[0])) {
                    return false;
                }
            }
            for (int k = 0; k < i; ++k) {
                if (overlap(result, group.result(k))) return false;
            }
            if (group.sum != nullptr && overlap(result, group.addend()) &&
                result.data != group.addend().data) {
                return false;
            }
        }
        return true;
    }

    /// Replaces the steps `members`, which are in order, by one at the place of the first product.
    template <class Group>
    void replace(std::size_t place, std::span<const std::size_t> members, const Group& group) {
        steps_[place].work = group;
        for (std::size_t i = members.size(); i-- > 0;) {
            if (members[i] == place) continue;
            steps_.take_out(members[i]);
            if (members[i] < place) --place;
        }
        at_ = place;
    }

    /// The GLU of the group's two products, if there is one.
    std::optional<std::size_t> find_gate(const ColumnGroup& group,
                                         std::span<const std::size_t> members) const {
        if (group.count != 2) return {};
        const Tensor &a = *group.products[0], &b = *group.products[1];
        if (!is_read_only_by(a, 1) || !is_read_only_by(b, 1)) return {};
        const std::size_t place = members[members.size() - 2], last = members.back();
        for (std::size_t i = last + 1; i < std::min(steps_.size(), last + gpu::kProductReach);
             ++i) {
            const Tensor* glu = single(steps_[i], GGML_OP_GLU);
            if (glu == nullptr) continue;
            if (glu->src[0] != &a && glu->src[0] != &b) continue;
            const bool fits = glu->src[1] != nullptr && glu->src[1] != glu->src[0] &&
                              (glu->src[1] == &a || glu->src[1] == &b) && same_shape(a, b) &&
                              glu->type == GGML_TYPE_F32 && may_move(i, place, members);
            if (fits) return i;
            return {};
        }
        return {};
    }

    /// Adds products of one type that read `x`, among the steps from `from` on, but for those
    /// `taken`.
    void find_products(const Tensor& x, std::size_t from, ColumnGroup& group,
                       std::vector<std::size_t>& members,
                       std::span<const std::size_t> taken = {}) const {
        std::size_t place = 0;
        for (std::size_t i = from; i < std::min(steps_.size(), from + gpu::kProductReach); ++i) {
            const Tensor* product = single(steps_[i], GGML_OP_MUL_MAT);
            if (product == nullptr || product->src[1] != &x || product->src[0] == &x) continue;
            if (!is_column(*product) || std::ranges::find(taken, i) != taken.end()) continue;
            if (group.count == 0) {
                place = i;
            } else if (product->src[0]->type != group.products[0]->src[0]->type ||
                       product->src[0]->ne[0] != group.products[0]->src[0]->ne[0] ||
                       !may_move(i, place, members)) {
                continue;
            }
            group.products[static_cast<std::size_t>(group.count++)] = product;
            members.push_back(i);
            if (group.count == static_cast<int>(group.products.size())) return;
        }
    }

    /// RMS_NORM, MUL, and all products of their result; perhaps their GLU.
    bool join_norm() {
        const Tensor* norm = single(steps_[at_], GGML_OP_RMS_NORM);
        if (norm == nullptr || at_ + 2 >= steps_.size()) return false;
        const Tensor* scale = single(steps_[at_ + 1], GGML_OP_MUL);
        if (scale == nullptr || !is_read_only_by(*norm, 1)) return false;
        if (scale->src[0] != norm && scale->src[1] != norm) return false;
        ColumnGroup group{.norm = norm, .scale = scale};
        const Tensor& weights = group.norm_weights();
        const std::int64_t length = norm->ne[0];
        if (!is_vector_of(*norm->src[0], length) || !is_vector_of(*scale, length) ||
            !is_vector_of(weights, length) || is_unaligned(*norm->src[0]) ||
            is_unaligned(weights)) {
            return false;
        }
        std::vector<std::size_t> members{at_, at_ + 1};
        find_products(*scale, at_ + 2, group, members);
        if (group.count == 0 || members[2] != at_ + 2) return false;
        // The norm is taken again by every launch: all readers must be such launches.
        if (!is_read_only_by(*scale, group.count)) return join_norm_and_other(group, members);
        if (const auto gate = find_gate(group, members)) {
            ColumnGroup gated = group;
            gated.gate = std::get<SingleNode>(steps_[*gate].work).node;
            if (gated.gate->src[0] != gated.products[0]) {
                std::swap(gated.products[0], gated.products[1]);
            }
            if (is_safe(gated)) {
                members.push_back(*gate);
                return replace(at_ + 2, members, gated), true;
            }
        }
        if (!is_safe(group)) return false;
        return replace(at_ + 2, members, group), true;
    }

    /// The same with one more product, of another type, which is a launch by itself.
    bool join_norm_and_other(const ColumnGroup& group, std::span<const std::size_t> members) {
        ColumnGroup other{.norm = group.norm, .scale = group.scale};
        std::vector<std::size_t> others;
        find_products(*group.scale, at_ + 2, other, others, members);
        if (other.count != 1 || !is_read_only_by(*group.scale, group.count + 1)) return false;
        if (!is_safe(group) || !is_safe(other)) return false;
        for (std::size_t i = at_ + 2; i < others[0]; ++i) {
            for (const Tensor* node : steps_[i].nodes()) {
                if (overlap(*node, group.activations()) || overlap(*node, group.norm_weights())) {
                    return false;
                }
            }
        }
        steps_[others[0]].work = other;
        return replace(at_ + 2, members, group), true;
    }

    static bool is_unaligned(const Tensor& tensor) {
        return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0;
    }

    /// Two matrix-vector products and their GLU.
    bool join_gate() {
        const Tensor* first = single(steps_[at_], GGML_OP_MUL_MAT);
        if (first == nullptr || !is_column(*first)) return false;
        ColumnGroup group;
        std::vector<std::size_t> members;
        find_products(*first->src[1], at_, group, members);
        if (group.count == 3) group.count = 2, members.pop_back();
        if (group.count != 2) return false;
        const auto gate = find_gate(group, members);
        if (!gate) return false;
        group.gate = std::get<SingleNode>(steps_[*gate].work).node;
        if (group.gate->src[0] != group.products[0]) {
            std::swap(group.products[0], group.products[1]);
        }
        if (!is_safe(group)) return false;
        members.push_back(*gate);
        return replace(at_, members, group), true;
    }

    /// A matrix-vector product, and a sum with something of its shape.
    bool join_sum() {
        const Tensor* product = single(steps_[at_], GGML_OP_MUL_MAT);
        if (product == nullptr || !is_column(*product)) return false;
        ColumnGroup group{.products = {product}, .count = 1};
        const Tensor* sum =
            at_ + 1 < steps_.size() ? single(steps_[at_ + 1], GGML_OP_ADD) : nullptr;
        if (sum != nullptr && is_read_only_by(*product, 1) && sum->src[0] != sum->src[1] &&
            (sum->src[0] == product || sum->src[1] == product)) {
            group.sum = sum;
            if (is_vector_of(group.addend(), product->ne[0]) && is_safe(group)) {
                const std::array members{at_, at_ + 1};
                return replace(at_, members, group), true;
            }
            group.sum = nullptr;
        }
        if (!is_safe(group)) return false;
        steps_[at_].work = group;
        return true;
    }

    /// ROPE and SET_ROWS one after the other.
    void join_ropes() {
        RopeStoreGroup group;
        std::vector<std::size_t> members;
        for (std::size_t i = at_; i < steps_.size(); ++i) {
            const Tensor* rope = single(steps_[i], GGML_OP_ROPE);
            const Tensor* store = single(steps_[i], GGML_OP_SET_ROWS);
            if (rope != nullptr ? !add_rope(*rope, group)
                                : store == nullptr || !add_store(*store, group)) {
                break;
            }
            members.push_back(i);
        }
        if (members.size() < 2) return;
        replace(at_, members, group);
        join_ends();
    }

    /// The product of the group that a ROPE or SET_ROWS reads all of, and nothing else does; -1:
    /// there is none.
    int product_of(const RopeStore& member, const ColumnGroup& group) const {
        const Tensor& rows = *(member.rope != nullptr ? member.rope : member.store)->src[0];
        for (int i = 0; i < group.count; ++i) {
            const Tensor& product = *group.products[static_cast<std::size_t>(i)];
            if (&rows != &product && rows.view_src != &product) continue;
            const bool is_whole = rows.data == product.data && is_contiguous(rows) &&
                                  element_count(rows) == element_count(product);
            const bool is_only = is_read_only_by(product, 1) && is_read_only_by(rows, 1);
            return is_whole && is_only && !group.has_end(i) ? i : -1;
        }
        return -1;
    }

    /// The products of a step before this one that ROPE or SET_ROWS may follow; else null.
    const ColumnGroup* products_before(std::size_t steps) const {
        if (at_ < steps) return nullptr;
        const auto* column = std::get_if<ColumnGroup>(&steps_[at_ - steps].work);
        const bool fits = column != nullptr && column->gate == nullptr && column->sum == nullptr;
        return fits ? column : nullptr;
    }

    /// Whether results of the group are apart from what the one after it touches. Both read
    /// the same activations.
    static bool may_follow(const ColumnGroup& later, const ColumnGroup& group) {
        for (int i = 0; i < group.count; ++i) {
            const Tensor& result = group.result(i);
            if (!is_apart_from_inputs(result, later)) return false;
            for (int k = 0; k < later.count; ++k) {
                const Tensor& product = *later.products[static_cast<std::size_t>(k)];
                if (overlap(result, later.result(k)) || overlap(result, *product.src[0])) {
                    return false;
                }
            }
        }
        return true;
    }

    bool add_end(const RopeStore& member, ColumnGroup& group) const {
        const int i = product_of(member, group);
        if (i < 0) return false;
        if (!end_objection(group, i, member, device_).empty()) return false;
        group.ends[static_cast<std::size_t>(i)] = member;
        return true;
    }

    /// ROPE and SET_ROWS of what the products right before them give, in one launch or two.
    void join_ends() {
        const ColumnGroup* const last = products_before(1);
        if (last == nullptr) return;
        const ColumnGroup* const first = last->norm != nullptr ? products_before(2) : nullptr;
        const bool are_two = first != nullptr && first->norm == last->norm;
        const auto& ropes = std::get<RopeStoreGroup>(steps_[at_].work);
        std::array joined{*last, are_two ? *first : ColumnGroup{}};
        for (int n = 0; n < ropes.count; ++n) {
            const RopeStore& member = ropes.members[static_cast<std::size_t>(n)];
            if (add_end(member, joined[0])) continue;
            if (!are_two || !add_end(member, joined[1])) return;
        }
        if (!is_safe(joined[0])) return;
        if (are_two && !(is_safe(joined[1]) && may_follow(joined[0], joined[1]))) return;
        if (are_two) steps_[at_ - 2].work = joined[1];
        const std::array members{at_ - 1, at_};
        replace(at_ - 1, members, joined[0]);
    }

    /// Joins the ROPE whose result it stores, or is a member of its own.
    bool add_store(const Tensor& store, RopeStoreGroup& group) const {
        if (!store_objection(store).empty()) return false;
        const Tensor& rows = *store.src[0];
        for (int i = 0; i < group.count; ++i) {
            RopeStore& member = group.members[static_cast<std::size_t>(i)];
            if (member.rope == nullptr || rows.view_src != member.rope) continue;
            const Tensor& rope = *member.rope;
            const bool is_whole = rows.data == rope.data && is_contiguous(rope) &&
                                  is_contiguous(rows) && rows.ne[0] == rope.ne[0] * rope.ne[1] &&
                                  rows.ne[1] == rope.ne[2] && member.store == nullptr;
            if (!is_whole || !is_read_only_by(rope, 1) || !is_read_only_by(rows, 1)) return false;
            if (!is_store_apart(store, group, i)) return false;
            member.store = &store;
            return true;
        }
        if (group.count == static_cast<int>(group.members.size()) || !is_apart(store, group)) {
            return false;
        }
        group.members[static_cast<std::size_t>(group.count++)] = {.store = &store};
        return true;
    }

    StepList steps_;
    const Graph& graph_;
    const DeviceFacts& device_;
    std::size_t at_ = 0;
};

}  // namespace

void fuse(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device) {
    if (graph.use_counts != nullptr) Fuser(steps, graph, device).run();
}

}  // namespace heddle::cuda
