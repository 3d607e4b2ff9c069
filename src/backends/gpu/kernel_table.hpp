#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "ops/catalogue.hpp"
#include "ops/check.hpp"
#include "ops/objections.hpp"

/// What every GPU backend needs and no device: searched and tested without one.
namespace heddle::gpu {

/// Whether every operand is there that is not optional; kernels need not ask then.
inline bool has_operands(const Tensor& node) {
    const OpInfo* const info = find_op(node.op);
    if (info == nullptr) return false;
    for (std::size_t slot = 0; slot < info->sources.size(); ++slot) {
        const bool is_optional = std::string_view(info->sources[slot]).ends_with('?');
        if (!is_optional && node.src[slot] == nullptr) return false;
    }
    return true;
}

/// Kernels of a backend by op, best first. A row has `op` and `objection(node)`, the reason why it
/// declines a node; an empty reason means that it can.
template <class Row>
class KernelTable {
public:
    KernelTable(std::initializer_list<std::span<const Row>> families) : by_op_(all_ops().size()) {
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

    /// The row that runs `node`, or null and, in `*why`, what each one asked has against it. Rows
    /// see only nodes such as their op builds. `objection(row)` asks a row.
    template <class Ask>
    const Row* choose(const Tensor& node, Objections* why, const Ask& objection) const {
        if (check_node(node)) return choose_sound(node, why, objection);
        if (why != nullptr) why->add({}, kUnsoundNode);
        return nullptr;
    }

    /// The same for a node that `check_node` accepts.
    template <class Ask>
    const Row* choose_sound(const Tensor& node, Objections* why, const Ask& objection) const {
        const auto decline = [&](std::string_view kernel, std::string_view reason) -> const Row* {
            if (why != nullptr) why->add(kernel, reason);
            return nullptr;
        };
        if (of(node.op).empty()) return decline({}, "there is no kernel for this op");
        for (const Row* row : of(node.op)) {
            const std::string_view reason = objection(*row);
            if (reason.empty()) return row;
            decline(row->name, reason);
        }
        return nullptr;
    }
    const Row* choose(const Tensor& node, Objections* why = nullptr) const {
        return choose(node, why, [&](const Row& row) { return row.objection(node); });
    }
    const Row* choose_sound(const Tensor& node) const {
        return choose_sound(node, nullptr, [&](const Row& row) { return row.objection(node); });
    }

private:
    std::vector<std::vector<const Row*>> by_op_;
};

}  // namespace heddle::gpu
