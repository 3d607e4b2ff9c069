#pragma once

#include <initializer_list>
#include <span>

#include "ops/descriptor.hpp"

namespace heddle {

/// Makes the node of `op` over `src`, checked: no node exists whose shape was not inferred.
/// `args` is an `Args<D>` of the op, `params` the part of it that is stored. On failure the context
/// is as it was.
Result<Tensor*> build_node(Context& context, const OpInfo& op, const void* args, const void* params,
                           std::span<Tensor* const> src, bool in_place);

/// `build<ops::Roll>(context, {.shift = {1, 0, 0, 0}}, {x})`
template <Descriptor D>
Result<Tensor*> build(Context& context, const Args<D>& args, std::initializer_list<Tensor*> src) {
    return build_node(context, kOpInfo<D>, &args, &ArgsOf<D>::params(args),
                      {src.begin(), src.size()}, false);
}

/// The same, with the result in the memory of the first operand.
template <Descriptor D>
Result<Tensor*> build_in_place(Context& context, const Args<D>& args,
                               std::initializer_list<Tensor*> src) {
    static_assert(kOpInfo<D>.can_run_in_place);
    return build_node(context, kOpInfo<D>, &args, &ArgsOf<D>::params(args),
                      {src.begin(), src.size()}, true);
}

/// Chooses between the two by `in_place`.
template <Descriptor D>
Result<Tensor*> build_either(Context& context, const Args<D>& args,
                             std::initializer_list<Tensor*> src, bool in_place) {
    static_assert(kOpInfo<D>.can_run_in_place);
    return build_node(context, kOpInfo<D>, &args, &ArgsOf<D>::params(args),
                      {src.begin(), src.size()}, in_place);
}

}  // namespace heddle
