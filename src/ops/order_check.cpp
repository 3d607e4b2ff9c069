#include "ops/order_check.hpp"

#include <algorithm>
#include <bit>

#include "ggml-impl.h"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"

namespace heddle {

Error read_too_early(const Tensor& node, std::int64_t at, const Tensor& read,
                     std::int64_t read_at) {
    if (&read == &node) return invalid("node ", describe(node), " reads its own result");
    return invalid("node ", describe(node), ", number ", at, ", reads the result of ",
                   describe(read), ", which is computed later, as number ", read_at);
}

OrderCheck::OrderCheck(std::size_t most_nodes) {
    const std::size_t size = std::max(std::bit_ceil(2 * most_nodes), kFew);
    if (size > kFew) many_.resize(size);
    slots_ = size > kFew ? std::span(many_) : std::span(few_);
    shift_ = 64 - std::countr_zero(size);
}

std::size_t OrderCheck::probe(const Tensor* tensor) const {
    constexpr std::uint64_t kGoldenRatio = 0x9E37'79B9'7F4A'7C15;
    std::size_t slot = (reinterpret_cast<std::uintptr_t>(tensor) * kGoldenRatio) >> shift_;
    while (slots_[slot] != nullptr && slots_[slot] != tensor) {
        slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
}

void OrderCheck::look_up(const Tensor& node, std::size_t slot, const Tensor* read) {
    if (read == last_ || ggml_op_is_empty(read->op)) return;
    if (is_known(read) || (read == &node && may_be_itself(node.op, slot))) return;
    missing_.push_back({&node, read});
}

void OrderCheck::enter(const Tensor& node) {
    const std::size_t operands = find_op(node.op)->sources.size();
    for (std::size_t slot = 0; slot < operands; ++slot) {
        const Tensor* const source = node.src[slot];
        if (source == nullptr) continue;
        look_up(node, slot, source);
        if (source->view_src != nullptr) look_up(node, slot, source->view_src);
    }
    slots_[probe(&node)] = &node;
    last_ = &node;
}

Result<> OrderCheck::finish(std::span<Tensor* const> list) const {
    for (const Missing& missing : missing_) {
        if (!is_known(missing.read)) continue;
        const auto number = [&](const Tensor* tensor) {
            return std::ranges::find(list, tensor) - list.begin();
        };
        return read_too_early(*missing.node, number(missing.node), *missing.read,
                              number(missing.read));
    }
    return ok();
}

Result<> check_order(std::span<Tensor* const> nodes) {
    OrderCheck order(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const Tensor* const node = nodes[i];
        if (node == nullptr) return invalid("node ", i, " of the graph is NULL");
        if (ggml_op_is_empty(node->op) || (node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) continue;
        // Others say what is wrong with an op that there is not.
        if (find_op(node->op) != nullptr) order.enter(*node);
    }
    return order.finish(nodes);
}

}  // namespace heddle
