#pragma once

#include <cstddef>

#include "core/tensor.hpp"

namespace heddle {

/// Tensors are read in the order of a graph's lists, which is hardly ever that of their addresses.
/// So many places ahead they are asked for: far enough that they have come when their turn is, near
/// enough that they have not gone again.
inline constexpr std::size_t kReadAhead = 24;

/// Brings one line of memory into L2. CPUs can wait for more lines there than
/// in L1: the tensors of a large graph come half as fast again. Inlined in any case, like
/// those below: compilers leave out calls of functions that do nothing else, as they have no
/// effect.
[[gnu::always_inline]] inline void prefetch_line(const void* address) {
    __builtin_prefetch(address, 0, 2);
}

/// Brings the tensor near, all but its name: in large graphs waiting for memory is most of the
/// time.
[[gnu::always_inline]] inline void prefetch(const Tensor* tensor) {
    const auto* bytes = reinterpret_cast<const char*>(tensor);
    for (std::size_t at = 0; at < offsetof(Tensor, name); at += 64) prefetch_line(bytes + at);
    prefetch_line(&tensor->data);
}

/// Only what says where its memory is.
[[gnu::always_inline]] inline void prefetch_place(const Tensor* tensor) {
    prefetch_line(&tensor->buffer);
    prefetch_line(&tensor->data);
}

/// Only type, extents and strides.
[[gnu::always_inline]] inline void prefetch_layout(const Tensor* tensor) {
    prefetch_line(tensor);
    prefetch_line(&tensor->op);
}

}  // namespace heddle
