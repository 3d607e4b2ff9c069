#pragma once

#include <cstddef>

#include "core/tensor.hpp"

namespace heddle {

/// Tensors are read in the order of a graph's lists, which is hardly ever that of their addresses.
/// So many places ahead they are asked for: far enough that they have come when their turn is, near
/// enough that they have not gone again.
inline constexpr std::size_t kReadAhead = 6;

/// Brings the tensor near, all but its name: in large graphs waiting for memory is most of the
/// time. Inlined in any case: compilers leave out calls of functions that do nothing else, as they
/// have no effect.
[[gnu::always_inline]] inline void prefetch(const Tensor* tensor) {
    const auto* bytes = reinterpret_cast<const char*>(tensor);
    for (std::size_t at = 0; at < offsetof(Tensor, name); at += 64) __builtin_prefetch(bytes + at);
    __builtin_prefetch(&tensor->data);
}

}  // namespace heddle
