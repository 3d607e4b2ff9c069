#pragma once

#include <array>

#include "backends/cuda/kernel.hpp"

namespace heddle::cuda {

/// A ROPE, a SET_ROWS, or a SET_ROWS of what a ROPE gives.
struct RopeStore {
    const Tensor* rope = nullptr;   ///< null: rows are stored as they are
    const Tensor* store = nullptr;  ///< null: the result of the ROPE

    const Tensor& result() const { return store != nullptr ? *store : *rope; }
};

/// Several of them that do not depend on each other, as before an attention: queries are turned,
/// keys turned and stored, values stored.
struct RopeStoreGroup {
    std::array<RopeStore, 4> members{};
    int count = 0;
};

/// Why a node is not one for a group, although its own kernel runs it; empty if it is.
std::string_view rope_objection(const Tensor& node);
std::string_view store_objection(const Tensor& node);

void launch_rope_store(const RopeStoreGroup& group, const Launch& launch);

}  // namespace heddle::cuda
