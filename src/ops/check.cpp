#include "ops/check.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstring>

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

/// The bits that must be 0 in strides and offsets: elements lie at multiples of their size, blocks,
/// which begin with a number of 16 bits unless their size is odd, at multiples of 2.
inline std::size_t unaligned_bits(const TypeInfo& info) {
    return info.block == 1 ? info.bytes - 1 : ~info.bytes & 1;
}

/// Strides of dimensions of extent 1 mean nothing.
[[gnu::cold, gnu::noinline]] bool is_aligned_slow(const Tensor& t, std::size_t mask) {
    if (is_empty(t)) return true;
    std::size_t steps = t.view_src != nullptr ? t.view_offs : 0;
    for (int d = 0; d < kMaxDims; ++d) {
        if (t.ne[d] > 1) steps |= t.nb[d];
    }
    return (steps & mask) == 0;
}

/// Whether kernels can read elements where they lie. The type is known to be one.
inline bool is_aligned(const Tensor& t) {
    const std::size_t mask = unaligned_bits(detail::find_type(t.type));
    const std::size_t offset = t.view_src != nullptr ? t.view_offs : 0;
    const std::size_t steps = t.nb[0] | t.nb[1] | t.nb[2] | t.nb[3] | offset;
    return (steps & mask) == 0 || is_aligned_slow(t, mask);
}

/// Cold, and out of the way: what is wrong is put into words here.
[[gnu::cold, gnu::noinline]] Error bad_layout(const OpInfo& op, std::string_view role,
                                              const Tensor& tensor) {
    if (auto sound = check_layout(tensor); !sound) {
        return std::move(sound).error().within(
            text(lower_name(op), ": ", role, ' ', describe(tensor)));
    }
    if (!is_aligned(tensor)) {
        return invalid(lower_name(op), ": ", role, ' ', describe(tensor), " at offset ",
                       tensor.view_offs, " with strides of ", tensor.nb[0], ", ", tensor.nb[1],
                       ", ", tensor.nb[2], " and ", tensor.nb[3],
                       " bytes has elements that are not at a multiple of ",
                       unaligned_bits(detail::find_type(tensor.type)) + 1, " bytes");
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

/// Kernels walk along the rows of an operand even where these have no elements. `empty`: bit i is
/// set for operand i.
[[gnu::cold, gnu::noinline]] Result<> check_empty_rows(const OpInfo& op, const Tensor& node,
                                                       unsigned empty) {
    constexpr std::int64_t kMostSteps = std::int64_t{1} << 28;  // a fraction of a second
    for (; empty != 0; empty &= empty - 1) {
        const auto slot = static_cast<std::size_t>(std::countr_zero(empty));
        std::int64_t steps = 1;
        for (const std::int64_t extent : node.src[slot]->ne) {
            const bool fits =
                !__builtin_mul_overflow(steps, std::max<std::int64_t>(extent, 1), &steps);
            if (fits && steps <= kMostSteps) continue;
            return invalid(lower_name(op), ": ", role_of(op, slot), ' ', describe(*node.src[slot]),
                           " has no elements, in more than ", kMostSteps, " rows");
        }
    }
    return ok();
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
    return has_sound_layout(tensor, bytes) && is_within_root(tensor, *bytes) && is_aligned(tensor);
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

/// What differs between tensors, collected: one branch at the end instead of many.
class Differences {
public:
    template <std::size_t bytes>
    void add(const void* a, const void* b) {
        static_assert(bytes % sizeof(Vector) == 0);
        for (std::size_t at = 0; at < bytes; at += sizeof(Vector)) {
            vectors_ |= load(a, at) ^ load(b, at);
        }
    }
    void add(std::uint64_t a, std::uint64_t b) { words_ |= a ^ b; }
    bool any() const { return (vectors_[0] | vectors_[1] | words_) != 0; }

private:
    using Vector [[gnu::vector_size(16)]] = std::uint64_t;

    static Vector load(const void* memory, std::size_t at) {
        Vector words;
        std::memcpy(&words, static_cast<const std::byte*>(memory) + at, sizeof words);
        return words;
    }

    Vector vectors_{};
    std::uint64_t words_ = 0;
};

/// Type, extents and strides.
[[gnu::always_inline]] inline void compare_layouts(const Tensor& a, const Tensor& b,
                                                   Differences& differences) {
    static_assert(offsetof(Tensor, nb) == offsetof(Tensor, ne) + sizeof(Tensor::ne));
    differences.add<sizeof a.ne + sizeof a.nb>(a.ne, b.ne);
    differences.add(a.type, b.type);
}

/// All that checks look at in a tensor. False: it is told here already that they differ.
[[gnu::always_inline]] inline bool compare(const Tensor& a, const Tensor& b,
                                           Differences& differences) {
    compare_layouts(a, b, differences);
    const Tensor *const root_a = a.view_src, *const root_b = b.view_src;
    if (root_a == nullptr && root_b == nullptr) return true;
    if (root_a == nullptr || root_b == nullptr) return false;
    differences.add(a.view_offs, b.view_offs);
    compare_layouts(*root_a, *root_b, differences);
    return true;
}

/// Whether `check_node` must say the same of both. Of operands, shape rules see type, extents,
/// strides, and whether they are parameters; of the node, its own parameters besides.
bool are_alike(const Tensor& a, const Tensor& b) {
    if (a.op != b.op) return false;
    Differences differences;
    differences.add<sizeof a.op_params>(a.op_params, b.op_params);
    if (!compare(a, b, differences)) return false;
    const unsigned operands = kDemands[static_cast<std::size_t>(a.op)].operands;
    for (unsigned slot = 0; slot < operands; ++slot) {
        const Tensor *const x = a.src[slot], *const y = b.src[slot];
        if (x == &a || y == &b) {
            if (x != &a || y != &b) return false;
            continue;
        }
        if (x == y) continue;
        if (x == nullptr || y == nullptr || !compare(*x, *y, differences)) return false;
        differences.add(x->flags & GGML_TENSOR_FLAG_PARAM, y->flags & GGML_TENSOR_FLAG_PARAM);
    }
    return !differences.any();
}

/// From what tells the nodes of a layer from each other. Those that share a place push each other
/// out, so that none of them is found.
inline std::size_t place_of(const Tensor& node) {
    const auto n = [](const Tensor& tensor, int d) {
        return static_cast<std::uint64_t>(tensor.ne[d]);
    };
    std::uint64_t sum = static_cast<std::uint64_t>(node.op) + (n(node, 0) << 7) +
                        (n(node, 1) << 20) + (n(node, 2) << 33) + (node.nb[1] << 42);
    if (const Tensor* const x = node.src[0]; x != nullptr) {
        sum += (n(*x, 0) << 13) + (n(*x, 1) << 28) + (static_cast<std::uint64_t>(x->type) << 50);
        if (x->view_src != nullptr) sum += std::uint64_t{1} << 40;
    }
    const Tensor* const y = node.src[1];
    if (y != nullptr && y->view_src != nullptr) sum += std::uint64_t{1} << 41;
    static_assert(GraphCheck::kPlaces == 256);
    return sum * 0x9E3779B97F4A7C15u >> 56;
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
    if (empty != 0 && bytes > 0 && !op->is_view) [[unlikely]] {
        const unsigned refused = empty & ~demands.may_be_empty;
        if (refused != 0) return empty_operand(*op, node, refused);
        return check_empty_rows(*op, node, empty);
    }
    return ok();
}

Result<> GraphCheck::check(const Tensor& node) {
    const Tensor*& like = accepted_[place_of(node)];
    if (like != nullptr && are_alike(*like, node)) return ok();
    return check_anew(node, like);
}

Result<> GraphCheck::check_anew(const Tensor& node, const Tensor*& place) {
    HEDDLE_TRY(check_node(node));
    place = &node;
    return ok();
}

}  // namespace heddle
