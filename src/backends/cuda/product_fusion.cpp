#include "backends/cuda/product_fusion.hpp"

#include "backends/cuda/step_list.hpp"
#include "backends/gpu/tensor_ranges.hpp"
#include "ggml/op_list.h"

namespace heddle::cuda {
namespace {

using gpu::overlap;

/// Dense rows of F32 that 16 bytes at a time can be read of.
bool is_plain(const Tensor& tensor) {
    return tensor.type == GGML_TYPE_F32 && is_contiguous(tensor) &&
           reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
}

class ProductFuser {
public:
    ProductFuser(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device)
        : steps_(steps), graph_(graph), device_(device) {}

    void run() {
        for (at_ = 0; at_ < steps_.size(); ++at_) join();
    }

private:
    const SingleNode* single(std::size_t at) const {
        return at < steps_.size() ? std::get_if<SingleNode>(&steps_[at].work) : nullptr;
    }
    const Tensor* single(std::size_t at, Op op) const {
        const SingleNode* one = single(at);
        return one != nullptr && one->node->op == op ? one->node : nullptr;
    }

    /// Whether the node's result is read `count` times, by no other node, and need not be written.
    bool is_read_only_by(const Tensor& node, int count) const {
        return (node.flags & GGML_TENSOR_FLAG_OUTPUT) == 0 && use_count(graph_, node) == count;
    }

    /// A product that can be in a group; else null.
    const Tensor* product(std::size_t at) const {
        const SingleNode* one = single(at);
        if (one == nullptr || !can_be_grouped(*one->node, *one->kernel, device_)) return nullptr;
        return one->node;
    }

    void join() {
        const Tensor* first = product(at_);
        if (first == nullptr || first->src[1]->type != GGML_TYPE_F32) return;
        ProductGroup group{.products = {first}, .count = 1};
        while (group.count < static_cast<int>(group.products.size()) && joins(group)) {
            const Tensor* next = product(at_ + static_cast<std::size_t>(group.count));
            group.products[static_cast<std::size_t>(group.count++)] = next;
        }
        std::size_t begin = at_, end = at_ + static_cast<std::size_t>(group.count);
        if (join_norm(group))
            begin -= 2;
        else if (join_glu(group))
            begin -= 1;
        if (join_sum(group)) ++end;
        if (group.glu != nullptr && join_gated(begin, group)) --end;
        if (end - begin < 2 && !group.is_ready) return;
        steps_[begin].work = group;
        for (std::size_t i = begin + 1; i < end; ++i) steps_.take_out(begin + 1);
        at_ = begin;
    }

    /// Whether the next step is a product of the same activations, apart from the others' results.
    bool joins(const ProductGroup& group) const {
        const Tensor& first = *group.products[0];
        const Tensor* next = product(at_ + static_cast<std::size_t>(group.count));
        if (next == nullptr || next->src[1] != first.src[1]) return false;
        if (!can_be_together(first, *next)) return false;
        for (int i = 0; i < group.count; ++i) {
            const Tensor& other = *group.products[static_cast<std::size_t>(i)];
            if (overlap(*next, other) || overlap(*next->src[0], other)) return false;
        }
        return true;
    }

    /// RMS_NORM and MUL before products that alone read them.
    bool join_norm(ProductGroup& group) const {
        const Tensor& acts = *group.products[0]->src[1];
        const Tensor* scale = at_ < 2 ? nullptr : single(at_ - 1, GGML_OP_MUL);
        const Tensor* norm = at_ < 2 ? nullptr : single(at_ - 2, GGML_OP_RMS_NORM);
        if (scale != &acts || norm == nullptr || !is_read_only_by(acts, group.count)) return false;
        if ((scale->src[0] == norm) == (scale->src[1] == norm) || !is_read_only_by(*norm, 1))
            return false;
        const Tensor& weights = *scale->src[scale->src[0] == norm ? 1 : 0];
        if (!is_plain(*norm->src[0]) || !same_shape(*norm->src[0], acts)) return false;
        if (!is_plain(weights) || weights.ne[0] != acts.ne[0] || row_count(weights) != 1)
            return false;
        group.norm = norm;
        group.scale = scale;
        return true;
    }

    /// GLU of two tensors before products that alone read it.
    bool join_glu(ProductGroup& group) const {
        const Tensor& acts = *group.products[0]->src[1];
        const Tensor* glu = at_ < 1 ? nullptr : single(at_ - 1, GGML_OP_GLU);
        if (glu != &acts || glu->src[1] == nullptr || !is_read_only_by(acts, group.count))
            return false;
        if (!is_plain(*glu->src[0]) || !is_plain(*glu->src[1])) return false;
        group.glu = glu;
        return true;
    }

    /// The GLU at `begin`, before products that alone read it, goes to the group of its sources,
    /// which is the step before.
    bool join_gated(std::size_t begin, ProductGroup& group) {
        auto* const before =
            begin == 0 ? nullptr : std::get_if<ProductGroup>(&steps_[begin - 1].work);
        if (before == nullptr || before->count != 2 || before->gated != nullptr) return false;
        if (before->is_ready) return false;  // its own activations may lie in the GLU's memory
        const Tensor &glu = *group.glu, &next = *group.products[0];
        const Tensor &a = *before->products[0], &b = *before->products[1];
        const bool is_of_both =
            (glu.src[0] == &a && glu.src[1] == &b) || (glu.src[0] == &b && glu.src[1] == &a);
        if (!is_of_both || !is_read_only_by(a, 1) || !is_read_only_by(b, 1)) return false;
        // Its memory is read until the last tile is there.
        if (!is_plain(glu) || (group.sum != nullptr && overlap(glu, *group.sum))) return false;
        if (!can_be_gated(*before, glu, next, device_)) return false;
        before->gated = &glu;
        before->next = &next;
        group.is_ready = true;
        steps_.take_out(begin);
        return true;
    }

    /// The ADD of one product and something of its shape.
    bool join_sum(ProductGroup& group) const {
        const Tensor& first = *group.products[0];
        const Tensor* sum = single(at_ + 1, GGML_OP_ADD);
        if (group.count != 1 || sum == nullptr) return false;
        if ((sum->src[0] == &first) == (sum->src[1] == &first) || !is_read_only_by(first, 1))
            return false;
        const Tensor& addend = *sum->src[sum->src[0] == &first ? 1 : 0];
        if (!is_plain(addend) || !is_plain(*sum) || !same_shape(addend, *sum) ||
            !same_shape(first, *sum))
            return false;
        // Tiles are read and written in any order: the addend is where the sum is, or apart.
        if (addend.data != sum->data && overlap(addend, *sum)) return false;
        if (overlap(*first.src[0], *sum)) return false;
        group.sum = sum;
        return true;
    }

    StepList steps_;
    const Graph& graph_;
    const DeviceFacts& device_;
    std::size_t at_ = 0;
};

}  // namespace

void fuse_products(std::vector<Step>& steps, const Graph& graph, const DeviceFacts& device) {
    if (graph.use_counts != nullptr) ProductFuser(steps, graph, device).run();
}

}  // namespace heddle::cuda
