#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "ops/check.hpp"

/// What every GPU backend needs and no device: searched and tested without one.
namespace heddle::gpu {

/// Kernels of a backend by op, best first. A row has `op` and `objection(node)`, the reason why it
/// declines a node; an empty reason means that it can.
template <class Row>
class KernelTable {
public:
    KernelTable(std::initializer_list<std::span<const Row>> families) {
        for (const std::span<const Row> family : families) {
            for (const Row& row : family) by_op_[static_cast<std::size_t>(row.op)].push_back(&row);
        }
    }

    /// Every row for `op`, in the order of the families.
    std::span<const Row* const> of(Op op) const {
        const auto number = static_cast<std::size_t>(op);
        if (number >= by_op_.size()) return {};
        return by_op_[number];
    }

    /// The row that runs `node`, or null and, in `*reason`, why the last one asked declined it.
    /// Rows see only nodes such as their op builds.
    const Row* choose(const Tensor& node, std::string_view* reason = nullptr) const {
        std::string_view why = "there is no kernel for this op";
        if (!check_node(node)) {
            if (reason != nullptr) *reason = kUnsoundNode;
            return nullptr;
        }
        for (const Row* row : of(node.op)) {
            why = row->objection(node);
            if (why.empty()) return row;
        }
        if (reason != nullptr) *reason = why;
        return nullptr;
    }

private:
    std::array<std::vector<const Row*>, GGML_OP_COUNT> by_op_;
};

}  // namespace heddle::gpu
