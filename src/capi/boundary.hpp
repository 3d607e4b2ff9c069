#pragma once

#include <initializer_list>

#include "core/boundary.hpp"
#include "ops/build.hpp"

/// What every C function goes through, and how those that make nodes do.
namespace heddle::capi {

/// The node of `D` for a C caller: `return node<ops::Roll>(ctx, {.shift = {s0, s1, s2, s3}}, {a});`
template <Descriptor D>
Tensor* node(Context* context, const Args<D>& args, std::initializer_list<Tensor*> src) noexcept {
    return made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(context, D::name, "the context"));
        return build<D>(*context, args, src);
    });
}

/// The same in the memory of the first operand.
template <Descriptor D>
Tensor* node_in_place(Context* context, const Args<D>& args,
                      std::initializer_list<Tensor*> src) noexcept {
    return made([&]() -> Result<Tensor*> {
        HEDDLE_TRY(require(context, D::name, "the context"));
        return build_in_place<D>(*context, args, src);
    });
}

}  // namespace heddle::capi
