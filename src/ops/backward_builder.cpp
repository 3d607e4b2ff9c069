#include "ops/backward_builder.hpp"

#include <algorithm>

#include "core/hash_set.hpp"
#include "ops/add1.hpp"
#include "ops/binary.hpp"
#include "ops/catalogue.hpp"
#include "ops/copy_builders.hpp"
#include "ops/generate.hpp"
#include "ops/scale.hpp"
#include "ops/unary.hpp"
#include "ops/view_builders.hpp"

namespace heddle {

bool carries_gradient(const Tensor& node, std::size_t slot) {
    if (node.src[slot] == nullptr) return false;
    const OpInfo* op = find_op(node.op);
    return op == nullptr || op->carries_gradient == nullptr || op->carries_gradient(node, slot);
}

Backward::Backward(Context& context, Graph& graph)
    : context_(context),
      graph_(graph),
      wanted_(graph.visited_hash_set.size),
      accumulates_(graph.visited_hash_set.size) {}

// ---- for rules ---------------------------------------------------------------------------------

std::size_t Backward::slot_of(const Tensor& x) const { return find(graph_.visited_hash_set, &x); }

bool Backward::wants(const Tensor& x) const {
    const std::size_t slot = slot_of(x);
    return slot != kNoSlot && wanted_[slot] != 0;
}

Result<Tensor*> Backward::sum_of_tiles(Result<Tensor*> t, const Tensor& x) {
    if (!t || same_shape(**t, x)) return t;
    return repeat_back_like(context_, *t, &x);
}

Result<Tensor*> Backward::reshaped(Result<Tensor*> t, const Tensor& x) {
    if (!t || same_shape(**t, x)) return t;
    if (!is_contiguous(**t)) t = make<ops::Cont>({.params = {}}, {*t});
    if (!t) return t;
    return reshape_like(context_, *t, &x);
}

Result<Tensor*> Backward::scaled(Result<Tensor*> t, float factor) {
    if (!t) return t;
    return make<ops::Scale>({.scale = factor}, {*t});
}

Result<Tensor*> Backward::zeros_like(Tensor& x) {
    Tensor* shape = &x;
    if (x.type != GGML_TYPE_F32) {
        HEDDLE_TRY_ASSIGN(shape, cast(context_, &x, GGML_TYPE_F32));
    } else if (!is_contiguous(x)) {
        HEDDLE_TRY_ASSIGN(shape, make<ops::Cont>({.params = {}}, {&x}));
    }
    return make<ops::Fill>({.value = 0}, {shape});
}

Error Backward::no_rule(const Tensor& node) {
    return failure(Errc::unsupported, "no gradient rule for op ", describe_op_of(node), " at node ",
                   describe(node));
}

// ---- contributions -----------------------------------------------------------------------------

bool Backward::has_accumulator(const Tensor& x) const { return accumulates_[slot_of(x)] != 0; }

/// `t` as a gradient of `x` must be.
Result<Tensor*> Backward::checked(const Tensor& x, Tensor& t) {
    if (!same_shape(t, x) || t.type != GGML_TYPE_F32) {
        return invalid("a gradient ", describe(t), " does not fit ", describe(x));
    }
    if (is_contiguous(t)) return &t;
    return make<ops::Cont>({.params = {}}, {&t});
}

Result<> Backward::keep(Tensor& x, Result<Tensor*> gradient) {
    if (!gradient) return std::move(gradient).error();
    set_name(**gradient, text("grad for ", name_of(x)));
    HEDDLE_TRY(expand(graph_, **gradient, true));
    graph_.grads[slot_of(x)] = *gradient;
    given_.push_back(&x);
    return ok();
}

Result<> Backward::add(Tensor& x, Result<Tensor*> t) {
    if (t) t = checked(x, **t);
    if (!t) return std::move(t).error();
    Tensor* sum = gradient(x);
    if (sum == nullptr) return keep(x, t);
    return keep(x, build_either<ops::Add>(context_, {}, {sum, *t}, has_accumulator(x)));
}

Result<> Backward::subtract(Tensor& x, Result<Tensor*> t) {
    if (t) t = checked(x, **t);
    if (!t) return std::move(t).error();
    Tensor* sum = gradient(x);
    if (sum == nullptr) {
        return keep(x, make<ops::Unary>(ops::Unary::of(GGML_UNARY_OP_NEG), {*t}));
    }
    return keep(x, build_either<ops::Sub>(context_, {}, {sum, *t}, has_accumulator(x)));
}

Result<> Backward::add_to_all(Tensor& x, Result<Tensor*> t) {
    if (!t) return std::move(t).error();
    Tensor* sum = gradient(x);
    if (sum == nullptr) return keep(x, repeat_like(context_, *t, &x));
    return keep(x, build_either<ops::Add1>(context_, {}, {sum, *t}, has_accumulator(x)));
}

Result<> Backward::add_to_region(Tensor& x, Result<Tensor*> t, const ops::Region& region) {
    if (!t) return std::move(t).error();
    Tensor* sum = gradient(x);
    // Zeros of our own may be written to; a gradient that others look at too may not.
    const bool in_place = sum == nullptr || has_accumulator(x);
    if (sum == nullptr) {
        HEDDLE_TRY_ASSIGN(sum, zeros_like(x));
    }
    return keep(
        x, build_either<ops::Acc>(context_, ops::Acc::at(region, in_place), {sum, *t}, in_place));
}

// ---- for the driver ----------------------------------------------------------------------------

void Backward::mark_wanted(const Tensor& x) { wanted_[slot_of(x)] = 1; }

void Backward::start(const Tensor& x, Tensor& gradient, bool accumulates) {
    graph_.grads[slot_of(x)] = &gradient;
    accumulates_[slot_of(x)] = accumulates ? 1 : 0;
}

Result<> Backward::pass_on(Tensor& node) {
    const auto is_wanted = [&](std::size_t slot) {
        return carries_gradient(node, slot) && wants(*node.src[slot]);
    };
    bool any = false;
    for (std::size_t slot = 0; slot < kMaxSources; ++slot) any |= is_wanted(slot);
    if (!any) return ok();
    const OpInfo* op = find_op(node.op);
    if (op == nullptr || op->gradient == nullptr) return no_rule(node);
    given_.clear();
    auto done = op->gradient(*this, node);
    if (!done && done.error().code == Errc::unsupported) return done;
    if (!done) return std::move(done).error().within(text("gradient of ", describe(node)));
    for (std::size_t slot = 0; slot < kMaxSources; ++slot) {
        if (!is_wanted(slot) || std::ranges::count(given_, node.src[slot]) > 0) continue;
        return failure(Errc::unsupported, "no gradient rule for operand ", slot, " ",
                       describe(*node.src[slot]), " of op ", describe_op_of(node), " at node ",
                       describe(node));
    }
    return ok();
}

}  // namespace heddle
