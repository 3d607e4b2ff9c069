#pragma once

#include "ops/descriptor.hpp"
#include "ops/tiling.hpp"

/// Rules that SOFT_MAX and FLASH_ATTN_EXT have in common.
namespace heddle::ops {

/// A mask is contiguous, and its planes serve the heads and batches of x by turns. The slope of a
/// positive `max_bias` multiplies the mask, so there must be one.
inline Result<> check_attention_mask(const Tensor& x, const Tensor* mask, float max_bias) {
    if (mask == nullptr) {
        if (max_bias > 0) return invalid("max_bias ", max_bias, " needs a mask");
        return ok();
    }
    if (!is_contiguous(*mask)) return invalid("mask ", describe(*mask), " is not contiguous");
    if (!divides(mask->ne[2], x.ne[2]) || !divides(mask->ne[3], x.ne[3])) {
        return invalid("the planes of mask ", describe(*mask), " do not divide those of ",
                       describe(x));
    }
    return ok();
}

/// Sinks are one F32 logit per head of x.
inline Result<> check_sinks(const Tensor& x, const Tensor& sinks) {
    if (sinks.type != GGML_TYPE_F32) return invalid("sinks ", describe(sinks), " are not F32");
    if (sinks.ne[0] != x.ne[2] || (is_empty(sinks) && !is_empty(x))) {
        return invalid("sinks ", describe(sinks), " are not one for each of the ", x.ne[2],
                       " heads of ", describe(x));
    }
    return ok();
}

/// Gives a finished node of `D` its sinks, in the last source slot; null takes them away.
template <class D>
Result<> set_sinks(Tensor& node, Tensor* sinks) {
    constexpr std::size_t slot = D::sources.size() - 1;
    if (node.op != D::id) return invalid("sinks: ", describe(node), " is not a ", D::name);
    if (node.src[0] == nullptr) return invalid("sinks: ", describe(node), " has no operands");
    if (sinks != nullptr) {
        if (node.src[slot] != nullptr)
            return invalid("sinks: ", describe(node), " has some already");
        if (auto checked = check_sinks(*node.src[0], *sinks); !checked) {
            return std::move(checked).error().within("sinks");
        }
    }
    node.src[slot] = sinks;
    return ok();
}

}  // namespace heddle::ops
