#pragma once

#include <initializer_list>
#include <vector>

#include "core/graph.hpp"
#include "ops/acc_set.hpp"
#include "ops/build.hpp"

namespace heddle {

/// What the gradient rules of ops work with: it knows which tensors of a graph need a gradient,
/// and adds up what they are given.
///
/// Gradients are always f32, densely packed, and have the extents of their tensor; rules need not
/// look. Everything made for a gradient goes to the end of the graph. `src/train` drives it.
class Backward {
public:
    /// `graph` has tables for gradients; they are filled here. Both outlive this.
    Backward(Context& context, Graph& graph);

    // ---- for rules ---------------------------------------------------------------------------

    /// Whether `x` needs a gradient: contributions to others would be built for nothing.
    bool wants(const Tensor& x) const;

    /// The gradient of `node` that a rule hands on. It is complete when the rule runs.
    Tensor* gradient(const Tensor& node) const { return gradient_of(graph_, node); }

    /// A node of `D`: `backward.make<Mul>({}, {dy, b})`.
    template <Descriptor D>
    Result<Tensor*> make(const Args<D>& args, std::initializer_list<Tensor*> src) {
        return build<D>(context_, args, src);
    }
    Context& context() { return context_; }

    /// `t` with its tiles of `x`'s extents added up, where it has more than one: undoes that `x`
    /// was repeated.
    Result<Tensor*> sum_of_tiles(Result<Tensor*> t, const Tensor& x);

    /// `t` with the extents of `x`.
    Result<Tensor*> reshaped(Result<Tensor*> t, const Tensor& x);

    /// `t` scaled by `factor`.
    Result<Tensor*> scaled(Result<Tensor*> t, float factor);

    /// f32 zeros with the extents of `x`, whatever `x` holds.
    Result<Tensor*> zeros_like(Tensor& x);

    // ---- contributions to the gradient of x --------------------------------------------------
    //
    // Where x has a gradient already, the contribution is added to it, in the memory of the
    // accumulator if x has one. Else it becomes the gradient, as it is: one tensor may be the
    // gradient of several others.

    Result<> add(Tensor& x, Result<Tensor*> t);
    Result<> subtract(Tensor& x, Result<Tensor*> t);

    /// Adds the single value `t` to every element.
    Result<> add_to_all(Tensor& x, Result<Tensor*> t);

    /// Adds `t` to the elements of `region`, in bytes of a densely packed f32 x.
    Result<> add_to_region(Tensor& x, Result<Tensor*> t, const ops::Region& region);

    /// The failure of a rule that does not cover this node.
    static Error no_rule(const Tensor& node);

    // ---- for the driver ----------------------------------------------------------------------

    void mark_wanted(const Tensor& x);

    /// Gives `x` a gradient to start from. With `accumulates`, contributions are added in its
    /// place.
    void start(const Tensor& x, Tensor& gradient, bool accumulates);

    /// Applies the rule of `node`, which has a gradient: all operands that want one have been given
    /// their part afterwards.
    Result<> pass_on(Tensor& node);

private:
    std::size_t slot_of(const Tensor& x) const;
    bool has_accumulator(const Tensor& x) const;
    Result<Tensor*> checked(const Tensor& x, Tensor& t);
    Result<> keep(Tensor& x, Result<Tensor*> gradient);

    Context& context_;
    Graph& graph_;
    std::vector<char> wanted_;          ///< by slot of the graph's table
    std::vector<char> accumulates_;     ///< likewise
    std::vector<const Tensor*> given_;  ///< operands that the running rule has reached
};

/// Whether a gradient can flow from `node` to its operand in `slot`: there is one, and the result
/// depends on it.
bool carries_gradient(const Tensor& node, std::size_t slot);

}  // namespace heddle
