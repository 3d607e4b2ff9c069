#pragma once

#include <algorithm>

#include "backends/gpu/hazards.hpp"
#include "core/tensor.hpp"

/// Which bytes tensors take, as fusion asks for it.
namespace heddle::gpu {

inline const Tensor* root_of(const Tensor* tensor) {
    while (tensor->view_src != nullptr) tensor = tensor->view_src;
    return tensor;
}

inline Range range_of(const Tensor& tensor) {
    const auto begin = reinterpret_cast<std::uint64_t>(tensor.data);
    return {begin, begin + byte_size(tensor)};
}

/// Whether two tensors share a byte. Without memory only those that have one root do.
inline bool overlap(const Tensor& a, const Tensor& b) {
    if (a.data == nullptr || b.data == nullptr) return root_of(&a) == root_of(&b);
    return range_of(a).overlaps(range_of(b));
}

/// Whether `node` neither writes what `other` touches nor the other way round.
inline bool are_apart(const Tensor& node, const Tensor& other) {
    if (overlap(node, other)) return false;
    const auto touches = [](const Tensor& reader, const Tensor& written) {
        return std::ranges::any_of(reader.src, [&](const Tensor* source) {
            return source != nullptr && overlap(*source, written);
        });
    };
    return !touches(node, other) && !touches(other, node);
}

/// Whether all elements of the tensor lie at multiples of so many bytes.
inline bool has_elements_at(const Tensor& tensor, std::size_t alignment) {
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % alignment != 0) return false;
    for (int d = 0; d < kMaxDims; ++d) {
        if (tensor.ne[d] > 1 && tensor.nb[d] % alignment != 0) return false;
    }
    return true;
}

}  // namespace heddle::gpu
