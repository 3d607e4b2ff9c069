#include "ops/check.hpp"

#include <algorithm>
#include <bit>
#include <cctype>

#include "core/sound_layout.hpp"
#include "ops/all.hpp"

namespace heddle {
namespace {

constexpr bool ends_with_mark(std::string_view source) { return source.ends_with('?'); }

/// What messages call an operand.
std::string role_of(const OpInfo& op, std::size_t slot) {
    std::string_view name = op.sources[slot];
    if (ends_with_mark(name)) name.remove_suffix(1);
    return text("operand ", name);
}

/// What is asked of the operands of an op, besides its shape rule.
struct Demands {
    unsigned operands = 0;      ///< how many there can be
    unsigned required = 0;      ///< bit i: operand i must be there
    unsigned may_be_empty = 0;  ///< bit i: operand i may have no elements where the result has some
    unsigned may_be_itself = 0;
    bool has_free_strides = false;
};

constexpr auto kDemands = AllOps::table<Demands>([]<Descriptor D>() constexpr {
    Demands demands;
    demands.operands = D::sources.size();
    for (unsigned slot = 0; slot < D::sources.size(); ++slot) {
        if (!ends_with_mark(D::sources[slot])) demands.required |= 1u << slot;
    }
    if constexpr (requires { D::may_be_empty; }) demands.may_be_empty = D::may_be_empty;
    if (kOpInfo<D>.is_view) demands.may_be_empty = ~0u;  // nothing is read
    if constexpr (requires { D::may_be_itself; }) demands.may_be_itself = D::may_be_itself;
    if constexpr (requires { D::has_free_strides; }) demands.has_free_strides = true;
    return demands;
});

/// Cold, and out of the way: what is wrong is put into words here.
[[gnu::cold, gnu::noinline]] Error bad_layout(const OpInfo& op, std::string_view role,
                                              const Tensor& tensor) {
    if (auto sound = check_layout(tensor); !sound) {
        return std::move(sound).error().within(
            text(lower_name(op), ": ", role, ' ', describe(tensor)));
    }
    return invalid(lower_name(op), ": ", role, ' ', describe(tensor), " is a view of ",
                   byte_size(tensor), " bytes at offset ", tensor.view_offs,
                   " and reaches past the ", byte_size(*tensor.view_src), " bytes of ",
                   describe(*tensor.view_src));
}

[[gnu::cold, gnu::noinline]] Error bad_operand(const OpInfo& op, const Tensor& node,
                                               std::size_t slot) {
    if (node.src[slot] == nullptr) return missing_operand(op, slot);
    const std::string role = role_of(op, slot);
    if (node.src[slot] == &node) {
        return invalid(lower_name(op), ": ", role, ' ', describe(node), " is the node itself");
    }
    return bad_layout(op, role, *node.src[slot]);
}

/// `empty`: bit i is set for operand i.
[[gnu::cold, gnu::noinline]] Error empty_operand(const OpInfo& op, const Tensor& node,
                                                 unsigned empty) {
    const auto slot = static_cast<std::size_t>(std::countr_zero(empty));
    return invalid(lower_name(op), ": ", role_of(op, slot), ' ', describe(*node.src[slot]),
                   " is empty, the result ", describe(node), " is not");
}

[[gnu::cold, gnu::noinline]] Error other_result(const OpInfo& op, const Tensor& node,
                                                const TensorSpec& spec) {
    if (spec.type != node.type || spec.extent != extents_of(node)) {
        return invalid(lower_name(op), ": the node ", describe(node), " should be ",
                       name_of(spec.type), describe(spec.extent));
    }
    return invalid(lower_name(op), ": the node ", describe(node), " has strides of ", node.nb[0],
                   ", ", node.nb[1], ", ", node.nb[2], " and ", node.nb[3], " bytes, not ",
                   spec.stride[0], ", ", spec.stride[1], ", ", spec.stride[2], " and ",
                   spec.stride[3]);
}

bool is_sound(const Tensor& tensor, std::size_t* bytes) {
    return has_sound_layout(tensor, bytes) && is_within_root(tensor, *bytes);
}

/// Whether the steps between elements are the same. Where there is one element there is no step.
bool same_steps(const Tensor& node, const std::size_t* stride) {
    if (std::equal(stride, stride + kMaxDims, node.nb)) return true;
    if (is_empty(node)) return true;
    for (int d = 0; d < kMaxDims; ++d) {
        const std::int64_t one = d == 0 ? block_size(node.type) : 1;
        if (node.ne[d] > one && node.nb[d] != stride[d]) return false;
    }
    return true;
}

/// Of several layouts that a node can have: packed as inferred, or that of the operand it is
/// computed in place of.
bool has_strides(const OpInfo& op, const Tensor& node, const TensorSpec& spec) {
    return same_steps(node, spec.stride.data()) ||
           (op.can_run_in_place && node.src[0] != nullptr && same_steps(node, node.src[0]->nb));
}

}  // namespace

std::string lower_name(const OpInfo& op) {
    std::string name(op.name);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name;
}

bool is_optional(const OpInfo& op, std::size_t slot) { return ends_with_mark(op.sources[slot]); }

bool may_be_itself(Op op, std::size_t slot) {
    const auto number = static_cast<std::size_t>(op);
    return number < kDemands.size() && (kDemands[number].may_be_itself >> slot & 1) != 0;
}

Error missing_operand(const OpInfo& op, std::size_t slot) {
    return invalid(lower_name(op), ": operand ", op.sources[slot], " is missing");
}

Result<> check_node(const Tensor& node) {
    const auto number = static_cast<std::size_t>(node.op);
    if (number >= kOps.size()) return invalid("there is no op ", static_cast<int>(node.op));
    const OpInfo* const op = &kOps[number];
    const Demands& demands = kDemands[number];
    unsigned empty = 0;
    for (unsigned slot = 0; slot < demands.operands; ++slot) {
        const Tensor* const source = node.src[slot];
        if (source == nullptr) {
            if ((demands.required >> slot & 1) != 0) return bad_operand(*op, node, slot);
            continue;
        }
        if (source == &node) {
            if ((demands.may_be_itself >> slot & 1) == 0) return bad_operand(*op, node, slot);
            continue;
        }
        std::size_t bytes = 0;
        if (!is_sound(*source, &bytes)) return bad_operand(*op, node, slot);
        empty |= bytes == 0 ? 1u << slot : 0u;
    }
    std::size_t bytes = 0;
    if (!is_sound(node, &bytes)) return bad_layout(*op, "the node", node);

    auto spec = op->infer_node(node);
    if (!spec) return std::move(spec).error().within(lower_name(*op));
    if (spec->type != node.type || !std::equal(spec->extent.begin(), spec->extent.end(), node.ne) ||
        (!demands.has_free_strides && !has_strides(*op, node, *spec))) {
        return other_result(*op, node, *spec);
    }
    empty &= ~demands.may_be_empty;
    if (empty != 0 && bytes > 0) return empty_operand(*op, node, empty);
    return ok();
}

}  // namespace heddle
