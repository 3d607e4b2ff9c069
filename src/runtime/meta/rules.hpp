#pragma once

#include <array>

#include "runtime/meta/split.hpp"

namespace heddle::meta {

/// A source of a node as rules see it.
struct Source {
    const Tensor* tensor = nullptr;  ///< null: the node has no such source
    Split split;                     ///< a sum that was computed counts as mirrored
    bool is_computed_sum = false;    ///< as it is, before it is put together
};
using NodeSources = std::array<Source, kMaxSources>;

/// How the result of `node` lies on the devices if each computes it from its parts of the sources.
/// Fails, naming node and sources, where that would not give the result.
Result<Split> derive(const Tensor& node, const NodeSources& sources, std::size_t devices);

/// Whether the op is computed on whole tensors only, each device doing the same.
bool takes_mirrored_only(Op op);

}  // namespace heddle::meta
