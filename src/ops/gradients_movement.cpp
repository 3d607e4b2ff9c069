// Gradients of ops that move elements or look at them in another way. dy is the gradient of the
// node; it is densely packed.

#include <algorithm>
#include <array>

#include "ops/acc_set.hpp"
#include "ops/backward_builder.hpp"
#include "ops/copy_builders.hpp"
#include "ops/repeat.hpp"
#include "ops/rows.hpp"
#include "ops/view_builders.hpp"

namespace heddle::ops {
namespace {

/// For ops that keep the order of the elements.
Result<> keep_order(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, backward.reshaped(backward.gradient(node), x));
}

}  // namespace

// ---- copies ------------------------------------------------------------------------------------

Result<> Dup::gradient(Backward& backward, Tensor& node) { return keep_order(backward, node); }
Result<> Cont::gradient(Backward& backward, Tensor& node) { return keep_order(backward, node); }
Result<> Cpy::gradient(Backward& backward, Tensor& node) { return keep_order(backward, node); }

Result<> Repeat::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, backward.sum_of_tiles(backward.gradient(node), x));
}

Result<> RepeatBack::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    return backward.add(x, repeat_like(backward.context(), backward.gradient(node), &x));
}

Result<> GetRows::gradient(Backward& backward, Tensor& node) {
    Tensor &x = *node.src[0], &rows = *node.src[1];
    return backward.add(x,
                        get_rows_back_like(backward.context(), backward.gradient(node), &rows, &x));
}

// ---- views -------------------------------------------------------------------------------------

Result<> Reshape::gradient(Backward& backward, Tensor& node) { return keep_order(backward, node); }

Result<> Permute::gradient(Backward& backward, Tensor& node) {
    const auto axis = unpack<Params>(node).axis;
    Params inverse{};
    for (std::size_t d = 0; d < axis.size(); ++d) {
        inverse.axis[static_cast<std::size_t>(axis[d])] = static_cast<std::int32_t>(d);
    }
    return backward.add(*node.src[0], backward.make<Permute>(inverse, {backward.gradient(node)}));
}

Result<> Transpose::gradient(Backward& backward, Tensor& node) {
    return backward.add(*node.src[0], backward.make<Transpose>({}, {backward.gradient(node)}));
}

namespace {

/// Whether two elements of `view` share memory: their gradients would have to be added up, which
/// ACC does not do within its second operand.
bool overlaps_itself(const Tensor& view) {
    if (is_empty(view)) return false;
    std::array<int, kMaxDims> by_stride{0, 1, 2, 3};
    std::ranges::sort(by_stride, {}, [&](int d) { return view.nb[d]; });
    std::size_t end = size_of(view.type);  // of what the dimensions so far cover
    for (const int d : by_stride) {
        if (view.ne[d] == 1) continue;
        if (view.nb[d] < end) return true;
        end += static_cast<std::size_t>(view.ne[d] - 1) * view.nb[d];
    }
    return false;
}

}  // namespace

/// The view's place in x, in bytes, is a place in the gradient where that is laid out as x is, but
/// for the size of an element.
Result<> View::gradient(Backward& backward, Tensor& node) {
    Tensor& x = *node.src[0];
    if (!is_contiguous(x)) {
        return failure(Errc::unsupported, "no gradient rule for a view of ", describe(x),
                       ", which is not contiguous");
    }
    if (overlaps_itself(node)) {
        return failure(Errc::unsupported, "no gradient rule for the view ", describe(node),
                       ", whose elements overlap");
    }
    const std::size_t element = size_of(x.type);
    const auto place = [&](std::size_t bytes) { return bytes / element * sizeof(float); };
    const std::size_t offset = unpack<Params>(node).offset;
    for (const std::size_t bytes : {offset, node.nb[1], node.nb[2], node.nb[3]}) {
        if (bytes % element == 0) continue;
        return invalid("byte ", bytes, " of the view is not at an element of ", describe(x));
    }
    return backward.add_to_region(x, backward.gradient(node),
                                  {.nb1 = place(node.nb[1]),
                                   .nb2 = place(node.nb[2]),
                                   .nb3 = place(node.nb[3]),
                                   .offset = place(offset)});
}

// ---- regions -----------------------------------------------------------------------------------

namespace {

/// The part of the gradient that stands where b was written.
Result<Tensor*> part_under_b(Backward& backward, const Tensor& node) {
    if (node.type != GGML_TYPE_F32) return Backward::no_rule(node);
    const auto params = unpack<RegionOp::Params>(node);
    const auto bytes = [](std::int32_t word) {
        return std::size_t{static_cast<std::uint32_t>(word)};  // it was cut to 32 bits
    };
    const std::array stride{bytes(params.nb1), bytes(params.nb2), bytes(params.nb3)};
    return backward.make<View>(
        {.params = {bytes(params.offset)}, .extent = extents_of(*node.src[1]), .stride = stride},
        {backward.gradient(node)});
}

}  // namespace

Result<> Acc::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    if (backward.wants(a)) HEDDLE_TRY(backward.add(a, backward.gradient(node)));
    if (backward.wants(b)) HEDDLE_TRY(backward.add(b, part_under_b(backward, node)));
    return ok();
}

/// What a held where b was written does not count: its gradient is zero there.
Result<> Set::gradient(Backward& backward, Tensor& node) {
    Tensor &a = *node.src[0], &b = *node.src[1];
    if (backward.wants(a)) {
        if (node.type != GGML_TYPE_F32) return Backward::no_rule(node);
        auto args = recover(node);
        args.params.in_place = 0;
        HEDDLE_TRY_ASSIGN(Tensor * zeros, backward.zeros_like(b));
        HEDDLE_TRY(backward.add(a, backward.make<Set>(args, {backward.gradient(node), zeros})));
    }
    if (backward.wants(b)) HEDDLE_TRY(backward.add(b, part_under_b(backward, node)));
    return ok();
}

}  // namespace heddle::ops
