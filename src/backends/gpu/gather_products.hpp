#pragma once

#include <algorithm>
#include <span>

#include "backends/gpu/tensor_ranges.hpp"
#include "ggml/op_list.h"

namespace heddle::gpu {

/// How far ahead products of the same activations are looked for. Between those for queries, keys
/// and values are biases, norms, ROPE and stores.
inline constexpr std::size_t kProductReach = 24;

/// Whether `node` could run before `passed`: it uses nothing that they make or write. Memory has
/// not been planned yet, so that only what views have in common counts.
inline bool may_run_before(const Tensor& node, std::span<Tensor* const> passed) {
    if (node.view_src != nullptr) return false;
    return std::ranges::none_of(passed, [&](const Tensor* other) {
        return std::ranges::any_of(node.src, [&](const Tensor* source) {
            return source != nullptr && (source == other || root_of(source) == root_of(other));
        });
    });
}

/// Moves products up to the first one that reads the same activations: before memory is planned,
/// so that one launch can compute all of them.
inline void gather_products(std::span<Tensor*> nodes) {
    for (std::size_t first = 0; first + 1 < nodes.size(); ++first) {
        if (nodes[first]->op != GGML_OP_MUL_MAT) continue;
        std::size_t next = first + 1;
        // The last node of a list stays last.
        const std::size_t end = std::min(nodes.size() - 1, first + kProductReach);
        for (std::size_t i = next; i < end; ++i) {
            if (nodes[i]->op != GGML_OP_MUL_MAT || nodes[i]->src[1] != nodes[first]->src[1])
                continue;
            if (!may_run_before(*nodes[i], nodes.subspan(next, i - next))) continue;
            std::rotate(nodes.begin() + static_cast<std::ptrdiff_t>(next),
                        nodes.begin() + static_cast<std::ptrdiff_t>(i),
                        nodes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            ++next;
        }
        first = next - 1;
    }
}

}  // namespace heddle::gpu
