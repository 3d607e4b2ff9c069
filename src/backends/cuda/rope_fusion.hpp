#pragma once

#include "backends/cuda/fusion.hpp"

/// How ROPE and SET_ROWS come together, and what must be apart from them.
namespace heddle::cuda {

/// Whether a node's memory is apart from all members'.
bool is_apart(const Tensor& node, const RopeStoreGroup& group);

/// Where the stored rows go is nothing that a member reads or writes. `own` is the number of the
/// member that stores them.
bool is_store_apart(const Tensor& store, const RopeStoreGroup& group, int own);

/// Makes it a member, if there is room and nothing against it.
bool add_rope(const Tensor& rope, RopeStoreGroup& group);

}  // namespace heddle::cuda
